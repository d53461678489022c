"""Labels as plain vectors: the ablation "without Gaussian embedding"."""

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils import check_random_state

from pysldl._utils.constraints import Positive
from pysldl._utils.light_estimator import inherit_parameters
from pysldl._utils.progress import ProgressCallback
from pysldl.backend.linear_algebra import sparse_times
from pysldl.backend.threads import matmul
from pysldl.embedding.adam import Descent, DescentResult
from pysldl.embedding.base import TrainedLabelEmbedding, assumed_pairs, normal_rows, seen_labels
from pysldl.embedding.label_graph import Graph, choose_graph, cooccurrence, transfer_matrix
from pysldl.embedding.truncated_walk import truncated_walk, walk_memory

Array = NDArray[np.float64]
Loss = Callable[[Array, Array], tuple[float, Array, Array]]


@inherit_parameters
@dataclass(eq=False, repr=False)
class VectorLabelEmbedding(TrainedLabelEmbedding):
    """Label vectors whose inner products reproduce the transfer matrix in the least squares sense.

    The paper replaces "latent multivariate Gaussian distributions" and the ranking loss "with latent embedding vectors
    and mean square error" and says no more. Here the squared error is between an inner product and the transfer
    probability from i to j, scaled so that the strongest of each row is 1; the pair of a label with itself is left
    out, as in the ranking.

    Parameters
    ----------
    graph : {"auto", "dense", "sparse"}, default="auto"
        As in :class:`GaussianLabelEmbedding`, but ``"sparse"`` leaves out or samples no pair: those with a target of
        zero have a sum that needs no loop over them.
    n_walk_labels : int, default=64
        Sparse: strongest probabilities of every label that are kept; all others are taken for zero.
    init_scale : float, default=0.1
        Standard deviation of the initial vectors.
    directed : bool, default=True
        True: every label has a source vector e and a target vector f, and ``e_i · f_j`` reproduces the walk from i to
        j. Only the Gaussians are missing. False: ``e_i · e_j``, which is the same in both directions, so that the
        direction of the relation is lost, too.

    Attributes
    ----------
    components_ : ndarray of shape (n_labels, n_components)
        The source vectors.
    losses_ : list of float
    converged_ : bool or None
    graph_ : {"dense", "sparse"}

    Examples
    --------
    >>> embedding = VectorLabelEmbedding(4, random_state=0).fit(np.array([[1, 1, 0], [1, 1, 1], [0, 0, 1]]))
    >>> embedding.transform(np.array([[0, 1, 1]])).shape
    (1, 4)
    """

    _: KW_ONLY
    init_scale: Positive = 0.1
    directed: bool = True

    _saved_state = ("components_", "losses_", "converged_", "graph_")

    def memory(self, n_labels: int, *, n_pairs: int | None = None, limit: int | str | None = None) -> int:
        """Bytes at the peak, of the path that :meth:`fit` takes.

        They hold half a dozen (n_labels, n_labels) arrays or the walk's tables, and the optimizer's copies.
        """
        vectors = 160 * n_labels * self.n_components
        if self._graph_for(n_labels, limit) == "dense":
            return _dense_memory(n_labels) + vectors
        return (
            vectors
            + 32 * n_labels * self.n_walk_labels
            + walk_memory(n_labels, self.n_walk_labels, assumed_pairs(n_labels, n_pairs))
        )

    def _descend(
        self,
        Y: sparse.csr_array,
        progress: ProgressCallback | None,
        memory_limit: int | str | None,
        path: Sequence[int] = (),
    ) -> DescentResult:
        seen = seen_labels(Y)
        A = cooccurrence(Y[:, seen], self.cooccurrence)
        self.graph_ = self._graph_for(seen.size, memory_limit)
        loss_of = self._sparse_loss(A) if self.graph_ == "sparse" else self._dense_loss(A)
        rng = check_random_state(self.random_state)
        shape = (Y.shape[1], self.n_components)
        start = [normal_rows(rng, self.init_scale, shape, seen) for _ in range(1 + self.directed)]

        def directed(parameters: list[Array]) -> tuple[float, list[Array]]:
            loss, by_source, by_target = loss_of(*parameters)
            return loss, [by_source, by_target]

        def symmetric(parameters: list[Array]) -> tuple[float, list[Array]]:
            loss, by_source, by_target = loss_of(parameters[0], parameters[0])
            return loss, [by_source + by_target]

        descent = Descent(self.learning_rate, self.n_steps, self.tol, self.patience, weight_decay=self.weight_decay)
        return descent.minimize(directed if self.directed else symmetric, start, progress, path=path)

    def _dense_loss(self, A: sparse.csr_array) -> Loss:
        target = transfer_matrix(A, self.walk_steps, self.discount).astype(np.float64)
        np.fill_diagonal(target, 0.0)
        strongest = target.max(axis=1, keepdims=True, initial=0.0)
        np.divide(target, strongest, out=target, where=strongest > 0)
        return lambda E, F: squared_error(E, F, target)

    def _sparse_loss(self, A: sparse.csr_array) -> Loss:
        walk = truncated_walk(A, self.walk_steps, self.discount, self.n_walk_labels)
        labels, values = walk.labels, walk.probabilities
        kept = (labels >= 0) & (labels != np.arange(len(labels))[:, None])
        strongest = np.max(values, axis=1, keepdims=True, where=kept, initial=0.0)
        np.divide(values, strongest, out=values, where=strongest > 0)
        indptr = np.concatenate([[0], np.cumsum(kept.sum(axis=1))])
        target = sparse.csr_array((values[kept].astype(np.float64), labels[kept], indptr), shape=A.shape)
        back = sparse.csr_array(target.T)
        return lambda E, F: sparse_squared_error(E, F, target, back)

    def _graph_for(self, n_seen: int, memory_limit: int | str | None) -> Graph:
        return choose_graph(self.graph, n_seen, _dense_memory(n_seen), memory_limit)


def squared_error(E: Array, F: Array, target: Array) -> tuple[float, Array, Array]:
    """Mean over pairs i ≠ j of ``(e_i · f_j - target_ij)²``, and its gradients by ``E`` and ``F``."""
    residual = matmul(E, np.ascontiguousarray(F.T))
    residual -= target
    np.fill_diagonal(residual, 0.0)
    n_pairs = max(len(E) * (len(E) - 1), 1)
    loss = float(np.sum(residual * residual)) / n_pairs
    return loss, (2.0 / n_pairs) * matmul(residual, F), (2.0 / n_pairs) * matmul(residual.T, E)


def sparse_squared_error(
    E: Array, F: Array, target: sparse.csr_array, back: sparse.csr_array
) -> tuple[float, Array, Array]:
    """The same for a sparse target and its transpose.

    The squares of all inner products add up to the inner product of the (n_components, n_components) matrices ``EᵀE``
    and ``FᵀF``.
    """
    n_pairs = max(len(E) * (len(E) - 1), 1)
    gram_e, gram_f = E.T @ E, F.T @ F
    own = np.sum(E * F, axis=1)
    forward, backward = sparse_times(target, F), sparse_times(back, E)
    loss = float(np.sum(gram_e * gram_f)) - float(np.sum(own * own)) - 2.0 * float(np.sum(E * forward))
    loss += float(np.sum(target.data * target.data))
    by_source = 2.0 * (E @ gram_f - own[:, None] * F - forward)
    by_target = 2.0 * (F @ gram_e - own[:, None] * E - backward)
    return loss / n_pairs, by_source / n_pairs, by_target / n_pairs


def _dense_memory(n_labels: int) -> int:
    return 48 * n_labels**2
