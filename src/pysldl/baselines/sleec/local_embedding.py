"""The embedding of one SLEEC cluster: short codes that keep the similarities between rows with similar labels."""

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.linalg import svds
from sklearn.base import BaseEstimator
from sklearn.preprocessing import normalize as normalize_rows

from pysldl.backend.threads import matmul
from pysldl.backend.topk import top_k_dense
from pysldl.mapping import RidgeMapping

__all__ = ["LocalEmbedding", "factorize", "label_neighbors"]

BLOCK_BYTES = 64 << 20
TINY = 1e-10
ADMM_PENALTY = 1e-3
ADMM_SPARSITY = 1e-2

Array = NDArray[np.float32]


class LocalEmbedding(BaseEstimator):
    """Codes of the rows of one cluster, and the linear map that gives codes to new rows.

    Parameters
    ----------
    n_components, n_graph_neighbors, cost, admm_sweeps, coef_sparsity, code_sparsity, max_sweeps
        As for :class:`~pysldl.baselines.sleec.classifier.SLEEC`.

    Attributes
    ----------
    rows_ : ndarray of shape (n_members,)
        The training rows of the cluster.
    coef_ : ndarray of shape (n_features, n_components), float32
    codes_ : ndarray of shape (n_members, n_components), float32
        Mapped training rows, among which neighbors are searched.
    """

    _saved_state = ("rows_", "coef_", "codes_")

    def __init__(
        self,
        n_components: int = 100,
        n_graph_neighbors: int = 250,
        *,
        cost: float = 0.2,
        admm_sweeps: int = 0,
        coef_sparsity: float = 0.01,
        code_sparsity: float = 0.01,
        max_sweeps: int = 200,
    ) -> None:
        self.n_components = n_components
        self.n_graph_neighbors = n_graph_neighbors
        self.cost = cost
        self.admm_sweeps = admm_sweeps
        self.coef_sparsity = coef_sparsity
        self.code_sparsity = code_sparsity
        self.max_sweeps = max_sweeps

    def fit(self, X: Any, Y: sparse.csr_array, rows: NDArray[np.integer], rng: np.random.RandomState) -> Self:
        """Learn from the scaled features ``X`` and labels ``Y`` of the training rows ``rows``."""
        m = Y.shape[0]
        neighbors, similarities = label_neighbors(Y, min(self.n_graph_neighbors, m))
        Z = factorize(neighbors, similarities, min(self.n_components, m), self.max_sweeps, rng)
        W = self._regression(X, Z)
        W[np.abs(W) <= _smallest(np.abs(W).ravel(), self.coef_sparsity)] = 0.0
        codes = X @ W
        codes[np.abs(codes) <= _smallest(np.abs(codes), self.code_sparsity)] = 0.0
        self.rows_ = rows
        self.coef_ = W
        self.codes_ = codes.astype(np.float32, copy=False)
        return self

    def transform(self, X: Any) -> Array:
        """Codes of scaled rows, of shape (n_rows, n_components); unlike the stored ones they are not thinned out."""
        return np.asarray(X @ self.coef_, dtype=np.float32)

    def _regression(self, X: Any, Z: Array) -> Array:
        """The map from features to codes: ridge regression, or the authors' ADMM with an L1 penalty on ``XW``."""
        alpha = 1.0 / (2.0 * self.cost)
        if self.admm_sweeps == 0:
            return RidgeMapping(alpha).fit(X, Z).coef_
        auxiliary = dual = np.zeros_like(Z)
        for _ in range(self.admm_sweeps):
            target = Z + ADMM_PENALTY * (auxiliary - dual)
            W = RidgeMapping(alpha * (1.0 + ADMM_PENALTY)).fit(X, target).coef_
            codes = X @ W
            shifted = codes + dual
            auxiliary = np.sign(shifted) * np.maximum(np.abs(shifted) - ADMM_SPARSITY / ADMM_PENALTY, 0.0)
            dual = shifted - auxiliary
        return W


