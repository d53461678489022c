"""DXML: features regressed on vectors of the label graph, decoded by neighbors (Zhang et al., ICMR 2018)."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from pysldl._utils.progress import ProgressCallback
from pysldl.backend.threads import single_threaded_torch
from pysldl.baselines.dxml.deepwalk import deepwalk
from pysldl.baselines.euclidean_neighbors import euclidean_neighbors
from pysldl.baselines.torch_training.classifier import Clip, OptimizerName, Scaling, TorchClassifier
from pysldl.baselines.torch_training.dense_batches import DenseBatches
from pysldl.baselines.torch_training.loop import Objective
from pysldl.exceptions import DataError, SLDLWarning

if TYPE_CHECKING:
    from torch import Tensor, nn

__all__ = ["DXML"]


class DXML(TorchClassifier):
    """DXML: deep extreme multi-label learning.

    Labels that share a row are linked, and DeepWalk gives every label a vector. The target of a row is the mean of its
    labels' vectors; a network with one hidden layer learns to hit it under the Huber loss. A new row gets the labels
    of the training rows whose network outputs are nearest.

    No code of the authors is public, and beside the width of the embedding the paper gives no setting: the others
    come from the figure of the DXML paper and from two independent ports, or are our own.

    Parameters
    ----------
    n_components : int
        Width of the embedding; the paper's setting, 300.
    n_hidden : int
        What the ports pair with 300 components.
    n_neighbors : int
        Not public.
    vote : {"uniform", "distance"}
        Whether a neighbor counts 1, nearer ones breaking ties, or 1/d.
    dropout : float
        Before the output is scaled; from one of the ports.
    normalize_output, normalize_target : bool
        Scale the network's output, as in the figure, and the target, which it would otherwise miss, to length 1.
    n_walks, walk_length, window, walk_epochs : int
        Walks from each label, their length, how far apart pairs may be, and steps of the skip-gram descent. Not public.
    optimizer, weight_decay
        From the ports.
    learning_rate : float
        The ports have 0.015, with batches of 8 and 64. It and ``patience`` were chosen from a dozen settings on
        held-out training rows of stackex-chess and stackex-philosophy. It falls to zero along half a cosine.
    epochs, batch_size, clip, scaling, validation_fraction, patience
        Not public.
    device, vectorizer, memory_limit, progress, random_state
        See :class:`~pysldl.baselines.torch_training.classifier.TorchClassifier`.

    Attributes
    ----------
    codes_ : ndarray of shape (n_samples, n_components), float32
        Network outputs of the training rows, validation rows included.
    Y_ : csr_array of shape (n_samples, n_labels)
    """

    _saved_state = (*TorchClassifier._saved_state, "codes_", "Y_")

    def __init__(
        self,
        *,
        n_components: int = 300,
        n_hidden: int = 512,
        n_neighbors: int = 25,
        vote: Literal["uniform", "distance"] = "uniform",
        dropout: float = 0.2,
        normalize_output: bool = True,
        normalize_target: bool = True,
        n_walks: int = 20,
        walk_length: int = 40,
        window: int = 5,
        walk_epochs: int = 200,
        epochs: int = 100,
        batch_size: int = 128,
        learning_rate: float = 0.15,
        weight_decay: float = 5e-4,
        optimizer: OptimizerName = "sgd",
        clip: Clip = None,
        scaling: Scaling = "l2",
        validation_fraction: float = 0.1,
        patience: int | None = 30,
        device: str = "auto",
        vectorizer: Any = None,
        memory_limit: int | str | None = None,
        progress: ProgressCallback | None = None,
        random_state: Any = None,
    ) -> None:
        super().__init__(
            epochs=epochs,
            batch_size=batch_size,
            learning_rate=learning_rate,
            weight_decay=weight_decay,
            optimizer=optimizer,
            clip=clip,
            scaling=scaling,
            validation_fraction=validation_fraction,
            patience=patience,
            device=device,
            vectorizer=vectorizer,
            memory_limit=memory_limit,
            progress=progress,
            random_state=random_state,
        )
        self.n_components = n_components
        self.n_hidden = n_hidden
        self.n_neighbors = n_neighbors
        self.vote = vote
        self.dropout = dropout
        self.normalize_output = normalize_output
        self.normalize_target = normalize_target
        self.n_walks = n_walks
        self.walk_length = walk_length
        self.window = window
        self.walk_epochs = walk_epochs

    def _build(self, n_features: int, n_labels: int) -> nn.Module:
        from torch import nn

        return nn.Sequential(
            nn.Linear(n_features, self.n_hidden),
            nn.ReLU(),
            nn.Linear(self.n_hidden, self.n_components),
            nn.Dropout(self.dropout),
        )

    def _schedule(self, optimizer: Any) -> Any:
        from torch.optim.lr_scheduler import CosineAnnealingLR

        return CosineAnnealingLR(optimizer, T_max=self.epochs)

    def _objective(self, network: nn.Module, train: DenseBatches) -> Objective:
        import torch

        vectors = torch.from_numpy(
            deepwalk(
                train.Y,
                self.n_components,
                n_walks=self.n_walks,
                walk_length=self.walk_length,
                window=self.window,
                epochs=self.walk_epochs,
                learning_rate=1e-2,
                rng=np.random.default_rng(int(torch.randint(2**31 - 1, ()))),
                where=train.where,
            )
        ).to(train.where)

        def loss(x: Tensor, y: Tensor) -> Tensor:
            target = row_targets(y, vectors, normalize=self.normalize_target)
            return huber(self._code(network, x), target, labeled=y.sum(dim=1) > 0)

        return loss

    def _code(self, network: nn.Module, x: Tensor) -> Tensor:
        from torch.nn.functional import normalize

        code = network(x)
        return normalize(code, dim=1) if self.normalize_output else code

    # Neighbors

    @single_threaded_torch
    def _fit_rows(self, X: Any, Y: sparse.csr_array) -> None:
        if not self.n_neighbors >= 1:
            raise DataError(f"n_neighbors must be at least 1, but is {self.n_neighbors!r}.")
        if self.n_neighbors > X.shape[0]:
            warnings.warn(
                f"n_neighbors={self.n_neighbors} is more than the {X.shape[0]} training rows; all of them vote.",
                SLDLWarning,
                stacklevel=3,
            )
        super()._fit_rows(X, Y)
        self.codes_ = self._codes(self._network(), self._rows(X, None, self._where)).cpu().numpy()
        self.Y_ = Y

    def _codes(self, network: nn.Module, rows: DenseBatches) -> Tensor:
        import torch

        with torch.no_grad():
            return torch.cat([self._code(network, x) for x in rows.features()])

    def _scorer(self, network: nn.Module, train: DenseBatches) -> Callable[[Tensor], Tensor]:
        """Votes as for new rows, but where the network is: this runs in every epoch."""
        codes = self._codes(network, train)
        k = min(self.n_neighbors, len(codes))

        def score(x: Tensor) -> Tensor:
            distances, neighbors = nearest(self._code(network, x), codes, k)
            weights = vote_weights(distances, self.vote)
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
        ballots = sparse.csr_array(
            (
                vote_weights(distances, self.vote).astype(np.float32).ravel(),
                neighbors.ravel(),
                np.arange(0, queries.shape[0] * k + 1, k),
            ),
            shape=(queries.shape[0], len(codes)),
        )
        return sparse.csr_array(ballots @ Y)


def row_targets(y: Tensor, vectors: Tensor, *, normalize: bool) -> Tensor:
    """Mean vector of the labels of every row, of shape (batch, n_components); zero for a row without labels."""
    from torch.nn.functional import normalize as unit

    mean = (y @ vectors) / y.sum(dim=1, keepdim=True).clamp_min(1.0)
    return unit(mean, dim=1) if normalize else mean


def huber(code: Tensor, target: Tensor, labeled: Tensor) -> Tensor:
    """Huber loss (δ = 1) summed over the components, mean over the rows that are labeled."""
    from torch.nn.functional import huber_loss

    each = huber_loss(code, target, reduction="none").sum(dim=1)
    return (each * labeled).sum() / labeled.sum().clamp_min(1)


def nearest(queries: Tensor, codes: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Distances of the ``k`` nearest codes and their numbers, each of shape (n_queries, k)."""
    squared = codes.square().sum(dim=1) - 2.0 * queries @ codes.T + queries.square().sum(dim=1, keepdim=True)
    found, neighbors = squared.topk(k, dim=1, largest=False)
    return found.clamp_min(0.0).sqrt(), neighbors


def vote_weights(distances: Any, vote: str) -> Any:
    """Weights of neighbors at these distances, an ndarray or Tensor of shape (n_queries, k)."""
    if vote == "distance":
        return 1.0 / distances.clip(1e-6)
    if vote == "uniform":
        # All bonuses of a row together stay below one vote, so that they only order labels with equal votes.
        return 1.0 + 0.1 / (distances.shape[1] * (1.0 + distances))
    raise DataError(f"vote must be 'uniform' or 'distance', but is {vote!r}.")
