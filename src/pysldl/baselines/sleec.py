"""SLEEC: local embeddings that keep label similarities between neighbors, decoded by nearest neighbors."""

import warnings
from dataclasses import dataclass, fields
from inspect import signature
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, sparse
from scipy.sparse.linalg import LinearOperator, eigsh
from sklearn.base import BaseEstimator
from sklearn.preprocessing import normalize as normalize_rows
from sklearn.utils import check_random_state

from pysldl._utils.constraints import Count, CountOrZero, Positive, Share
from pysldl._utils.light_estimator import inherit_parameters
from pysldl._utils.memory import require_memory
from pysldl._utils.progress import Progress
from pysldl.backend.threads import matmul, single_threaded_blas
from pysldl.backend.topk import top_k_dense
from pysldl.baselines.base import NormalizingBaseline
from pysldl.baselines.euclidean_neighbors import euclidean_neighbors
from pysldl.exceptions import SLDLWarning
from pysldl.mapping import RidgeMapping

PARTITION_STEPS = 7
# Less than a vote over all learners, so that distances decide only between labels with as many votes.
TIE_BREAK = 0.01
BLOCK_BYTES = 64 << 20
TINY = 1e-10
ADMM_PENALTY = 1e-3
ADMM_SPARSITY = 1e-2

Array = NDArray[np.float32]


@dataclass(eq=False, repr=False)
class LocalEmbedding(BaseEstimator):
    """Codes of the rows of one cluster, and the linear map that gives codes to new rows; parameters as in SLEEC.

    ``rows_`` are the training rows of the cluster, ``coef_`` (n_features, n_components) is the map, and ``codes_``
    (n_members, n_components) are the mapped training rows, among which neighbors are searched.
    """

    n_components: int = 100
    n_graph_neighbors: int = 250
    cost: float = 0.2
    admm_sweeps: int = 0
    coef_sparsity: float = 0.01
    code_sparsity: float = 0.01
    max_sweeps: int = 200

    _saved_state = ("rows_", "coef_", "codes_")

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


@inherit_parameters
@dataclass(eq=False, repr=False)
class SLEEC(NormalizingBaseline):
    """SLEEC: sparse local embeddings for extreme classification [1]_.

    Rows are clustered by their features. In every cluster rows get codes whose inner products keep the cosines of their
    label rows, but only between label-space neighbors; ridge regression maps features to codes; new rows count the
    labels of their nearest neighbors among the mapped training rows of their cluster. Several such learners, each with
    its own clusters, are added up.

    The defaults are those of the comparison in the SLDL paper (100 components, 250 and 25 neighbors) and, for what it
    leaves open, the authors' settings for the data set that these three numbers belong to, but for ``admm_sweeps``.

    Parameters
    ----------
    n_components : int, default=100
        Width of the codes.
    n_graph_neighbors : int, default=250
        Label-space neighbors, a row itself among them, whose similarities the embedding keeps.
    n_neighbors : int, default=25
        Neighbors that vote. Reduced, with a warning, if there are fewer training rows.
    n_learners, n_clusters : int, default=1
        Learners that are added up, and clusters of each.
    cost : float, default=0.2
        Weight of the regression's loss; the ridge penalty is ``1 / (2 cost)``.
    admm_sweeps : int, default=0
        0 for ridge regression in closed form. The authors run 2 sweeps of ADMM with an L1 penalty on the codes,
        whose threshold no code reaches: both give the same codes to about three digits.
    coef_sparsity, code_sparsity : float, default=0.01
        Share of the smallest weights, and of the smallest training codes in each dimension, that are set to zero.
    max_sweeps : int, default=200
        Cap on the gradient sweeps of the embedding.
    calibrate : bool, default=True
        Learn the threshold of ``predict`` and the probabilities on held-out rows; fitting takes twice as long.

    Attributes
    ----------
    centers_ : list of ndarrays of shape (n_clusters, n_features)
        Means of the clusters, for every learner.
    embeddings_ : list of lists of LocalEmbedding
        One per learner and cluster.
    Y_ : csr_array of shape (n_samples, n_labels)
        Labels of the training rows.

    Notes
    -----
    Between labels with as many votes, which are frequent, the one with the smaller sum of distances to its voters
    comes first; the authors leave ties to the sort. A cluster with fewer than ``n_neighbors`` rows asks all of them and
    counts shares, where the authors repeat some to reach the number.

    References
    ----------
    .. [1] K. Bhatia, H. Jain, P. Kar, M. Varma, P. Jain. Sparse local embeddings for extreme multi-label
           classification. NIPS 2015.

    Examples
    --------
    >>> from pysldl.baselines import SLEEC
    >>> X, Y = [[1, 0], [0, 1], [1, 0], [0, 1]], [[1, 0], [0, 1], [1, 0], [0, 1]]
    >>> SLEEC(n_neighbors=2, coef_sparsity=0, code_sparsity=0, random_state=0).fit(X, Y).predict_topk(X, 1)[0].ravel()
    array([0, 1, 0, 1])
    """

    n_components: Count = 100
    n_graph_neighbors: Count = 250
    n_neighbors: Count = 25
    n_learners: Count = 1
    n_clusters: Count = 1
    cost: Positive = 0.2
    admm_sweeps: CountOrZero = 0
    coef_sparsity: Share = 0.01
    code_sparsity: Share = 0.01
    max_sweeps: CountOrZero = 200

    _saved_state = (*NormalizingBaseline._saved_state, "centers_", "embeddings_", "Y_")

    @single_threaded_blas
    def _fit_rows(self, X: Any, Y: sparse.csr_array) -> None:
        self._check_rows(*X.shape)
        rng = check_random_state(self.random_state)
        features = self._scaled(X)
        self.Y_ = Y
        self.centers_: list[Array] = []
        self.embeddings_: list[list[LocalEmbedding]] = []
        settings = {field.name: getattr(self, field.name) for field in fields(LocalEmbedding)}
        for learner in range(1, self.n_learners + 1):
            clusters = partition(features, self.n_clusters, rng)
            self.centers_.append(np.stack([_mean_row(features[rows]) for rows in clusters]))
            self.embeddings_.append(
                [LocalEmbedding(**settings).fit(features[rows], Y[rows], rows, rng) for rows in clusters]
            )
            if self._on_progress is not None:
                self._on_progress(Progress("learners", learner, self.n_learners))
        if self._wants_calibration:
            self.calibration_ = self._held_out_calibration(X, Y, rng)

    @single_threaded_blas
    def _score_rows(self, X: Any) -> sparse.csr_array:
        X = self._scaled(X)
        ballots = sparse.csr_array((X.shape[0], self.Y_.shape[0]), dtype=np.float32)
        for centers, embeddings in zip(self.centers_, self.embeddings_, strict=True):
            cluster = np.argmax(X @ centers.T, axis=1)
            for number, embedding in enumerate(embeddings):
                rows = np.flatnonzero(cluster == number)
                if rows.size:
                    ballots += self._ballots(X[rows], rows, embedding, ballots.shape)
        votes = sparse.csr_array(ballots @ self.Y_) / np.float32(self.n_learners)
        votes.sort_indices()
        return votes

    def _ballots(
        self, X: Any, rows: NDArray[np.integer], embedding: LocalEmbedding, shape: tuple[int, int]
    ) -> sparse.csr_array:
        """How much each training row says for each of ``rows``: equal shares, but for the breaking of ties."""
        k = min(self.n_neighbors, len(embedding.rows_))
        distances, neighbors = euclidean_neighbors(embedding.transform(X), embedding.codes_, k)
        total = np.maximum(distances.sum(axis=1, keepdims=True), np.finfo(np.float32).tiny)
        shares = (1.0 - TIE_BREAK * distances / total) / k
        voters = embedding.rows_[neighbors]
        return sparse.csr_array((shares.ravel().astype(np.float32), (np.repeat(rows, k), voters.ravel())), shape=shape)

    def _check_rows(self, n_samples: int, n_features: int) -> None:
        if self.n_neighbors > n_samples:
            warnings.warn(
                f"n_neighbors={self.n_neighbors} is more than the {n_samples} training rows; using {n_samples}.",
                SLDLWarning,
                stacklevel=4,
            )
        graph = min(self.n_graph_neighbors, n_samples) * n_samples
        require_memory(
            4 * 8 * graph + self.n_learners * 4 * self.n_components * (n_features + 2 * n_samples),
            f"The neighbor graph and codes of {n_samples} rows",
            "Use fewer n_graph_neighbors, n_components or n_learners.",
            self.memory_limit,
        )


