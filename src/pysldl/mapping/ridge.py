"""Ridge regression from features to the latent space."""

from copy import copy
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from pysldl.exceptions import DataError
from pysldl.mapping.normal_equations import NormalEquations
from pysldl.mapping.solvers import Design, choose_solver, continue_cg, solve_cg, solve_cholesky, solve_lbfgs
from pysldl.progress import Progress, ProgressCallback

__all__ = ["RidgeMapping"]

RowPairs = tuple[Any, Any]


class RidgeMapping(MultiOutputMixin, RegressorMixin, BaseEstimator):
    """Minimise ``‖Z - XW‖² + alpha ‖W‖²`` (Eq. 10). Its cost does not depend on the number of labels.

    Parameters
    ----------
    alpha : float
        Weight of the penalty; the paper uses 1.
    solver : {"auto", "cholesky", "cg", "lbfgs"}
        The problem is linear, so all give the same W. ``"lbfgs"`` is the paper's choice; ``"auto"`` takes the cheaper
        of Cholesky and conjugate gradients. With ``positive`` only L-BFGS can be used, and ``"auto"`` takes it.
    fit_intercept : bool
        The paper fits none.
    positive : bool
        Keep every weight at zero or above, as the authors' code does.
    tol : float
        Relative residual (conjugate gradients) or gradient (L-BFGS) at which to stop.
    max_iter : int
        Cap on the steps of the iterative solvers.
    keep_normal_equations : bool
        Keep ``XᵀX`` and ``XᵀZ`` where the Cholesky solver made them, for :meth:`update`; they take
        ``8 n_features²`` bytes. The other solvers need none: they go on from the weights they have.
    random_state : int, RandomState or None
        Draws the probes that estimate leverages under conjugate gradients.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features, n_components), float32
    intercept_ : ndarray of shape (n_components,), float32
    solver_ : str
        The solver that ran.
    n_iter_ : int
        Its steps; 1 for Cholesky.
    normal_equations_ : NormalEquations or None
    """

    _saved_state = (
        "coef_",
        "intercept_",
        "solver_",
        "n_iter_",
        "n_features_in_",
        "one_dimensional_",
        "normal_equations_",
    )

    def __init__(
        self,
        alpha: float = 1.0,
        *,
        solver: Literal["auto", "cholesky", "cg", "lbfgs"] = "auto",
        fit_intercept: bool = False,
        positive: bool = False,
        tol: float = 1e-6,
        max_iter: int = 2000,
        keep_normal_equations: bool = False,
        random_state: Any = None,
    ) -> None:
        self.alpha = alpha
        self.solver = solver
        self.fit_intercept = fit_intercept
        self.positive = positive
        self.tol = tol
        self.max_iter = max_iter
        self.keep_normal_equations = keep_normal_equations
        self.random_state = random_state

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
            Rows whose leverage (diagonal of the hat matrix) shall be kept as ``leverage_``, from which
            :meth:`leave_one_out` derives what the model would say of a row it never saw.
        progress : callable, optional
        """
        if not self.alpha >= 0:
            raise DataError(f"alpha must be zero or positive, but is {self.alpha!r}.")
        X, Z = validate_data(self, X, y, accept_sparse="csr", multi_output=True, dtype=np.float64, y_numeric=True)
        self.one_dimensional_ = Z.ndim == 1
        targets = _dense(Z).reshape(X.shape[0], -1)
        self.normal_equations_ = self._normal_equations(X, targets)
        mean = None
        target_mean = np.zeros(targets.shape[1])
        if self.fit_intercept:
            mean = np.asarray(X.mean(axis=0), dtype=np.float64).ravel()
            target_mean = targets.mean(axis=0)
            targets = targets - target_mean
        design = Design(X, mean)
        self.solver_ = self._pick_solver(X, targets.shape[1])
        if self.solver_ == "cholesky":
            # A singular Gram matrix has no Cholesky factor; a penalty at the rounding error changes nothing else.
            alpha = max(
                self.alpha,
                1e-10 * max(float(X.multiply(X).sum() if sparse.issparse(X) else (X**2).sum()), 1.0),
            )
            solution = solve_cholesky(design, targets, alpha, leverage_of)
        elif self.solver_ == "cg":
            solution = solve_cg(
                design,
                targets,
                self.alpha,
                tol=self.tol,
                max_iter=self.max_iter,
                leverage_of=leverage_of,
                rng=check_random_state(self.random_state),
                on_step=progress and (lambda s, error: progress(Progress("mapping", s, self.max_iter, error))),
            )
        else:
            solution = solve_lbfgs(
                design, targets, self.alpha, tol=self.tol, max_iter=self.max_iter, positive=self.positive
            )
        self.leverage_ = solution.leverage
        self.n_iter_ = solution.n_iter
        self.coef_ = solution.W.astype(np.float32)
        intercept = target_mean if mean is None else target_mean - mean @ solution.W
        self.intercept_ = intercept.astype(np.float32)
        return self

    def update(self, X: Any, Z: Any, *, added: RowPairs | None = None, removed: RowPairs | None = None) -> Self:
        """Weights for a training set of which a few rows came or went, without starting again.

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
        self.leverage_ = None
        equations = getattr(self, "normal_equations_", None)
        if equations is not None:
            equations = copy(equations)
            if added is not None:
                equations.add(added[0], _dense(added[1]))
            if removed is not None:
                equations.remove(removed[0], _dense(removed[1]))
            W, intercept = equations.solve(self.alpha, fit_intercept=self.fit_intercept)
            self.normal_equations_ = equations
            self.n_iter_ = 1
        else:
            W, intercept = self._continue(X.astype(np.float64), _dense(Z))
        self.coef_ = W.astype(np.float32)
        self.intercept_ = intercept.astype(np.float32)
        return self

    def predict(self, X: Any) -> NDArray[np.float32]:
        """Latent codes ``X W`` (Eqs. 17 and 18), of shape (n_samples, n_components)."""
        check_is_fitted(self)
        X = validate_data(self, X, accept_sparse="csr", dtype=[np.float32, np.float64], reset=False)
        codes = X @ self.coef_
        if self.fit_intercept:
            codes += self.intercept_
        return codes.ravel() if self.one_dimensional_ else codes

    def leave_one_out(self, codes: NDArray[np.float32], Z: Any) -> NDArray[np.float32]:
        """Codes that the rows of ``leverage_of`` would get from a mapping fitted without them.

        For ridge regression this needs no second fit: with leverage h, ``z - (z - z_hat)/(1 - h)``. Where no leverage
        is known (L-BFGS), the codes are returned as they are.

        Parameters
        ----------
        codes : ndarray of shape (n_rows, n_components)
            ``predict`` of those rows.
        Z : ndarray or csr_array of shape (n_rows, n_components)
            Their targets.
        """
        if self.leverage_ is None:
            return codes
        targets = np.asarray(Z.toarray() if sparse.issparse(Z) else Z)
        left = np.maximum(1.0 - self.leverage_, 0.05)[:, None].astype(np.float32)
        return targets - (targets - codes) / left

    def memory(self, n_samples: int, n_features: int, n_nonzeros: int, n_components: int) -> int:
        """Bytes that :meth:`fit` needs at its peak, beside its input."""
        side = min(n_samples, n_features)
        targets = 8 * n_samples * n_components
        weights = 8 * n_features * n_components
        data = 12 * n_nonzeros
        solver: str = self.solver
        if solver == "auto":
            solver = "lbfgs" if self.positive else choose_solver(n_samples, n_features, n_nonzeros, n_components)
        work = {
            "cholesky": 3 * 8 * side**2 + 2 * weights,
            "cg": 6 * weights + targets,
            "lbfgs": 46 * weights + targets,
        }
        keeps = self.keep_normal_equations and solver == "cholesky" and n_features <= n_samples
        kept = 8 * n_features**2 if keeps else 0
        return data + targets + work[solver] + kept

    def _normal_equations(self, X: Any, targets: NDArray[np.float64]) -> NormalEquations | None:
        """The sums over all rows, where they are asked for and smaller than the rows."""
        if not self.keep_normal_equations or X.shape[1] > X.shape[0]:
            return None
        return NormalEquations().fit(X, targets) if self._pick_solver(X, targets.shape[1]) == "cholesky" else None

    def _continue(self, X: Any, targets: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Weights and intercept by iteration from the present weights."""
        start = np.pad(self.coef_.astype(np.float64), ((0, 0), (0, targets.shape[1] - self.coef_.shape[1])))
        mean, target_mean = None, np.zeros(targets.shape[1])
        if self.fit_intercept:
            mean, target_mean = np.asarray(X.mean(axis=0), dtype=np.float64).ravel(), targets.mean(axis=0)
            targets = targets - target_mean
        design = Design(X, mean)
        if self.positive:
            solution = solve_lbfgs(
                design, targets, self.alpha, tol=self.tol, max_iter=self.max_iter, positive=True, start=start
            )
        else:
            solution = continue_cg(design, targets, self.alpha, start, tol=self.tol, max_iter=self.max_iter)
        self.n_iter_ = solution.n_iter
        return solution.W, target_mean if mean is None else target_mean - mean @ solution.W

    def _pick_solver(self, X: Any, n_targets: int) -> str:
        if self.solver not in ("auto", "cholesky", "cg", "lbfgs"):
            raise DataError(f"solver must be 'auto', 'cholesky', 'cg' or 'lbfgs', but is {self.solver!r}.")
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


def _dense(Z: Any) -> NDArray[np.float64]:
    return np.asarray(Z.toarray() if sparse.issparse(Z) else Z, dtype=np.float64)
