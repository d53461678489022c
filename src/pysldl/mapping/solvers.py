"""Three ways to the same W: the minimizer of ``‖Z - XW‖² + alpha ‖W‖²`` (Eq. 10).

All take centered operators (see :class:`Design`), so that an intercept costs no dense copy of sparse input.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, optimize, sparse

from pysldl.backend.conjugate_gradient import advance, column_dots, turn
from pysldl.backend.device import current_device
from pysldl.backend.dispatch import as_int32_indices
from pysldl.backend.sparse_product import sparse_times
from pysldl.backend.threads import matmul
from pysldl.mapping.deflation import MOST_DIRECTIONS, Deflation, deflation_directions

__all__ = [
    "Design",
    "Factor",
    "Solution",
    "cholesky_factor",
    "conjugate_gradients",
    "solve_cg",
    "solve_cholesky",
    "solve_lbfgs",
]

Matrix = NDArray[np.float64]
Factor = tuple[Matrix, bool]
OnStep = Callable[[int, float], None]
LEVERAGE_PROBES = 32
LEVERAGE_BLOCK = 1024
SINGLE_PRECISION_REACH = 1e-4
FEWEST_DIRECTIONS = 8


@dataclass(frozen=True)
class Design:
    """Features with, where an intercept is fitted, their column means taken off on the fly.

    Attributes
    ----------
    X : ndarray or csr_array of shape (n_samples, n_features)
    mean : ndarray of shape (n_features,) or None
    without : ndarray of int, optional
        Rows that count as zero: held out, without a copy of the others.
    """

    X: Any
    mean: NDArray[np.floating] | None
    without: NDArray[np.integer] | None = None

    @cached_property
    def transpose(self) -> Any:
        """``X`` by columns, so that each row of ``XᵀZ`` is one thread's."""
        return as_int32_indices(sparse.csr_array(self.X.T)) if sparse.issparse(self.X) else self.X.T

    def without_rows(self, rows: NDArray[np.integer]) -> "Design":
        """The same, with some rows held out."""
        fewer = Design(self.X, self.mean, rows)
        fewer.__dict__["transpose"] = self.transpose  # one serves both
        return fewer

    def single(self) -> "Design":
        """The same in single precision."""
        if self.X.dtype == np.float32:
            return self
        X = self.X.astype(np.float32)
        return Design(X, None if self.mean is None else self.mean.astype(np.float32), self.without)

    def times(self, W: NDArray[Any]) -> NDArray[Any]:
        """``(X - mean) @ W``."""
        product = _times(self.X, W)
        if self.mean is not None:
            product -= (self.mean @ W).astype(product.dtype)
        if self.without is not None:
            product[self.without] = 0
        return product

    def transposed_times(self, Z: NDArray[Any]) -> NDArray[Any]:
        """``(X - mean).T @ Z``; with ``without``, rows of ``Z`` that are to be zero must be."""
        product = _times(self.transpose, Z)
        if self.mean is not None:
            product -= np.outer(self.mean, Z.sum(axis=0)).astype(product.dtype)
        return product

    def gram(self) -> Matrix:
        """``(X - mean).T @ (X - mean)``, dense (n_features, n_features)."""
        gram = _dense(self.X.T @ self.X) if sparse.issparse(self.X) else matmul(self.X.T, self.X)
        return gram if self.mean is None else gram - self.X.shape[0] * np.outer(self.mean, self.mean)

    def kernel(self) -> Matrix:
        """``(X - mean) @ (X - mean).T``, dense (n_samples, n_samples)."""
        kernel = _dense(self.X @ self.X.T) if sparse.issparse(self.X) else matmul(self.X, self.X.T)
        if self.mean is None:
            return kernel
        across = self.X @ self.mean
        return kernel - across - across[:, None] + self.mean @ self.mean

    def rows(self, rows: NDArray[np.integer]) -> Matrix:
        """Some rows, dense and centered."""
        block = _dense(self.X[rows])
        return block if self.mean is None else block - self.mean


@dataclass(frozen=True)
class Solution:
    """Weights (n_features, n_components), the leverage of the rows that were asked for, the steps it took, and the
    length of the residual against that of the right-hand side."""

    W: NDArray[Any]
    leverage: NDArray[np.floating] | None = None
    n_iter: int = 1
    left: float = 0.0


