"""Ridge regression that also sees how near a row is to some training rows."""

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from pysldl._utils.constraints import Count
from pysldl._utils.light_estimator import inherit_parameters
from pysldl._utils.progress import ProgressCallback
from pysldl.backend.linear_algebra import (
    DesignMatrix,
    as_dense,
    cholesky_factor,
    cholesky_solve,
    triangular_solve,
)
from pysldl.backend.threads import matmul, single_threaded_blas
from pysldl.mapping.linear_predictor import landmark_squares
from pysldl.mapping.ridge import RidgeMapping, in_double_precision
from pysldl.mapping.solvers import Solution

ROWS_OF_COLUMN = 4  # at least, for every feature and landmark
MOST_BYTES = 512 << 20  # of the squared products of all rows and their scaled copy; with more rows there are none
TRIAL_ROWS = 5000  # that decide whether landmarks help, or up to twice as many
JUDGED, FIRST_JUDGED = 5, 2  # every so many of them are judged, from this one on
JUDGED_AT_ONCE = 256
ERRORS = 2.0  # standard errors by which they must


@inherit_parameters
@dataclass(eq=False, repr=False)
class LandmarkRidge(RidgeMapping):
    """Ridge regression on the features and on their squared products with some training rows, the landmarks.

    For rows of length 1 these are squared cosines: a curved function of the features at the price of a few columns (the
    Nyström method for a polynomial kernel). Landmarks are evenly spread rows. They are used where, of some thousand
    rows, they lower the squared error of every fifth by a regression on the others, by more than chance. Else this is
    :class:`RidgeMapping`, and so it is where there are fewer than four rows for each feature and landmark, where the
    squared products would take more than half a gigabyte, and for other solvers than Cholesky's.

    Parameters
    ----------
    n_landmarks : int, default=300
        Number of landmarks.
    use : bool or None, default=None
        Whether to use them; None: if they help.

    Attributes
    ----------
    landmarks_ : csr_array of shape (n_landmarks, n_features), float32, or None
    landmark_coef_ : ndarray of shape (n_landmarks, n_components), float32, or None

    Examples
    --------
    >>> angles = np.linspace(0, 3, 400)
    >>> X, Z = np.column_stack([np.cos(angles), np.sin(angles)]), np.sin(2 * angles)
    >>> mappings = RidgeMapping(alpha=0.01).fit(X, Z), LandmarkRidge(alpha=0.01, n_landmarks=5).fit(X, Z)
    >>> [round(float(np.abs(mapping.predict(X) - Z).max()), 2) for mapping in mappings]
    [0.91, 0.0]
    """

    n_landmarks: Count = 300
    use: bool | None = None

    _saved_state: ClassVar[tuple[str, ...]] = (*RidgeMapping._saved_state, "landmarks_", "landmark_coef_")

    @single_threaded_blas
    def fit(
        self,
        X: Any,
        y: Any,
        *,
        leverage_of: NDArray[np.integer] | None = None,
        progress: ProgressCallback | None = None,
    ) -> Self:
        """Fit the weights; parameters are those of :meth:`RidgeMapping.fit`."""
        self.landmarks_ = self.landmark_coef_ = None
        super().fit(X, y, leverage_of=leverage_of, progress=progress)
        if self.use is False or not self._can_have_landmarks:
            return self
        n = min(self.n_landmarks, X.shape[0])
        if self.use is None and self._landmark_bytes(*X.shape) > MOST_BYTES:
            return self
        X, Z = in_double_precision(X), in_double_precision(y)
        landmarks = sparse.csr_array(X[np.linspace(0, X.shape[0] - 1, n).astype(np.intp)], dtype=np.float32)
        if self.use or (X.shape[0] >= ROWS_OF_COLUMN * (X.shape[1] + n) and self._helps(X, Z, landmarks)):
            self._fit_landmarks(X, Z, landmarks, leverage_of)
        return self

    @single_threaded_blas
    def update(self, X: Any, Z: Any, *, added: Any = None, removed: Any = None) -> Self:
        """Update the weights; with landmarks, which stay, by another fit to all rows ``X``."""
        if self.landmarks_ is None:
            return super().update(X, Z, added=added, removed=removed)
        self.leverage_ = None
        self._fit_landmarks(in_double_precision(X), in_double_precision(Z), self.landmarks_, None)
        return self

    def _moments(self, X: Any, Y: sparse.csr_array) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        if self.landmarks_ is None:
            return super()._moments(X, Y)
        X = in_double_precision(X)
        return _sums(X, landmark_squares(X, self.landmarks_), Y)

    def like(self, fitted: RidgeMapping) -> Self:
        """Set what ``fitted`` chose by held-out rows: the penalty, and whether there are landmarks."""
        self.use = getattr(fitted, "landmarks_", None) is not None
        return super().like(fitted)

    def memory(self, n_samples: int, n_features: int, n_nonzeros: int, n_components: int) -> int:
        """Return the bytes that :meth:`fit` needs at its peak, besides its input."""
        of_landmarks = self._landmark_bytes(n_samples, n_features)
        if self.use is False or (self.use is None and of_landmarks > MOST_BYTES):
            of_landmarks = 0
        return super().memory(n_samples, n_features, n_nonzeros, n_components) + of_landmarks

    def _landmark_bytes(self, n_samples: int, n_features: int) -> int:
        return 16 * min(self.n_landmarks, n_samples) * (n_samples + n_features)

    def _solve(
        self,
        design: DesignMatrix,
        targets: NDArray[Any],
        leverage_of: NDArray[np.integer] | None,
        rng: np.random.RandomState,
        progress: ProgressCallback | None,
    ) -> Solution:
        if self.use and self._can_have_landmarks:  # whose fit gives all weights
            return Solution(np.zeros((design.X.shape[1], targets.shape[1])))
        return super()._solve(design, targets, leverage_of, rng, progress)

    @property
    def _can_have_landmarks(self) -> bool:
        return self.solver_ == "cholesky" and not self.fit_intercept

    def _fit_landmarks(
        self, X: Any, Z: Any, landmarks: sparse.csr_array, leverage_of: NDArray[np.integer] | None
    ) -> None:
        """Solve for features and landmarks together."""
        squares, scale = _scaled_squares(X, landmarks)
        gram, moments = _sums(X, squares, Z)
        factor = cholesky_factor(gram, self.alpha_)
        W = cholesky_solve(factor, moments)
        width = X.shape[1]
        if leverage_of is not None:
            rows = np.hstack([as_dense(X[leverage_of]), squares[leverage_of]])
            self.leverage_ = (triangular_solve(factor, rows.T) ** 2).sum(axis=0)
        self.coef_, self.landmark_coef_ = self._rounded(W[:width]), self._rounded(scale * W[width:])
        self.landmarks_, self.normal_equations_ = landmarks, None

    def _helps(self, X: Any, Z: Any, landmarks: sparse.csr_array) -> bool:
        """Whether landmarks lower the error of every fifth of some rows, learned on the others, by more than chance."""
        step = max(X.shape[0] // TRIAL_ROWS, 1)
        X, Z, width = X[::step], Z[::step], X.shape[1]
        squares, _ = _scaled_squares(X, landmarks)
        is_judged = np.arange(X.shape[0]) % JUDGED == FIRST_JUDGED
        gram, moments = _sums(X[~is_judged], squares[~is_judged], Z[~is_judged])
        linear = cholesky_solve(cholesky_factor(gram[:width, :width].copy(), self.alpha_), moments[:width])
        both = cholesky_solve(cholesky_factor(gram, self.alpha_), moments)
        judged = np.flatnonzero(is_judged)
        gain = np.empty(len(judged))
        for start in range(0, len(judged), JUDGED_AT_ONCE):
            part = judged[start : start + JUDGED_AT_ONCE]
            rows, expected = DesignMatrix(X[part], None), as_dense(Z[part])
            curved = rows.times(both[:width]) + matmul(squares[part], both[width:])
            better = np.square(rows.times(linear) - expected) - np.square(curved - expected)
            gain[start : start + len(part)] = better.sum(axis=1)
        return bool(gain.mean() > ERRORS * gain.std() / np.sqrt(len(gain)))


def _scaled_squares(X: Any, landmarks: sparse.csr_array) -> tuple[NDArray[np.float64], float]:
    """Squared products on the scale of the features, on which the penalty is; the factor, a power of two."""
    squares = landmark_squares(X, landmarks)
    values = X.data if sparse.issparse(X) else X
    energies = [max(float(np.vdot(part, part)), 1e-30) for part in (values, squares)]
    scale = float(2.0 ** np.rint(0.5 * np.log2(energies[0] / energies[1])))
    squares *= scale
    return squares, scale


def _sums(X: Any, squares: NDArray[np.float64], Z: Any) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The Gram matrix of features and squares side by side, and their products with the targets."""
    design = DesignMatrix(X, None)
    across = design.transposed_times(squares)
    gram = np.block([[design.gram(), across], [across.T, matmul(squares.T, squares)]])
    of_squares = (Z.T @ squares).T if sparse.issparse(Z) else matmul(squares.T, Z)
    return gram, np.vstack([design.transposed_times(Z), of_squares])