def partition(X: Any, n_clusters: int, rng: np.random.RandomState) -> list[NDArray[np.int64]]:
    """Rows of the clusters of ``X``, none empty.

    A row belongs to the cluster whose mean has the largest inner product with it; the first means are random rows.
    """
    n_samples = X.shape[0]
    if n_clusters == 1:
        return [np.arange(n_samples)]
    first = rng.choice(n_samples, size=min(n_clusters, n_samples), replace=False)
    clusters = [np.array([row]) for row in first]
    for _ in range(PARTITION_STEPS):
        centers = np.stack([_mean_row(X[rows]) for rows in clusters])
        nearest = np.argmax(X @ centers.T, axis=1)
        clusters = [np.flatnonzero(nearest == number) for number in np.unique(nearest)]
    return clusters


def _mean_row(X: Any) -> NDArray[np.float32]:
    return np.asarray(X.mean(axis=0), dtype=np.float32).ravel()


def label_neighbors(Y: sparse.csr_array, k: int) -> tuple[NDArray[np.int64], Array]:
    """The k rows with the largest cosine of labels to each row, itself among them, ties to the lower row.

    Rows that share no label fill up if fewer than k share one. Neighbors and similarities are of shape (n_rows, k).
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
    """Find codes U with ``u_i · v_j`` near the similarity of i and j, over the pairs in the neighbor graph only.

    ``neighbors`` and ``similarities`` (n_rows, k) are those of :func:`label_neighbors`. A truncated SVD of the graph is
    improved by gradient sweeps, first over U, then over V. This is what the authors' code does instead of the singular
    value projection of their paper; like there, V is discarded.
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
    exact = graph.astype(np.float64)
    if 3 * rank >= m:  # ARPACK finds a few of many; for most of few the dense algorithm is the faster and safer one
        left, values, right = np.linalg.svd(exact.toarray())
    else:
        # What scipy's svds does, but for the seed: without it, a graph of lower rank has another basis in every fit.
        seed = {"rng": 0} if "rng" in signature(eigsh).parameters else {}
        gram = LinearOperator((m, m), matvec=lambda x: exact.T @ (exact @ x), dtype=exact.dtype)
        basis = np.linalg.qr(eigsh(gram, k=rank, v0=rng.uniform(-1.0, 1.0, m), **seed)[1])[0]
        left, values, right = linalg.svd(exact @ basis, full_matrices=False, overwrite_a=True)
        right = right @ basis.T
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
    """The largest of the smallest ``share`` of the values of every column, -1 if the share is none."""
    count = int(np.ceil(share * len(magnitudes)))
    if count == 0:
        return -1.0
    return np.partition(magnitudes, count - 1, axis=0)[count - 1]
