"""Ridge regression from features to the latent space."""

from collections.abc import Sequence
from copy import copy
from dataclasses import KW_ONLY, dataclass
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from pysldl._utils.constraints import AnnotatedParameters, Count, NotNegative, Seed, between
from pysldl._utils.light_estimator import validate_parameters
from pysldl._utils.progress import Progress, ProgressCallback
from pysldl.backend.dispatch import as_int32_indices, current_device
from pysldl.backend.half_precision import nearest_halves
from pysldl.backend.linear_algebra import DesignMatrix, as_dense, design_matrix
from pysldl.backend.threads import matmul, single_threaded_blas
from pysldl.exceptions import DataError
from pysldl.mapping.early_stopping import HeldOutError, choose_alpha, rows_to_hold_out
from pysldl.mapping.linear_predictor import LinearPredictor
from pysldl.mapping.normal_equations import NormalEquations
from pysldl.mapping.solvers import (
    LEVERAGE_PROBES,
    SINGLE_PRECISION_REACH,
    Solution,
    ridge_factor,
    solve_cg,
    solve_cholesky,
    solve_lbfgs,
)

# Seconds of one core for 1e9 multiply-adds, measured on two x86 cores: BLAS in double precision, a scattered sum into a
# sparse product, a dense row of single precision fetched for every stored value, and one pass over the CG's vectors.
DENSE, SCATTERED, FETCHED, VECTOR = 0.04, 4.0, 0.25, 2.0
STEPS = 40
LARGEST_FACTOR = 2 << 30

RowPairs = tuple[Any, Any]