def cholesky_factor(design: Design, alpha: float) -> Factor:
    """Cholesky factor of the smaller of the two Gram matrices, ``XᵀX + alpha I`` or ``XXᵀ + alpha I``.

    It does not depend on the targets, so that regressions of the same rows can share it.
    """
    n_samples, n_features = design.X.shape
    gram = design.gram() if n_features <= n_samples else design.kernel()
    gram.flat[:: len(gram) + 1] += alpha
    lower, is_lower = linalg.cho_factor(gram, lower=True, overwrite_a=True, check_finite=False)
    return lower, is_lower


def solve_cholesky(
    design: Design,
    Z: Matrix,
    alpha: float,
    leverage_of: NDArray[np.integer] | None = None,
    factor: Factor | None = None,
) -> Solution:
    """Closed form by :func:`cholesky_factor`, which may be given."""
    n_samples, n_features = design.X.shape
    if factor is None and n_features <= n_samples and (device := current_device()) is not None:
        from pysldl.backend.torch.ridge import ridge_by_cholesky

        return Solution(*ridge_by_cholesky(device, design.X, design.mean, Z, alpha, leverage_of))
    factor = cholesky_factor(design, alpha) if factor is None else factor
    if n_features <= n_samples:
        W = linalg.cho_solve(factor, design.transposed_times(Z), check_finite=False)
        if leverage_of is None:
            return Solution(W)
        leverage = np.empty(len(leverage_of))
        for start in range(0, len(leverage_of), LEVERAGE_BLOCK):
            rows = design.rows(leverage_of[start : start + LEVERAGE_BLOCK])
            half = linalg.solve_triangular(factor[0], rows.T, lower=True, check_finite=False)
            leverage[start : start + len(rows)] = (half**2).sum(axis=0)
        return Solution(W, leverage)
    W = design.transposed_times(linalg.cho_solve(factor, Z, check_finite=False))
    if leverage_of is None:
        return Solution(W)
    columns = np.zeros((n_samples, len(leverage_of)))
    columns[leverage_of, np.arange(len(leverage_of))] = 1.0
    inverse = linalg.cho_solve(factor, columns, check_finite=False)
    return Solution(W, 1.0 - alpha * inverse[leverage_of, np.arange(len(leverage_of))])


def solve_cg(
    design: Design,
    Z: NDArray[Any],
    alpha: float,
    *,
    tol: float,
    max_iter: int,
    start: NDArray[Any] | None = None,
    leverage_of: NDArray[np.integer] | None = None,
    rng: np.random.RandomState | None = None,
    on_step: OnStep | None = None,
    held_out: Any = None,
) -> Solution:
    """Conjugate gradients on the normal equations, every column of Z at once, scaled by the diagonal.

    The steps are taken in single precision. Where ``tol`` asks for more digits than that has, what they leave over is
    computed in double precision and solved for again. ``start`` holds weights of nearly the same problem;
    ``held_out``, a :class:`~pysldl.mapping.early_stopping.HeldOutError`, is asked after every step whether to stop.
    Leverages are estimated from random signs that ride along as further columns (Hutchinson's
    estimator). Rows of ``Z`` that ``design`` goes without must be zero.
    """
    n_targets = Z.shape[1]
    single = design.single()
    probes = None
    if leverage_of is not None:
        rng = np.random.RandomState(0) if rng is None else rng
        probes = 2 * rng.randint(0, 2, size=(Z.shape[0], LEVERAGE_PROBES)).astype(Z.dtype) - 1
        if design.without is not None:
            probes[design.without] = 0
        Z = np.hstack([Z, probes])
        start = None if start is None else np.pad(start, ((0, 0), (0, LEVERAGE_PROBES)))
    if (device := current_device()) is not None:
        W, step, left = _solve_on(device, design, Z, alpha, tol, max_iter, start, held_out, on_step)
    elif tol >= SINGLE_PRECISION_REACH:
        B = single.transposed_times(Z.astype(np.float32, copy=False))
        goal = tol * np.sqrt(column_dots(B, B))
        del Z
        asked = None if held_out is None else lambda step, W: held_out.stop(step, W[:, :n_targets])
        W, step, left = conjugate_gradients(
            single, B, alpha, goal, max_iter=max_iter, start=start, on_step=on_step, stop=asked
        )
    else:
        W, step, left = _refined(design, single, Z, alpha, tol, max_iter, start, on_step)
    if probes is None:
        return Solution(W, n_iter=step, left=left)
    smoothed = single.times(np.ascontiguousarray(W[:, n_targets:], dtype=np.float32))[leverage_of]
    leverage = _calmed((smoothed * probes[leverage_of]).mean(axis=1))
    if design.without is not None and leverage_of is not None:
        leverage[np.isin(leverage_of, design.without)] = 0.0
    return Solution(np.ascontiguousarray(W[:, :n_targets]), leverage, step, left)


