"""DXML: rows are mapped into an embedding of the label graph and decoded by their neighbors there."""

import warnings
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor, nn
from torch.nn.functional import huber_loss, logsigmoid, normalize
from torch.optim.lr_scheduler import CosineAnnealingLR

from pysldl._utils.constraints import Count, Share
from pysldl._utils.light_estimator import inherit_parameters
from pysldl.backend.threads import single_threaded_torch
from pysldl.baselines.euclidean_neighbors import euclidean_neighbors
from pysldl.baselines.torch_training.classifier import OptimizerName, TorchClassifier
from pysldl.baselines.torch_training.dense_batches import DenseBatches
from pysldl.baselines.torch_training.loop import Objective
from pysldl.embedding.label_graph import cooccurrence
from pysldl.exceptions import SLDLWarning

ANCHOR_BYTES = 64 << 20
NEGATIVES = 5
UNIGRAM_POWER = 0.75
WALK_LEARNING_RATE = 1e-2


@inherit_parameters
@dataclass(eq=False, repr=False)
class DXML(TorchClassifier):
    """DXML: deep extreme multi-label learning [1]_.

    Labels that share a row are linked, and DeepWalk [2]_ gives every label a vector. The target of a row is the mean of
    its labels' vectors; a network with one hidden layer learns to hit it under the Huber loss. A new row gets the
    labels of the training rows whose network outputs are nearest.

    No code of the authors is public, and beside the width of the embedding the SLDL paper gives no setting: the others
    come from the figure of the DXML paper and from two independent ports, or are our own. ``optimizer`` is
    that of the ports.

    Parameters
    ----------
    n_components : int, default=300
        Width of the embedding; the SLDL paper's setting.
    n_hidden : int, default=512
        What the ports pair with 300 components.
    n_neighbors : int, default=25
        Not public.
    vote : {"uniform", "distance"}, default="uniform"
        Whether a neighbor counts 1, nearer ones breaking ties, or 1/d.
    dropout : float, default=0.2
        Before the output is scaled; from one of the ports.
    normalize_output, normalize_target : bool, default=True
        Scale the network's output, as in the figure, and the target, which it would otherwise miss, to length 1.
    n_walks, walk_length, window, walk_epochs : int
        Walks from each label, their length, how far apart pairs may be, and steps of the skip-gram descent. Not public.
    learning_rate : float, default=0.15
        Step size of the optimizer. It falls to zero along half a cosine. The ports have 0.015, with batches of 8 and
        64. It and ``patience`` were chosen from a dozen settings on held-out training rows of stackex-chess and
        stackex-philosophy.
    weight_decay : float, default=5e-4
        How strongly the optimizer pulls the weights to zero. From the ports.

    Attributes
    ----------
    codes_ : ndarray of shape (n_samples, n_components), float32
        Network outputs of the training rows, validation rows included.
    Y_ : csr_array of shape (n_samples, n_labels)

    References
    ----------
    .. [1] W. Zhang, J. Yan, X. Wang, H. Zha. Deep extreme multi-label learning. ICMR 2018.
    .. [2] B. Perozzi, R. Al-Rfou, S. Skiena. DeepWalk: online learning of social representations. KDD 2014.

    Examples
    --------
    >>> from pysldl.baselines import DXML
    >>> X, Y = [[1, 0], [0, 1], [1, 0], [0, 1]], [[1, 0], [0, 1], [1, 0], [0, 1]]
    >>> DXML(n_components=8, n_neighbors=2, epochs=10, random_state=0).fit(X, Y).predict_topk(X, 1)[0].ravel()
    array([0, 1, 0, 1])
    """

    n_components: Count = 300
    n_hidden: Count = 512
    n_neighbors: Count = 25
    vote: Literal["uniform", "distance"] = "uniform"
    dropout: Share = 0.2
    normalize_output: bool = True
    normalize_target: bool = True
    n_walks: Count = 20
    walk_length: Count = 40
    window: Count = 5
    walk_epochs: Count = 200
    _: KW_ONLY
    learning_rate: float = 0.15
    weight_decay: float = 5e-4
    optimizer: OptimizerName = "sgd"
    patience: int | None = 30

    _saved_state = (*TorchClassifier._saved_state, "codes_", "Y_")

    def _build(self, n_features: int, n_labels: int) -> nn.Module:
        return nn.Sequential(
            nn.Linear(n_features, self.n_hidden),
            nn.ReLU(),
            nn.Linear(self.n_hidden, self.n_components),
            nn.Dropout(self.dropout),
        )

    def _schedule(self, optimizer: Any) -> Any:
        return CosineAnnealingLR(optimizer, T_max=self.epochs)

    def _objective(self, network: Any, train: DenseBatches) -> Objective:
        rng = np.random.default_rng(int(torch.randint(2**31 - 1, ())))
        walks = random_walks(label_links(train.Y), self.n_walks, self.walk_length, rng)
        vectors = skip_gram(
            walks, train.Y.shape[1], self.n_components, self.window, self.walk_epochs, rng=rng, where=train.where
        )

        def loss(x: Tensor, y: Tensor) -> Tensor:
            target = row_targets(y, vectors, unit=self.normalize_target)
            return huber(self._code(network, x), target, labeled=y.sum(dim=1) > 0)

        return loss

    def _code(self, network: Any, x: Tensor) -> Tensor:
        code = network(x)
        return normalize(code, dim=1) if self.normalize_output else code

    # Neighbors

    @single_threaded_torch
    def _fit_rows(self, X: Any, Y: sparse.csr_array) -> None:
        super()._fit_rows(X, Y)
        if self.n_neighbors > X.shape[0]:
            warnings.warn(
                f"n_neighbors={self.n_neighbors} is more than the {X.shape[0]} training rows; all of them vote.",
                SLDLWarning,
                stacklevel=3,
            )
        self.codes_ = self._codes(self._network(), self._rows(X, None, self._where)).cpu().numpy()
        self.Y_ = Y

    def _codes(self, network: Any, rows: DenseBatches) -> Tensor:
        with torch.no_grad():
            return torch.cat([self._code(network, x) for x in rows.features()])

    def _scorer(self, network: Any, train: DenseBatches) -> Callable[[Tensor], Tensor]:
        """Votes as for new rows, but where the network is: this runs in every epoch."""
        codes = self._codes(network, train)
        k = min(self.n_neighbors, len(codes))

        def score(x: Tensor) -> Tensor:
            distances, neighbors = nearest(self._code(network, x), codes, k)
            weights = neighbor_weights(distances, self.vote)
            votes = sum(weights[:, i, None] * train.labels(neighbors[:, i]) for i in range(k))
            return votes.masked_fill(votes == 0, -np.inf)  # a label without votes is no answer

        return score

    @single_threaded_torch
    def _score_rows(self, X: Any) -> sparse.csr_array:
        codes = self._codes(self._network(), self._rows(X, None, self._where)).cpu().numpy()
        return self._votes(codes, self.codes_, self.Y_)

    def _votes(self, queries: NDArray[np.float32], codes: NDArray[np.float32], Y: sparse.csr_array) -> sparse.csr_array:
        """Labels of the nearest rows by the votes they get, of shape (n_queries, n_labels)."""
        k = min(self.n_neighbors, len(codes))
        distances, neighbors = euclidean_neighbors(queries, codes, k)
        weights = neighbor_weights(distances, self.vote).astype(np.float32)
        indptr = np.arange(0, len(queries) * k + 1, k)
        ballots = sparse.csr_array((weights.ravel(), neighbors.ravel(), indptr), shape=(len(queries), len(codes)))
        return sparse.csr_array(ballots @ Y)


