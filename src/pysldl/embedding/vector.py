"""Labels as plain vectors: the ablation "without Gaussian embedding"."""

from collections.abc import Callable
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils import check_random_state

from pysldl.embedding.base import LabelEmbedding, assumed_pairs, normal_rows, seen_labels
from pysldl.embedding.descent import Descent
from pysldl.embedding.graph import choose_graph
from pysldl.embedding.reach import reached_labels, walk_memory
from pysldl.embedding.transfer import Weighting, cooccurrence, transfer_matrix
from pysldl.progress import ProgressCallback

__all__ = ["VectorLabelEmbedding"]

Loss = Callable[[NDArray[Any]], tuple[float, list[NDArray[Any]]]]


class VectorLabelEmbedding(LabelEmbedding):
    """Label vectors whose inner products reproduce the transfer matrix in the least squares sense.

    The paper replaces "latent multivariate Gaussian distributions" and the ranking loss "with latent embedding vectors
    and mean square error" and says no more. Here the squared error is between ``e_i · e_j`` and the transfer
    probability from i to j, scaled so that the strongest of each row is 1; the pair of a label with itself is left
    out, as in the ranking.

    Parameters
    ----------
    n_components, cooccurrence, walk_steps, discount, init_scale, random_state
    learning_rate, weight_decay, max_steps, tol, patience
        As in :class:`GaussianLabelEmbedding`.
    graph, reach
        As there; ``"sparse"`` keeps the ``reach`` strongest probabilities of every label and takes all others for zero.
        No pair is left out or sampled: those with a target of zero have a sum that needs no loop over them.

    Attributes
    ----------
    components_ : ndarray of shape (n_labels, n_components)
    losses_ : list of float
    converged_ : bool
    graph_ : {"dense", "sparse"}
    """

    _saved_state = ("components_", "losses_", "converged_", "graph_")

    def __init__(
        self,
        n_components: int = 128,
        *,
        cooccurrence: Weighting = "binary",
        walk_steps: int = 10,
        discount: float = 0.5,
        learning_rate: float = 1e-2,
        weight_decay: float = 0.0,
        max_steps: int = 1000,
        tol: float = 5e-3,
        patience: int = 50,
        init_scale: float = 0.1,
        graph: Literal["auto", "dense", "sparse"] = "auto",
        reach: int = 64,
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.cooccurrence = cooccurrence
        self.walk_steps = walk_steps
        self.discount = discount
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.max_steps = max_steps
        self.tol = tol
        self.patience = patience
        self.init_scale = init_scale
        self.graph = graph
        self.reach = reach
        self.random_state = random_state

    def memory(self, n_labels: int, *, n_pairs: int | None = None, limit: int | str | None = None) -> int:
        """Bytes at the peak, of the path that :meth:`fit` takes: half a dozen (n_labels, n_labels) arrays or the walk's
        tables, and the optimiser's copies."""
        vectors = 40 * n_labels * self.n_components
        if self._graph_for(n_labels, limit) == "dense":
            return _dense_memory(n_labels) + vectors
        return (
            vectors + 16 * n_labels * self.reach + walk_memory(n_labels, self.reach, assumed_pairs(n_labels, n_pairs))
        )

    def _place(self, Y: sparse.csr_array, progress: ProgressCallback | None, memory_limit: int | str | None) -> None:
        seen = seen_labels(Y)
        A = cooccurrence(Y[:, seen], self.cooccurrence)
        self.graph_ = self._graph_for(seen.size, memory_limit)
        loss_of = self._sparse_loss(A) if self.graph_ == "sparse" else self._dense_loss(A)
        rng = check_random_state(self.random_state)
        start = normal_rows(rng, self.init_scale, (Y.shape[1], self.n_components), seen)
        descent = Descent(self.learning_rate, self.max_steps, self.tol, self.patience, weight_decay=self.weight_decay)
        result = descent.minimise(lambda parameters: loss_of(parameters[0]), [start], progress)
        self.components_ = np.zeros((Y.shape[1], self.n_components), dtype=np.float32)
        self.components_[seen] = result.parameters[0]
        self.losses_ = result.losses
        self.converged_ = result.converged

    def _dense_loss(self, A: sparse.csr_array) -> Loss:
        target = transfer_matrix(A, self.walk_steps, self.discount)
        np.fill_diagonal(target, 0.0)
        strongest = target.max(axis=1, keepdims=True, initial=0.0)
        np.divide(target, strongest, out=target, where=strongest > 0)
        return lambda E: squared_error(E, target)

    def _sparse_loss(self, A: sparse.csr_array) -> Loss:
        reach = reached_labels(A, self.walk_steps, self.discount, self.reach)
        labels, values = reach.labels, reach.probabilities
        kept = (labels >= 0) & (labels != np.arange(len(labels))[:, None])
        strongest = np.max(values, axis=1, keepdims=True, where=kept, initial=0.0)
        np.divide(values, strongest, out=values, where=strongest > 0)
        indptr = np.concatenate([[0], np.cumsum(kept.sum(axis=1))])
        target = sparse.csr_array((values[kept], labels[kept], indptr), shape=A.shape)
        both_ways = sparse.csr_array(target + target.T)
        squares = float(np.sum(target.data**2, dtype=np.float64))
        return lambda E: sparse_squared_error(E, both_ways, squares)

    def _graph_for(self, n_seen: int, memory_limit: int | str | None) -> Literal["dense", "sparse"]:
        return choose_graph(self.graph, n_seen, _dense_memory(n_seen), memory_limit)


def squared_error(E: NDArray[Any], target: NDArray[Any]) -> tuple[float, list[NDArray[Any]]]:
    """Mean over pairs i ≠ j of ``(e_i · e_j - target_ij)²``, and its gradient with respect to ``E``."""
    residual = E @ E.T
    residual -= target
    np.fill_diagonal(residual, 0.0)
    n_pairs = max(len(E) * (len(E) - 1), 1)
    loss = float(np.sum(residual * residual, dtype=np.float64)) / n_pairs
    return loss, [(2.0 / n_pairs) * ((residual + residual.T) @ E).astype(E.dtype, copy=False)]


def sparse_squared_error(
    E: NDArray[Any], both_ways: sparse.csr_array, squares: float
) -> tuple[float, list[NDArray[Any]]]:
    """The same for a sparse target, given as ``target + target.T`` and the sum of its squares.

    The squares of all inner products add up to the squared norm of the (n_components, n_components) matrix ``EᵀE``.
    """
    n_pairs = max(len(E) * (len(E) - 1), 1)
    gram = E.T.astype(np.float64) @ E
    lengths = np.einsum("ik,ik->i", E, E, dtype=np.float64)
    crossed = both_ways @ E
    inner = float(np.einsum("ik,ik->", E, crossed, dtype=np.float64))
    loss = (float(np.sum(gram * gram)) - float(lengths @ lengths) - inner + squares) / n_pairs
    gradient = 4.0 * (E @ gram.astype(E.dtype) - lengths[:, None].astype(E.dtype) * E) - 2.0 * crossed
    return loss, [gradient / E.dtype.type(n_pairs)]


def _dense_memory(n_labels: int) -> int:
    return 24 * n_labels**2
