"""SLEEC: local embeddings that keep label similarities between neighbors, decoded by nearest neighbors."""

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.preprocessing import normalize as normalize_rows
from sklearn.utils import check_random_state

from pysldl._utils.memory import require_memory
from pysldl._utils.progress import Progress, ProgressCallback
from pysldl.backend.threads import single_threaded_blas
from pysldl.baselines.euclidean_neighbors import euclidean_neighbors
from pysldl.baselines.held_out_calibration import held_out_calibration
from pysldl.baselines.sleec.local_embedding import LocalEmbedding
from pysldl.estimator.base import BaseLabelClassifier
from pysldl.exceptions import DataError, SLDLWarning

__all__ = ["SLEEC", "partition"]

PARTITION_STEPS = 7
# Less than a vote over all learners, so that distances decide only between labels with as many votes.
TIE_BREAK = 0.01


class SLEEC(BaseLabelClassifier):
    """Sparse local embeddings for extreme classification (Bhatia et al., NIPS 2015).

    Rows are clustered by their features. In every cluster rows get codes whose inner products keep the cosines of their
    label rows, but only between label-space neighbors; ridge regression maps features to codes; new rows count the
    labels of their nearest neighbors among the mapped training rows of their cluster. Several such learners, each with
    its own clusters, are added up.

    The defaults are those of the comparison in the SLDL paper (100 components, 250 and 25 neighbors) and, for what it
    leaves open, the authors' settings for the data set that these three numbers belong to, but for ``admm_sweeps``.

    Parameters
    ----------
    n_components : int
    n_graph_neighbors : int
        Label-space neighbors, a row itself among them, whose similarities the embedding keeps.
    n_neighbors : int
        Neighbors that vote. Reduced, with a warning, where there are fewer training rows.
    n_learners, n_clusters : int
    cost : float
        Weight of the regression's loss; the ridge penalty is ``1 / (2 cost)``.
    admm_sweeps : int
        0 for ridge regression in closed form. The authors run 2 sweeps of ADMM with an L1 penalty on the codes,
        whose threshold no code reaches: both give the same codes to about three digits.
    coef_sparsity, code_sparsity : float
        Share of the smallest weights, and of the smallest training codes in each dimension, that are set to zero.
    max_sweeps : int
        Cap on the gradient sweeps of the embedding.
    normalize : bool
        Scale every row of X to length 1.
    calibrate : bool
        Learn the threshold of ``predict`` and the probabilities on held-out rows; fitting takes twice as long.
    vectorizer, memory_limit, progress, random_state
        As for :class:`~pysldl.SLDLClassifier`.

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
    """

    _saved_state = (*BaseLabelClassifier._saved_state, "centers_", "embeddings_", "Y_")

    def __init__(
        self,
        n_components: int = 100,
        n_graph_neighbors: int = 250,
        n_neighbors: int = 25,
        *,
        n_learners: int = 1,
        n_clusters: int = 1,
        cost: float = 0.2,
        admm_sweeps: int = 0,
        coef_sparsity: float = 0.01,
        code_sparsity: float = 0.01,
        max_sweeps: int = 200,
        normalize: bool = True,
        calibrate: bool = True,
        vectorizer: Any = None,
        memory_limit: int | str | None = None,
        progress: ProgressCallback | bool | None = None,
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.n_graph_neighbors = n_graph_neighbors
        self.n_neighbors = n_neighbors
        self.n_learners = n_learners
        self.n_clusters = n_clusters
        self.cost = cost
        self.admm_sweeps = admm_sweeps
        self.coef_sparsity = coef_sparsity
        self.code_sparsity = code_sparsity
        self.max_sweeps = max_sweeps
        self.normalize = normalize
        self.calibrate = calibrate
        self.vectorizer = vectorizer
        self.memory_limit = memory_limit
        self.progress = progress
        self.random_state = random_state

    @single_threaded_blas
    def _fit_rows(self, X: Any, Y: sparse.csr_array) -> None:
        self._check(*X.shape)
        rng = check_random_state(self.random_state)
        features = self._scaled(X)
        self.Y_ = Y
        self.centers_: list[NDArray[np.float32]] = []
        self.embeddings_: list[list[LocalEmbedding]] = []
        for learner in range(1, self.n_learners + 1):
            clusters = partition(features, self.n_clusters, rng)
            self.centers_.append(np.stack([_mean_row(features[rows]) for rows in clusters]))
            self.embeddings_.append(
                [self._new_embedding().fit(features[rows], Y[rows], rows, rng) for rows in clusters]
            )
            if self._on_progress is not None:
                self._on_progress(Progress("learners", learner, self.n_learners))
        if self.calibrate and self.target_kind_ != "classes":
            self.calibration_ = held_out_calibration(self, X, Y, rng)

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

    def _new_embedding(self) -> LocalEmbedding:
        return LocalEmbedding(
            self.n_components,
            self.n_graph_neighbors,
            cost=self.cost,
            admm_sweeps=self.admm_sweeps,
            coef_sparsity=self.coef_sparsity,
            code_sparsity=self.code_sparsity,
            max_sweeps=self.max_sweeps,
        )

    def _scaled(self, X: Any) -> Any:
        return normalize_rows(X) if self.normalize else X

    def _check(self, n_samples: int, n_features: int) -> None:
        for name in ("n_components", "n_graph_neighbors", "n_neighbors", "n_learners", "n_clusters"):
            if not getattr(self, name) >= 1:
                raise DataError(f"{name} must be at least 1, but is {getattr(self, name)!r}.")
        if not self.cost > 0:
            raise DataError(f"cost must be positive, but is {self.cost!r}.")
        for name in ("coef_sparsity", "code_sparsity"):
            if not 0 <= getattr(self, name) < 1:
                raise DataError(f"{name} must be at least 0 and below 1, but is {getattr(self, name)!r}.")
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

    Parameters
    ----------
    X : ndarray or csr_array of shape (n_samples, n_features)
    n_clusters : int
    rng : RandomState
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