def label_neighbors(Y: sparse.csr_array, k: int) -> tuple[NDArray[np.int64], Array]:
    """The k rows with the largest cosine of labels to each row, itself among them, ties to the lower row.

    Parameters
    ----------
    Y : csr_array of shape (n_rows, n_labels)
    k : int
        At most ``n_rows``. Rows that share no label fill up where too few share one.

    Returns
    -------
    neighbors : ndarray of shape (n_rows, k), int64
    similarities : ndarray of shape (n_rows, k), float32
    """
    unit = sparse.csr_array(normalize_rows(Y))
    across = unit.T.tocsr()
    block = max(1, BLOCK_BYTES // (4 * Y.shape[0]))
    found = [top_k_dense((unit[start : start + block] @ across).toarray(), k) for start in range(0, Y.shape[0], block)]
    neighbors, similarities = (np.concatenate(part) for part in zip(*found, strict=True))
    return neighbors, similarities


def factorize(
    neighbors: NDArray[np.int64], similarities: Array, rank: int, max_sweeps: int, rng: np.random.RandomState
) -> Array:
    """Codes U with ``u_i · v_j`` near the similarity of i and j, over the pairs in the neighbor graph only.

    A truncated SVD of the graph is improved by gradient sweeps, first over U, then over V. This is what the authors'
    code does in place of the singular value projection of their paper; like there, V is thrown away.

    Parameters
    ----------
    neighbors, similarities : ndarrays of shape (n_rows, k)
        As :func:`label_neighbors` gives them.
    rank : int
        At most ``n_rows``.
    max_sweeps : int
    rng : RandomState
        Draws the start vector of the SVD.

    Returns
    -------
    ndarray of shape (n_rows, rank), float32
    """
    wanted = similarities + np.float32(TINY)
    graph = _as_graph(neighbors, wanted)
    U, V = _truncated_svd(graph, rank, rng)
    step = np.float32(1.0 / (0.3 * np.linalg.norm(wanted)))
    residual = _products(U, V, neighbors) - wanted
    error = _root_mean_square(residual)
    for _ in range(max_sweeps):
        if error < 1e-3:
            break
        new_U = U - step * (_as_graph(neighbors, residual) @ V)
        residual = _products(new_U, V, neighbors) - wanted
        new_V = V - step * (_as_graph(neighbors, residual).T @ new_U)
        residual = _products(new_U, new_V, neighbors) - wanted
        new_error = _root_mean_square(residual)
        if new_error <= error:
            U, V = new_U, new_V
        if error - new_error < 1e-4:
            break
        error = new_error
    return U


def _truncated_svd(graph: sparse.csr_array, rank: int, rng: np.random.RandomState) -> tuple[Array, Array]:
    """Both sides of the best approximation of that rank, each with the square root of the singular values."""
    m = graph.shape[0]
    if 3 * rank >= m:  # ARPACK finds a few of many; for most of few the dense algorithm is the faster and safer one
        left, values, right = np.linalg.svd(graph.toarray().astype(np.float64))
    else:
        left, values, right = svds(graph.astype(np.float64), k=rank, v0=rng.uniform(-1.0, 1.0, m))
    largest = np.argsort(-values, kind="stable")[:rank]
    root = np.sqrt(values[largest])
    return (left[:, largest] * root).astype(np.float32), (right[largest].T * root).astype(np.float32)


def _products(U: Array, V: Array, neighbors: NDArray[np.int64]) -> Array:
    """``u_i · v_j`` for every pair of the graph, of the shape of ``neighbors``."""
    out = np.empty(neighbors.shape, dtype=np.float32)
    block = max(1, BLOCK_BYTES // (4 * len(V)))
    for start in range(0, len(U), block):
        rows = slice(start, start + block)
        # All products of a block, though most are not wanted: still faster than to gather the rows of V.
        out[rows] = np.take_along_axis(matmul(U[rows], V.T), neighbors[rows], axis=1)
    return out


def _as_graph(neighbors: NDArray[np.int64], values: Array) -> sparse.csr_array:
    m, k = neighbors.shape
    return sparse.csr_array((values.ravel(), neighbors.ravel(), np.arange(0, m * k + 1, k)), shape=(m, m))


def _root_mean_square(residual: Array) -> float:
    return float(np.sqrt(np.mean(np.square(residual, dtype=np.float64))))


def _smallest(magnitudes: Array, share: float) -> Any:
    """The largest of the smallest ``share`` of the values of every column, -1 where the share is none."""
    count = int(np.ceil(share * len(magnitudes)))
    if count == 0:
        return -1.0
    return np.partition(magnitudes, count - 1, axis=0)[count - 1]