def row_targets(y: Tensor, vectors: Tensor, *, unit: bool) -> Tensor:
    """Mean vector of the labels of every row, of shape (batch, n_components); zero for a row without labels."""
    mean = (y @ vectors) / y.sum(dim=1, keepdim=True).clamp_min(1.0)
    return normalize(mean, dim=1) if unit else mean


def huber(code: Tensor, target: Tensor, labeled: Tensor) -> Tensor:
    """Huber loss (δ = 1) summed over the components, mean over the rows that are labeled."""
    each = huber_loss(code, target, reduction="none").sum(dim=1)
    return (each * labeled).sum() / labeled.sum().clamp_min(1)


def nearest(queries: Tensor, codes: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Distances of the ``k`` nearest codes and their numbers, each of shape (n_queries, k)."""
    squared = codes.square().sum(dim=1) - 2.0 * queries @ codes.T + queries.square().sum(dim=1, keepdim=True)
    found, neighbors = squared.topk(k, dim=1, largest=False)
    return found.clamp_min(0.0).sqrt(), neighbors


def neighbor_weights(distances: Any, vote: str) -> Any:
    """Weights of neighbors at these distances, an ndarray or Tensor of shape (n_queries, k)."""
    if vote == "distance":
        return 1.0 / distances.clip(1e-6)
    # All bonuses of a row together stay below one vote, so that they only order labels with equal votes.
    return 1.0 + 0.1 / (distances.shape[1] * (1.0 + distances))


# DeepWalk


def label_links(Y: sparse.csr_array) -> sparse.csr_array:
    """Adjacency of labels with a row in common, without loops, of shape (n_labels, n_labels)."""
    links = cooccurrence(Y, "binary")
    links = sparse.csr_array(links - sparse.diags_array(links.diagonal()))
    links.eliminate_zeros()
    return links


def random_walks(graph: sparse.csr_array, n_walks: int, length: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """``n_walks`` uniform random walks from every label that has a neighbor, of shape (n, length)."""
    degrees = np.diff(graph.indptr)
    walks = np.empty((n_walks * int((degrees > 0).sum()), length), dtype=np.int64)
    walks[:, 0] = np.tile(np.flatnonzero(degrees > 0), n_walks)
    for step in range(1, length):
        at = walks[:, step - 1]
        walks[:, step] = graph.indices[graph.indptr[at] + rng.integers(degrees[at])]
    return walks


def walk_pairs(walks: NDArray[np.int64], window: int, n_labels: int) -> sparse.csr_array:
    """How often two labels are at most ``window`` steps apart on a walk, symmetric, of shape (n_labels, n_labels)."""
    counts = sparse.csr_array((n_labels, n_labels), dtype=np.float32)
    for apart in range(1, min(window, walks.shape[1] - 1) + 1):
        before, after = walks[:, :-apart].ravel(), walks[:, apart:].ravel()
        ones = np.ones(len(before), dtype=np.float32)
        counts = counts + sparse.csr_array((ones, (before, after)), shape=counts.shape)
    return sparse.csr_array(counts + counts.T)


def skip_gram(
    walks: NDArray[np.int64],
    n_labels: int,
    n_components: int,
    window: int,
    epochs: int,
    *,
    rng: np.random.Generator,
    where: torch.device,
) -> Tensor:
    """Vectors of the labels, of shape (n_labels, n_components), under which labels near on a walk are similar.

    A label that never occurs together with another is on no walk and keeps its random start.
    """
    pairs = walk_pairs(walks, window, n_labels)
    noise = np.bincount(walks.ravel(), minlength=n_labels).astype(np.float64) ** UNIGRAM_POWER
    chance = torch.from_numpy((noise / max(noise.sum(), 1.0)).astype(np.float32)).to(where)
    start = rng.normal(scale=n_components**-0.5, size=(n_labels, n_components)).astype(np.float32)
    vectors = torch.from_numpy(start).to(where).requires_grad_()
    contexts = torch.zeros_like(vectors, requires_grad=True)
    optimizer = torch.optim.Adam([vectors, contexts], lr=WALK_LEARNING_RATE)
    block = max(1, ANCHOR_BYTES // (4 * n_labels))
    total = max(float(pairs.sum()), 1.0)
    for _ in range(epochs if pairs.nnz else 0):
        for first in range(0, n_labels, block):
            rows = slice(first, first + block)
            counts = torch.from_numpy(pairs[rows].toarray()).to(where)
            optimizer.zero_grad()
            (skip_gram_loss(vectors[rows] @ contexts.T, counts, chance) / total).backward()
            optimizer.step()
    return vectors.detach()


def skip_gram_loss(logits: Tensor, counts: Tensor, chance: Tensor) -> Tensor:
    r"""Compute the skip-gram loss with negative sampling, with its expectation in place of samples.

    .. math:: -\sum_{ij} n_{ij} \log\sigma(s_{ij}) + 5\, n_i\, q_j \log\sigma(-s_{ij}), \qquad n_i = \sum_j n_{ij}

    ``logits`` are s, the products of anchors and contexts, ``counts`` are n, the pairs on the walks, and ``chance`` is
    q, how probable a label is as a negative. The pairs of all walks are counted once and the negatives enter by their
    probability, so a step costs one product of two small matrices instead of millions of look-ups.
    """
    negatives = NEGATIVES * counts.sum(dim=1, keepdim=True) * chance
    return -(counts * logsigmoid(logits) + negatives * logsigmoid(-logits)).sum()