def _calmed(estimates: NDArray[Any]) -> NDArray[Any]:
    """Estimated leverages, drawn to their mean by as much of their spread as is the estimator's own noise."""
    mean = float(np.clip(estimates.mean(), 0.0, 1.0))
    noise = 2.0 * mean * (1.0 - mean) / LEVERAGE_PROBES
    kept = max(0.0, 1.0 - noise / max(float(estimates.var()), 1e-30))
    return np.clip(mean + kept * (estimates - mean), 0.0, 0.95)


def _solve_on(
    device: Any,
    design: Design,
    Z: NDArray[Any],
    alpha: float,
    tol: float,
    max_iter: int,
    start: NDArray[Any] | None,
    held_out: Any,
    on_step: OnStep | None,
) -> tuple[NDArray[Any], int, float]:
    """The same on a graphics card, which has double precision where ``tol`` asks for it."""
    from pysldl.backend.torch.ridge import conjugate_gradients as on_device

    return on_device(
        device,
        design.X,
        design.mean,
        Z.astype(np.float32 if tol >= SINGLE_PRECISION_REACH else np.float64, copy=False),
        alpha,
        tol=tol,
        max_iter=max_iter,
        start=start,
        held=design.without,
        expected=None if held_out is None else held_out.expected,
        smallest_fall=0.0 if held_out is None else held_out.smallest_fall,
        on_step=on_step,
    )


