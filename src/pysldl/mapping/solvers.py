"""Solvers of ``‖Z - XW‖² + alpha ‖W‖²`` (Eq. 10): Cholesky, the paper's L-BFGS, and conjugate gradients.

All of them find the same W.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import optimize

from pysldl.backend.dispatch import to_device, to_host
from pysldl.backend.linear_algebra import (
    Deflation,
    DesignMatrix,
    cholesky_factor,
    cholesky_solve,
    column_dots,
    conjugate_gradients,
    relative_norm,
    triangular_solve,
)

LEVERAGE_BLOCK = 1024
LARGEST_GRAM = 2000  # features up to which L-BFGS forms the Gram matrix once

Matrix = NDArray[np.float64]

LEVERAGE_PROBES = 32
SINGLE_PRECISION_REACH = 1e-4
FEWEST_DIRECTIONS, MOST_DIRECTIONS = 8, 64
SUBSPACE_PASSES = 2

OnStep = Callable[[int, float], None]


@dataclass(frozen=True)
class Solution:
    """What a solver found: weights W (n_features, n_components), and leverages of the rows that were asked for.

    ``left`` is the length of the residual relative to that of the right-hand side.
    """

    W: NDArray[Any]
    leverage: NDArray[np.floating] | None = None
    n_iter: int = 1
    left: float = 0.0


def ridge_factor(design: DesignMatrix, alpha: float) -> Any:
    """Cholesky factor of the smaller of the two Gram matrices, ``XᵀX + alpha I`` or ``XXᵀ + alpha I``.

    It does not depend on the targets, so that regressions of the same rows can share it.
    """
    n_samples, n_features = design.X.shape
    return cholesky_factor(design.gram() if n_features <= n_samples else design.kernel(), alpha)


def solve_cholesky(
    design: DesignMatrix,
    Z: NDArray[np.float64],
    alpha: float,
    leverage_of: NDArray[np.integer] | None = None,
    factor: Any = None,
) -> Solution:
    """Solve in double precision with :func:`ridge_factor`, which may be given; with the leverage of some rows."""
    n_samples, n_features = design.X.shape
    factor = ridge_factor(design, alpha) if factor is None else factor
    if n_features <= n_samples:
        W = to_host(cholesky_solve(factor, design.transposed_times(Z)))
        if leverage_of is None:
            return Solution(W)
        leverage = np.empty(len(leverage_of))
        for start in range(0, len(leverage_of), LEVERAGE_BLOCK):
            rows = design.dense_rows(leverage_of[start : start + LEVERAGE_BLOCK])
            half = triangular_solve(factor, rows.T)
            leverage[start : start + len(rows)] = to_host((half**2).sum(axis=0))
        return Solution(W, leverage)
    W = to_host(design.transposed_times(cholesky_solve(factor, Z)))
    if leverage_of is None:
        return Solution(W)
    own = np.arange(len(leverage_of))
    columns = np.zeros((n_samples, len(leverage_of)))
    columns[leverage_of, own] = 1.0
    inverse = to_host(cholesky_solve(factor, columns))
    return Solution(W, 1.0 - alpha * inverse[leverage_of, own])


def solve_lbfgs(
    design: DesignMatrix,
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
    B = to_host(design.transposed_times(Z))
    n_features, n_targets = B.shape
    gram = to_host(design.gram()) if n_features <= min(design.X.shape[0], LARGEST_GRAM) else None

    def loss(flat: Matrix) -> tuple[float, Matrix]:
        W = flat.reshape(n_features, n_targets)
        image = gram @ W if gram is not None else to_host(design.transposed_times(design.times(W)))
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


def solve_cg(
    design: DesignMatrix,
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
    """Solve for every column of ``Z``, of shape (n_samples, n_components), at once.

    Rows of ``Z`` that ``design`` goes without must be zero. The iteration starts from the weights ``start`` of nearly
    the same problem, if given, and stops at the relative residual ``tol``, or when ``held_out`` says so after a step
    (:mod:`pysldl.mapping.early_stopping`). Leverages of the rows ``leverage_of`` are estimated from random signs, drawn
    by ``rng``, that are solved for as further columns (Hutchinson's estimator).
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
    if tol >= SINGLE_PRECISION_REACH:
        B = single.transposed_times(Z.astype(np.float32, copy=False))
        goal = tol * np.sqrt(column_dots(B, B))
        del Z
        stop = None if held_out is None else lambda step, W: held_out.stop(step, W[:, :n_targets])
        found, step, left = ridge_steps(single, B, alpha, goal, max_iter, start=start, on_step=on_step, stop=stop)
    else:
        found, step, left = _refined(design, single, Z, alpha, tol, max_iter, start, on_step)
    W = to_host(found)
    if probes is None:
        return Solution(W, n_iter=step, left=left)
    smoothed = to_host(single.times(np.ascontiguousarray(W[:, n_targets:], dtype=np.float32)))[leverage_of]
    leverage = _shrunk((smoothed * probes[leverage_of]).mean(axis=1))
    if design.without is not None and leverage_of is not None:
        leverage[np.isin(leverage_of, design.without)] = 0.0
    return Solution(np.ascontiguousarray(W[:, :n_targets]), leverage, step, left)


def ridge_steps(
    design: DesignMatrix,
    B: Any,
    alpha: float,
    goal: NDArray[np.float64],
    max_iter: int,
    *,
    start: Any = None,
    on_step: OnStep | None = None,
    stop: Callable[[int, Any], bool] | None = None,
    whole: NDArray[np.float64] | None = None,
    deflation: Deflation | None = None,
) -> tuple[Any, int, float]:
    """Solve ``(XᵀX + alpha I) W = B`` in single precision; returns W, the steps, and the relative residual.

    The parameters are those of :func:`~pysldl.backend.linear_algebra.conjugate_gradients`.
    """
    if start is None:
        W, residual = design.zeros(B.shape[1], np.float32), 1.0 * B
    else:
        W = 1.0 * to_device(start, np.float32)
        residual = design.residual(B, W, alpha)
    scale = to_device(_inverse_diagonal(design, alpha))
    whole = np.sqrt(column_dots(B, B)) if whole is None else whole
    steps, left = conjugate_gradients(
        lambda P: design.ridge_times(P, alpha), W, residual, scale, goal,
        max_iter=max_iter, whole=whole, on_step=on_step, stop=stop, deflation=deflation,
    )  # fmt: skip
    return W, steps, left


def _refined(
    design: DesignMatrix,
    single: DesignMatrix,
    Z: NDArray[Any],
    alpha: float,
    tol: float,
    max_iter: int,
    start: NDArray[Any] | None,
    on_step: OnStep | None,
) -> tuple[Any, int, float]:
    """Corrections in single precision of residuals in double precision."""
    double = design.double()
    B = double.transposed_times(Z.astype(np.float64, copy=False))
    whole = np.sqrt(column_dots(B, B))
    goal = tol * whole
    n_directions = min(MOST_DIRECTIONS, B.shape[1], len(B) // 4, len(Z) // 4)
    deflation = None
    if n_directions >= FEWEST_DIRECTIONS:
        deflation = deflation_directions(single, alpha, _inverse_diagonal(single, alpha), n_directions)
    W = design.zeros(B.shape[1], np.float64) if start is None else 1.0 * to_device(start, np.float64)
    steps, before = 0, np.inf
    while True:
        left = double.residual(B, W, alpha)
        length = np.sqrt(column_dots(left, left))
        stalled = length.sum() > 0.5 * before  # a tolerance below the rounding error
        if (length <= goal).all() or stalled or steps >= max_iter:
            return W, max(steps, 1), relative_norm(length, whole)
        before = length.sum()
        reach = 0.9 * np.maximum(goal, SINGLE_PRECISION_REACH * length)
        correction, taken, _ = ridge_steps(
            single, to_device(left, np.float32), alpha, reach, max_iter - steps,
            on_step=None if on_step is None else _continued(on_step, steps), whole=whole, deflation=deflation,
        )  # fmt: skip
        W += correction
        steps += taken


def deflation_directions(design: DesignMatrix, alpha: float, scale: NDArray[Any], n_directions: int) -> Deflation:
    """Find them by subspace iteration with ``sqrt(scale) (XᵀX + alpha I) sqrt(scale)``, from random vectors.

    It takes three products with X and its transpose, of ``n_directions`` columns each. ``scale``, of shape
    (n_features,), is the diagonal preconditioner.
    """
    root = np.sqrt(scale)[:, None]

    def scaled(P: NDArray[Any]) -> NDArray[Any]:
        P = root * P
        return np.asarray(root * (to_host(design.transposed_times(design.times(P))) + scale.dtype.type(alpha) * P))

    rng = np.random.default_rng(0)
    Q = rng.standard_normal((len(scale), n_directions), dtype=np.float32).astype(scale.dtype, copy=False)
    for _ in range(SUBSPACE_PASSES):
        Q = np.linalg.qr(scaled(Q))[0]
    values, turned = np.linalg.eigh(Q.T @ scaled(Q))
    values = np.maximum(values, 1e-12)
    gain = np.minimum(values[0] / values - 1.0, 0.0)
    return Deflation(to_device(root * (Q @ turned)), gain[:, None].astype(scale.dtype))


def _inverse_diagonal(design: DesignMatrix, alpha: float) -> NDArray[np.float32]:
    """The inverse of the diagonal of ``XᵀX + alpha I``, (n_features,)."""
    return (1.0 / np.maximum(design.column_squares() + alpha, 1e-30)).astype(np.float32)


def _shrunk(estimates: NDArray[Any]) -> NDArray[Any]:
    """Estimated leverages, drawn to their mean by as much of their spread as is the estimator's own noise."""
    mean = float(np.clip(estimates.mean(), 0.0, 1.0))
    noise = 2.0 * mean * (1.0 - mean) / LEVERAGE_PROBES
    kept = max(0.0, 1.0 - noise / max(float(estimates.var()), 1e-30))
    shrunk: NDArray[Any] = np.clip(mean + kept * (estimates - mean), 0.0, 0.95)
    return shrunk


def _continued(on_step: OnStep, steps: int) -> OnStep:
    return lambda step, left: on_step(steps + step, left)