@dataclass(eq=False, repr=False)
class RidgeMapping(AnnotatedParameters, LinearPredictor, MultiOutputMixin, RegressorMixin, BaseEstimator):
    """Minimize ``‖Z - XW‖² + alpha ‖W‖²`` (Eq. 10). Its cost does not depend on the number of labels.

    Parameters
    ----------
    alpha : float or sequence of float, default=1.0
        Weight of the penalty; the paper uses 1. Of several, the one with the smallest squared error on training rows
        held out for it is taken.
    solver : {"auto", "cholesky", "cg", "lbfgs"}, default="auto"
        The problem is linear, so all give the same W. ``"lbfgs"`` is the paper's choice; ``"auto"`` takes the cheaper
        of Cholesky and conjugate gradients. With ``positive`` only L-BFGS can be used, and ``"auto"`` takes it.
    fit_intercept : bool, default=False
        The paper fits none.
    positive : bool, default=False
        Keep every weight at zero or above, as the authors' code does.
    tol : float, default=1e-06
        Relative residual (conjugate gradients) or gradient (L-BFGS) at which to stop.
    max_iter : int, default=2000
        Cap on the steps of the iterative solvers.
    early_stopping : bool, default=False
        Hold up to 2,000 training rows out, and let conjugate gradients, in single precision, stop when their error no
        longer falls: after five to twenty steps on texts instead of hundreds. The codes of those rows are then those
        of unseen rows.
    keep_normal_equations : bool, default=False
        Keep ``XᵀX`` and ``XᵀZ`` if the Cholesky solver made them, for :meth:`update`; they take
        ``8 n_features²`` bytes. The other solvers need none: they go on from the weights they have.
    half_precision : bool, default=False
        Round the weights to half precision, in which they take half the space of a model folder.
    random_state : int, RandomState or None, default=None
        Draws the probes that estimate leverages under conjugate gradients.

    Attributes
    ----------
    alpha_ : float
        The penalty taken.
    coef_ : ndarray of shape (n_features, n_components), float32
    intercept_ : ndarray of shape (n_components,), float32
    solver_ : str
        The solver that ran.
    n_iter_ : int
        Its steps; 1 for Cholesky.
    held_rows_ : ndarray of int or None
        Training rows that the weights never saw, with ``early_stopping``.
    tol_ : float
        Where :meth:`update` may stop: ``tol``, or the residual that early stopping left.
    normal_equations_ : NormalEquations or None

    References
    ----------
    "Scalable Label Distribution Learning", Eqs. 10 (the objective), 11 to 16 (L-BFGS), 17 and 18 (the codes).

    Examples
    --------
    >>> X, Z = np.eye(3), np.array([[2.0, 0.0], [0.0, 2.0], [4.0, 4.0]])
    >>> RidgeMapping(alpha=1.0).fit(X, Z).predict(X[2:])
    array([[2., 2.]])
    """

    alpha: Annotated[float | Sequence[float], between(0, None, "left"), "array-like"] = 1.0
    _: KW_ONLY
    solver: Literal["auto", "cholesky", "cg", "lbfgs"] = "auto"
    fit_intercept: bool = False
    positive: bool = False
    tol: NotNegative = 1e-6
    max_iter: Count = 2000
    early_stopping: bool = False
    keep_normal_equations: bool = False
    half_precision: bool = False
    random_state: Seed = None

    _saved_state: ClassVar[tuple[str, ...]] = (
        *("alpha_", "tol_", "coef_", "intercept_", "solver_", "n_iter_"),
        *("n_features_in_", "one_dimensional_", "normal_equations_"),
    )

    @single_threaded_blas
    def fit(
        self,
        X: Any,
        y: Any,
        *,
        leverage_of: NDArray[np.integer] | None = None,
        progress: ProgressCallback | None = None,
    ) -> Self:
        """Fit the weights.

        Parameters
        ----------
        X : array-like or sparse of shape (n_samples, n_features)
        y : array-like or sparse of shape (n_samples, n_components)
            The targets Z; one-dimensional for a single one.
        leverage_of : array of int, optional
            Rows whose leverage (diagonal of the hat matrix) should be kept as ``leverage_``, from which
            :meth:`leave_one_out` derives what the model would say of a row it never saw. If ``early_stopping``
            holds rows out, which the model never saw in truth (leverage 0), a request for fewer than all is dropped.
        progress : callable, optional
        """
        validate_parameters(self)
        alphas = self._alphas()
        X, Z = validate_data(
            self, X, y, accept_sparse="csr", multi_output=True, dtype=[np.float64, np.float32], y_numeric=True
        )
        self.one_dimensional_ = Z.ndim == 1
        self.solver_ = self._pick_solver(X, 1 if self.one_dimensional_ else Z.shape[1])
        single = self.solver_ == "cg" and (self.early_stopping or self.tol >= SINGLE_PRECISION_REACH)
        # Sparse targets stay sparse where only their products with the features are needed.
        if not (sparse.issparse(Z) and sparse.issparse(X) and self._takes_sparse_targets(X, alphas)):
            Z = as_dense(Z, np.float32 if single else np.float64).reshape(X.shape[0], -1)
        targets = Z
        self.normal_equations_ = self._normal_equations(X, targets)
        design, targets, target_mean = self._centered(X, targets)
        rng = check_random_state(self.random_state)
        stops_early = self.early_stopping and self.solver_ == "cg"
        held = rows_to_hold_out(X.shape[0], rng) if stops_early or len(alphas) > 1 else None
        self.alpha_ = alphas[0]
        if held is not None and len(alphas) > 1:
            self.alpha_ = choose_alpha(design.single(), targets, alphas, held, self.max_iter, stops_early=stops_early)
        self.held_rows_ = held if stops_early else None
        if stops_early and leverage_of is not None and len(leverage_of) < X.shape[0]:
            leverage_of = None
        solution = self._solve(design, targets, leverage_of, rng, progress)
        self.leverage_, self._leverage_of = solution.leverage, leverage_of
        self.n_iter_ = solution.n_iter
        self.tol_ = max(self.tol, solution.left) if stops_early else self.tol
        self._take(solution.W, design, target_mean)
        return self

    def _takes_sparse_targets(self, X: Any, alphas: list[float]) -> bool:
        is_plain = not self.fit_intercept and not self.keep_normal_equations and len(alphas) == 1
        return self.solver_ == "cholesky" and is_plain and X.shape[1] <= X.shape[0] and current_device() is None

    def _solve(
        self,
        design: DesignMatrix,
        targets: NDArray[Any],
        leverage_of: NDArray[np.integer] | None,
        rng: np.random.RandomState,
        progress: ProgressCallback | None,
    ) -> Solution:
        if self.solver_ == "cholesky":
            # A singular Gram matrix has no Cholesky factor; a penalty at the rounding error changes nothing else.
            X = design.X
            energy = float(np.square(X.data if sparse.issparse(X) else X).sum(dtype=np.float64))
            penalty = max(self.alpha_, 1e-10 * max(energy, 1.0))
            return solve_cholesky(design, targets, penalty, leverage_of, self._factor(design, penalty))
        if self.solver_ == "lbfgs":
            return solve_lbfgs(
                design, targets, self.alpha_, tol=self.tol, max_iter=self.max_iter, positive=self.positive
            )
        tol, held_out = self.tol, None
        if self.held_rows_ is not None:
            design = design.single()
            tol, held_out = max(self.tol, SINGLE_PRECISION_REACH), HeldOutError(design, targets, self.held_rows_)
            design = design.without_rows(self.held_rows_)
            targets = targets.copy()
            targets[self.held_rows_] = 0
        return solve_cg(
            design,
            targets,
            self.alpha_,
            tol=tol,
            max_iter=self.max_iter,
            leverage_of=leverage_of,
            rng=rng,
            on_step=progress and (lambda step, error: progress(Progress("mapping", step, self.max_iter, error))),
            held_out=held_out,
        )

    def _factor(self, design: DesignMatrix, penalty: float) -> Any:
        return ridge_factor(design, penalty)

    @single_threaded_blas
    def update(self, X: Any, Z: Any, *, added: RowPairs | None = None, removed: RowPairs | None = None) -> Self:
        """Update the weights after a few rows were added or removed, without starting again.

        With ``normal_equations_`` only those rows are read. Otherwise the weights are the start of an iteration over
        all rows, conjugate gradients (L-BFGS with ``positive``), that stops where that of :meth:`fit` would.

        Parameters
        ----------
        X : ndarray or csr_array of shape (n_samples, n_features)
            All rows as they are now.
        Z : ndarray or csr_array of shape (n_samples, n_components)
            Their targets. There may be more components than before: then all earlier rows have zeros there.
        added, removed : tuple of features and targets, optional
            The rows that came, and the rows that went.
        """
        check_is_fitted(self)
        self.leverage_ = self.held_rows_ = None
        equations = self.normal_equations_
        if equations is not None:
            equations = copy(equations)
            if added is not None:
                equations.add(added[0], as_dense(added[1]))
            if removed is not None:
                equations.remove(removed[0], as_dense(removed[1]))
            W, intercept = equations.solve(self.alpha_, fit_intercept=self.fit_intercept)
            self.normal_equations_ = equations
            self.n_iter_ = 1
            self.coef_ = self._rounded(W)
            self.intercept_ = intercept.astype(np.float32)
        else:
            self._continue(X, as_dense(Z))
        return self

    def like(self, fitted: Self) -> Self:
        """Set what ``fitted`` chose by held-out rows, so that a fit to part of its rows does not choose again."""
        self.alpha = fitted.alpha_
        return self

    def predict(self, X: Any) -> NDArray[np.float32]:
        """Compute the latent codes ``X W`` (Eqs. 17 and 18), of shape (n_samples, n_components)."""
        check_is_fitted(self)
        X = validate_data(self, X, accept_sparse="csr", dtype=[np.float32, np.float64], reset=False)
        return super().predict(X)

    def code_moments(self, X: Any, Y: sparse.csr_array) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
        """Return ``CᵀC`` and ``YᵀC`` of the codes C of rows, which are not formed, of labels Y.

        None where forming them costs less, with few rows, or where there is an intercept.
        """
        weights, of_landmarks, of_rows = self._weights()
        n_columns = weights.shape[0] + (0 if of_landmarks is None else of_landmarks.shape[0])
        if of_rows is not None or X.shape[0] < n_columns:
            return None
        gram, moments = self._moments(X, Y)
        W = np.vstack([part for part in (weights, of_landmarks) if part is not None]).astype(np.float64)
        return matmul(W.T, matmul(gram, W)), matmul(moments.T, W)

    def _moments(self, X: Any, Y: sparse.csr_array) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """``XᵀX`` and ``XᵀY``, of all that has weights."""
        design = DesignMatrix(in_double_precision(X), None)
        return design.gram(), design.transposed_times(Y)

    def leave_one_out(
        self, codes: NDArray[np.float32], Z: Any, rows: NDArray[np.integer] | None = None
    ) -> NDArray[np.float32]:
        """Return the codes that the rows of ``leverage_of`` would get from a mapping fitted without them.

        For ridge regression this needs no second fit: with leverage h, ``z - (z - z_hat)/(1 - h)``. If no leverage
        is known (L-BFGS), the codes are returned as they are.

        Parameters
        ----------
        codes : ndarray of shape (n_rows, n_components)
            ``predict`` of those rows.
        Z : ndarray or csr_array of shape (n_rows, n_components)
            Their targets.
        rows : array of int, optional
            Their numbers, all among ``leverage_of``; by default all of those.
        """
        leverage = self.leverage_
        if leverage is None:
            return codes
        if rows is not None and self._leverage_of is not None:
            order = np.argsort(self._leverage_of)
            leverage = leverage[order[np.searchsorted(self._leverage_of, rows, sorter=order)]]
        targets = as_dense(Z, None)
        left = np.maximum(1.0 - leverage, 0.05)[:, None].astype(np.float32)
        return np.asarray(targets - (targets - codes) / left)

    def memory(self, n_samples: int, n_features: int, n_nonzeros: int, n_components: int) -> int:
        """Return the bytes that :meth:`fit` needs at its peak, besides its input."""
        side = min(n_samples, n_features)
        targets = 8 * n_samples * n_components
        weights = 8 * n_features * n_components
        data = 24 * n_nonzeros  # in single precision, by rows and by columns, and what was given
        columns = n_components + LEVERAGE_PROBES
        solver: str = self.solver
        if solver == "auto":
            solver = "lbfgs" if self.positive else choose_solver(n_samples, n_features, n_nonzeros, n_components)
        work = {
            "cholesky": 3 * 8 * side**2 + 2 * weights,
            "cg": 48 * n_features * columns + 12 * n_samples * columns,
            "lbfgs": 46 * weights + targets,
        }
        keeps = self.keep_normal_equations and solver == "cholesky" and n_features <= n_samples
        kept = 8 * n_features**2 if keeps else 0
        return data + targets + work[solver] + kept

    def _normal_equations(self, X: Any, targets: NDArray[np.float64]) -> NormalEquations | None:
        """The sums over all rows, if they are asked for and smaller than the rows."""
        if not self.keep_normal_equations or X.shape[1] > X.shape[0]:
            return None
        return NormalEquations().fit(X, targets) if self._pick_solver(X, targets.shape[1]) == "cholesky" else None

    def _continue(self, X: Any, targets: NDArray[np.float64]) -> None:
        """Iterate from the present weights."""
        start = np.pad(self.coef_, ((0, 0), (0, targets.shape[1] - self.coef_.shape[1])))
        design, targets, target_mean = self._centered(X, targets)
        settings: dict[str, Any] = {"tol": self.tol_, "max_iter": self.max_iter, "start": start}
        if self.positive:
            solution = solve_lbfgs(design, targets, self.alpha_, positive=True, **settings)
        else:
            solution = solve_cg(design, targets, self.alpha_, **settings)
        self.n_iter_ = solution.n_iter
        self._take(solution.W, design, target_mean)

    def _centered(self, X: Any, targets: NDArray[Any]) -> tuple[DesignMatrix, NDArray[Any], NDArray[np.float64]]:
        """Features and targets as the solver takes them, and the mean of the targets if there is an intercept."""
        if self.solver_ != "cg":
            X = X.astype(np.float64, copy=False)
        if sparse.issparse(X):
            X = as_int32_indices(sparse.csr_array(X))
        if not self.fit_intercept:
            return design_matrix(X), targets, np.zeros(targets.shape[1])
        mean = np.asarray(X.mean(axis=0, dtype=np.float64)).ravel()
        target_mean = targets.mean(axis=0, dtype=np.float64)
        return design_matrix(X, mean), targets - target_mean.astype(targets.dtype), target_mean

    def _take(self, W: NDArray[Any], design: DesignMatrix, target_mean: NDArray[np.float64]) -> None:
        self.coef_ = self._rounded(W)
        intercept = target_mean if design.mean is None else target_mean - design.mean @ W
        self.intercept_ = intercept.astype(np.float32)

    def _rounded(self, W: NDArray[Any]) -> NDArray[np.float32]:
        W = W.astype(np.float32, copy=False)
        return nearest_halves(W) if self.half_precision else W

    def _alphas(self) -> list[float]:
        alphas = [float(alpha) for alpha in np.atleast_1d(self.alpha)]
        if not alphas or not min(alphas) >= 0:
            raise DataError(f"alpha must be zero or positive, or several such numbers, but is {self.alpha!r}.")
        return alphas

    def _pick_solver(self, X: Any, n_targets: int) -> str:
        if self.positive:
            if self.solver not in ("auto", "lbfgs"):
                raise DataError(f"positive=True needs solver='lbfgs' (or 'auto'), but solver is {self.solver!r}.")
            return "lbfgs"
        if self.solver != "auto":
            return self.solver
        nonzeros = X.nnz if sparse.issparse(X) else X.size
        return choose_solver(X.shape[0], X.shape[1], nonzeros, n_targets)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def solver_seconds(n_samples: int, n_features: int, n_nonzeros: int, n_targets: int) -> dict[str, float]:
    """Estimate the seconds of one core, for ``"cholesky"`` and ``"cg"``.

    Cholesky forms the smaller Gram matrix, factors it and solves; conjugate gradients take about forty steps, each a
    product with X, one with its transpose, and a few passes over (n_features, n_targets) arrays.
    """
    side, other = sorted((n_samples, n_features))
    is_dense = n_nonzeros > 0.5 * n_samples * n_features
    # Every stored value of the longer side meets those that share its row.
    gram = DENSE * side**2 * other / 2 if is_dense else SCATTERED * n_nonzeros**2 / max(other, 1)
    cholesky = gram + DENSE * (side**3 / 3 + side**2 * n_targets) + FETCHED * n_nonzeros * n_targets
    product = (DENSE if is_dense else FETCHED) * n_nonzeros * n_targets
    cg = STEPS * (2 * product + VECTOR * n_features * n_targets)
    return {"cholesky": cholesky * 1e-9, "cg": cg * 1e-9}


def choose_solver(n_samples: int, n_features: int, n_nonzeros: int, n_targets: int) -> str:
    """Return ``"cholesky"`` or ``"cg"``, whichever should take less time; never a factor of more than 2 GiB."""
    seconds = solver_seconds(n_samples, n_features, n_nonzeros, n_targets)
    fits = 2 * 8 * min(n_samples, n_features) ** 2 <= LARGEST_FACTOR
    return "cholesky" if fits and seconds["cholesky"] <= seconds["cg"] else "cg"


def in_double_precision(values: Any) -> Any:
    """Rows of double precision, sparse ones as they are."""
    if sparse.issparse(values):
        return sparse.csr_array(values, dtype=np.float64)
    return as_dense(values).reshape(len(values), -1)