def _refined(
    design: Design,
    single: Design,
    Z: NDArray[Any],
    alpha: float,
    tol: float,
    max_iter: int,
    start: NDArray[Any] | None,
    on_step: OnStep | None,
) -> tuple[Matrix, int, float]:
    """Corrections in single precision of residuals in double precision."""
    B = design.transposed_times(Z.astype(np.float64, copy=False))
    whole = np.sqrt(column_dots(B, B))
    goal = tol * whole
    scale = preconditioner(single, alpha).astype(np.float32)
    n_directions = min(MOST_DIRECTIONS, B.shape[1], len(B) // 4, len(Z) // 4)
    leading = deflation_directions(single, alpha, scale, n_directions) if n_directions >= FEWEST_DIRECTIONS else None
    W = np.zeros_like(B) if start is None else start.astype(np.float64)
    steps, before = 0, np.inf
    while True:
        left = B - design.transposed_times(design.times(W)) - alpha * W
        length = np.sqrt(column_dots(left, left))
        stalled = length.sum() > 0.5 * before  # a tolerance below the rounding error
        if (length <= goal).all() or stalled or steps >= max_iter:
            return W, max(steps, 1), relative_length(length, whole)
        before = length.sum()
        reach = 0.9 * np.maximum(goal, SINGLE_PRECISION_REACH * length)
        told = None if on_step is None else _continued(on_step, steps)
        correction, taken, _ = conjugate_gradients(
            single,
            left.astype(np.float32),
            alpha,
            reach,
            max_iter=max_iter - steps,
            on_step=told,
            whole=whole,
            leading=leading,
        )
        W += correction
        steps += taken


def conjugate_gradients(
    design: Design,
    B: NDArray[Any],
    alpha: float,
    goal: NDArray[Any],
    *,
    max_iter: int,
    start: NDArray[Any] | None = None,
    on_step: OnStep | None = None,
    stop: Callable[[int, NDArray[Any]], bool] | None = None,
    whole: NDArray[Any] | None = None,
    leading: Deflation | None = None,
) -> tuple[NDArray[Any], int, float]:
    """Solve ``(XᵀX + alpha I) W = B`` in the precision of ``B``.

    Parameters
    ----------
    goal : ndarray of shape (n_columns,)
        Length of every column's residual at which to stop.
    start : ndarray of the shape of ``B``, optional
        Zero by default.
    stop : callable, optional
        Asked after every step, with its number and the weights, whether to stop.
    whole : ndarray of shape (n_columns,), optional
        Lengths against which residuals are told; those of ``B`` by default.
    leading : Deflation, optional
        Directions that shall not slow the steps down; worth their cost where many steps are to be taken.

    Returns
    -------
    W : ndarray of the shape of ``B``
    steps : int
    left : float
        Length of the residual against ``whole``.
    """
    scale = preconditioner(design, alpha).astype(B.dtype)
    whole = np.sqrt(column_dots(B, B)) if whole is None else whole
    if start is None:
        W, residual = np.zeros_like(B), B.copy()
    else:
        W = start.astype(B.dtype)
        residual = B - design.transposed_times(design.times(W)) - B.dtype.type(alpha) * W
    direction = scale[:, None] * residual
    if leading is not None:
        leading.correct(direction, leading.parts(residual))
    energy = column_dots(residual, direction)
    left = column_dots(residual, residual)
    step = 0
    while step < max_iter and not (left <= goal**2).all():
        step += 1
        image = design.transposed_times(design.times(direction))
        image += B.dtype.type(alpha) * direction
        curvature = column_dots(direction, image)
        length = np.divide(energy, curvature, out=np.zeros_like(energy), where=curvature > 0)
        left, fresh = advance(W, residual, direction, image, length.astype(B.dtype), scale)
        if on_step is not None:
            on_step(step, relative_length(np.sqrt(left), whole))
        if stop is not None and stop(step, W):
            break
        if leading is not None:
            parts = leading.parts(residual)
            fresh = np.maximum(fresh + leading.energy(parts), 0.0)
        share = np.divide(fresh, energy, out=np.zeros_like(energy), where=energy > 0)
        turn(direction, residual, scale, share.astype(B.dtype))
        if leading is not None:
            leading.correct(direction, parts)
        energy = fresh
    return W, max(step, 1), relative_length(np.sqrt(left), whole)


def preconditioner(design: Design, alpha: float) -> NDArray[np.float64]:
    """The inverse of the diagonal of ``XᵀX + alpha I``, (n_features,)."""
    return 1.0 / np.maximum(_column_energy(design) + alpha, 1e-30)


def relative_length(part: NDArray[Any], whole: NDArray[Any]) -> float:
    """Length of a matrix against that of another, from the lengths of their columns."""
    return float(np.linalg.norm(part)) / max(float(np.linalg.norm(whole)), 1e-300)


def _continued(on_step: OnStep, steps: int) -> OnStep:
    return lambda step, left: on_step(steps + step, left)


def solve_lbfgs(
    design: Design,
    Z: Matrix,
    alpha: float,
    *,
    tol: float,
    max_iter: int,
    positive: bool = False,
    start: Matrix | None = None,
) -> Solution:
    """L-BFGS with a line search that satisfies the strong Wolfe conditions (Eqs. 11 to 16), as in the paper.

    With ``positive`` every weight is kept at zero or above (L-BFGS-B), which is what the authors' code does.
    """
    B = design.transposed_times(Z)
    n_features, n_targets = B.shape
    gram = design.gram() if n_features <= min(design.X.shape[0], 2000) else None

    def loss(flat: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        W = flat.reshape(n_features, n_targets)
        image = gram @ W if gram is not None else design.transposed_times(design.times(W))
        image += alpha * W
        value = np.vdot(W, image) - 2.0 * np.vdot(W, B)
        image -= B
        image *= 2.0
        return float(value), image.ravel()

    found = optimize.minimize(
        loss,
        np.zeros(B.size) if start is None else start.ravel(),
        jac=True,
        method="L-BFGS-B",
        bounds=optimize.Bounds(0.0, np.inf) if positive else None,
        options={
            "maxcor": 20,
            "maxiter": max_iter,
            "maxfun": 2 * max_iter,
            "ftol": 0.0,
            "gtol": 2.0 * tol * float(np.abs(B).max(initial=0.0)),
        },
    )
    return Solution(found.x.reshape(n_features, n_targets), n_iter=max(int(found.nit), 1))


def _column_energy(design: Design) -> NDArray[np.float64]:
    """Diagonal of the Gram matrix, which scales the conjugate gradients."""
    X = design.X
    if sparse.issparse(X):
        squares: Any = np.bincount(X.indices, weights=X.data.astype(np.float64) ** 2, minlength=X.shape[1])
    else:
        squares = np.einsum("ij,ij->j", X, X, dtype=np.float64)
    energy: Matrix = squares
    return energy if design.mean is None else np.maximum(energy - X.shape[0] * design.mean.astype(float) ** 2, 0.0)


def _times(X: Any, P: NDArray[Any]) -> NDArray[Any]:
    return sparse_times(X, P) if sparse.issparse(X) else matmul(X, P)


def _dense(matrix: Any) -> Matrix:
    return np.asarray(matrix.toarray() if sparse.issparse(matrix) else matrix, dtype=np.float64)
