"""Four ways to the same W: the minimiser of ``‖Z - XW‖² + alpha ‖W‖²`` (Eq. 10).

All take centred operators (see :class:`Design`), so that an intercept costs no dense copy of sparse input.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, optimize, sparse

__all__ = ["Design", "Solution", "choose_solver", "continue_cg", "solve_cg", "solve_cholesky", "solve_lbfgs"]

Matrix = NDArray[np.float64]
LEVERAGE_PROBES = 32
LEVERAGE_BLOCK = 1024
SINGLE_PRECISION_REACH = 1e-4


@dataclass(frozen=True)
class Design:
    """Features with, where an intercept is fitted, their column means taken off on the fly.

    Attributes
    ----------
    X : ndarray or csr_array of shape (n_samples, n_features), float64
    mean : ndarray of shape (n_features,) or None
    """

    X: Any
    mean: NDArray[np.float64] | None

    def times(self, W: Matrix) -> Matrix:
        """``(X - mean) @ W``."""
        product = self.X @ W
        return product if self.mean is None else product - self.mean @ W

    def transposed_times(self, Z: Matrix) -> Matrix:
        """``(X - mean).T @ Z``."""
        product = np.asarray(self.X.T @ Z)
        return product if self.mean is None else product - np.outer(self.mean, Z.sum(axis=0))

    def gram(self) -> Matrix:
        """``(X - mean).T @ (X - mean)``, dense (n_features, n_features)."""
        gram = _dense(self.X.T @ self.X)
        return gram if self.mean is None else gram - self.X.shape[0] * np.outer(self.mean, self.mean)

    def kernel(self) -> Matrix:
        """``(X - mean) @ (X - mean).T``, dense (n_samples, n_samples)."""
        kernel = _dense(self.X @ self.X.T)
        if self.mean is None:
            return kernel
        across = self.X @ self.mean
        return kernel - across - across[:, None] + self.mean @ self.mean

    def rows(self, rows: NDArray[np.integer]) -> Matrix:
        """Some rows, dense and centred."""
        block = _dense(self.X[rows])
        return block if self.mean is None else block - self.mean


@dataclass(frozen=True)
class Solution:
    """Weights (n_features, n_components), the leverage of the rows that were asked for, and the steps it took."""

    W: Matrix
    leverage: NDArray[np.float64] | None = None
    n_iter: int = 1


def choose_solver(n_samples: int, n_features: int, n_nonzeros: int, n_targets: int) -> str:
    """``"cholesky"`` or ``"cg"``, whichever is estimated to take less work.

    Dense work runs at the speed of BLAS; a sparse multiply-add costs about five times as much. Conjugate gradients are
    reckoned with fifty steps, each a product with X and one with its transpose.
    """
    side = min(n_samples, n_features)
    factor_bytes = 2 * 8 * side**2
    cholesky = side**3 / 3 + 5 * n_nonzeros**2 / max(n_samples, 1) + 2 * side**2 * n_targets
    cg = 50 * 5 * 4 * n_nonzeros * n_targets
    return "cholesky" if cholesky <= cg and factor_bytes <= 2 << 30 else "cg"


def solve_cholesky(design: Design, Z: Matrix, alpha: float, leverage_of: NDArray[np.integer] | None = None) -> Solution:
    """Closed form by a Cholesky factor of the smaller of the two Gram matrices."""
    n_samples, n_features = design.X.shape
    if n_features <= n_samples:
        gram = design.gram()
        gram.flat[:: n_features + 1] += alpha
        factor = linalg.cho_factor(gram, lower=True, overwrite_a=True, check_finite=False)
        W = linalg.cho_solve(factor, design.transposed_times(Z), check_finite=False)
        if leverage_of is None:
            return Solution(W)
        leverage = np.empty(len(leverage_of))
        for start in range(0, len(leverage_of), LEVERAGE_BLOCK):
            rows = design.rows(leverage_of[start : start + LEVERAGE_BLOCK])
            half = linalg.solve_triangular(factor[0], rows.T, lower=True, check_finite=False)
            leverage[start : start + len(rows)] = (half**2).sum(axis=0)
        return Solution(W, leverage)
    kernel = design.kernel()
    kernel.flat[:: n_samples + 1] += alpha
    factor = linalg.cho_factor(kernel, lower=True, overwrite_a=True, check_finite=False)
    W = design.transposed_times(linalg.cho_solve(factor, Z, check_finite=False))
    if leverage_of is None:
        return Solution(W)
    columns = np.zeros((n_samples, len(leverage_of)))
    columns[leverage_of, np.arange(len(leverage_of))] = 1.0
    inverse = linalg.cho_solve(factor, columns, check_finite=False)
    return Solution(W, 1.0 - alpha * inverse[leverage_of, np.arange(len(leverage_of))])


def solve_cg(
    design: Design,
    Z: Matrix,
    alpha: float,
    *,
    tol: float,
    max_iter: int,
    leverage_of: NDArray[np.integer] | None = None,
    rng: np.random.RandomState | None = None,
    on_step: Callable[[int, float], None] | None = None,
) -> Solution:
    """Conjugate gradients on the normal equations, every column of Z at once, scaled by the diagonal.

    Leverages are estimated from random signs that ride along as further columns (Hutchinson's estimator).
    """
    n_samples = design.X.shape[0]
    probes = None
    if leverage_of is not None:
        rng = np.random.RandomState(0) if rng is None else rng
        probes = rng.choice([-1.0, 1.0], size=(n_samples, LEVERAGE_PROBES))
        Z = np.hstack([Z, probes])
    B = design.transposed_times(Z)
    goal = tol * np.sqrt(np.einsum("ij,ij->j", B, B))
    W, step = conjugate_gradients(design, B, alpha, goal, max_iter=max_iter, on_step=on_step)
    if probes is None:
        return Solution(W, n_iter=step)
    n_targets = W.shape[1] - LEVERAGE_PROBES
    smoothed = design.times(np.ascontiguousarray(W[:, n_targets:]))[leverage_of]
    leverage = (smoothed * probes[leverage_of]).mean(axis=1)
    return Solution(np.ascontiguousarray(W[:, :n_targets]), np.clip(leverage, 0.0, 0.95), step)


def continue_cg(
    design: Design,
    Z: Matrix,
    alpha: float,
    start: Matrix,
    *,
    tol: float,
    max_iter: int,
    on_step: Callable[[int, float], None] | None = None,
) -> Solution:
    """Conjugate gradients from weights of nearly the same problem, to where :func:`solve_cg` would have stopped.

    What the old weights leave over is computed in double precision; the correction, of which fewer digits are needed,
    in single precision at half the cost, as often as it takes.
    """
    B = design.transposed_times(Z)
    goal = tol * np.sqrt(np.einsum("ij,ij->j", B, B))
    single = Design(design.X.astype(np.float32), None if design.mean is None else design.mean.astype(np.float32))
    W = start.copy()
    steps, before = 0, np.inf
    while True:
        left = B - design.transposed_times(design.times(W)) - alpha * W
        length = np.sqrt(np.einsum("ij,ij->j", left, left))
        stalled = length.sum() > 0.5 * before  # a tolerance below the rounding error
        if (length <= goal).all() or stalled or steps >= max_iter:
            return Solution(W, n_iter=max(steps, 1))
        before = length.sum()
        reach = np.maximum(goal, SINGLE_PRECISION_REACH * length).astype(np.float32)
        correction, taken = conjugate_gradients(
            single, left.astype(np.float32), float(alpha), 0.9 * reach, max_iter=max_iter - steps, on_step=on_step
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
    on_step: Callable[[int, float], None] | None = None,
) -> tuple[NDArray[Any], int]:
    """Solve ``(XᵀX + alpha I) W = B`` from zero, in the precision of ``B``.

    Parameters
    ----------
    goal : ndarray of shape (n_columns,)
        Length of every column's residual at which to stop.

    Returns
    -------
    W : ndarray of the shape of ``B``
    steps : int
    """
    scale = (1.0 / (_column_energy(design) + alpha)).astype(B.dtype)[:, None]
    whole = max(float(np.sqrt(np.einsum("ij,ij->", B, B, dtype=np.float64))), 1e-300)
    W = np.zeros_like(B)
    residual = B.copy()
    preconditioned = scale * residual
    direction = preconditioned.copy()
    energy = np.einsum("ij,ij->j", residual, preconditioned)
    step = 0
    for step in range(1, max_iter + 1):
        image = design.transposed_times(design.times(direction)) + alpha * direction
        curvature = np.einsum("ij,ij->j", direction, image)
        length = np.divide(energy, curvature, out=np.zeros_like(energy), where=curvature > 0)
        W += length * direction
        residual -= length * image
        left = np.einsum("ij,ij->j", residual, residual)
        if on_step is not None:
            on_step(step, float(np.sqrt(left.sum())) / whole)
        if (left <= goal**2).all():
            break
        preconditioned = scale * residual
        fresh = np.einsum("ij,ij->j", residual, preconditioned)
        direction *= np.divide(fresh, energy, out=np.zeros_like(energy), where=energy > 0)
        direction += preconditioned
        energy = fresh
    return W, step


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
    energy = np.asarray((X.multiply(X) if sparse.issparse(X) else X**2).sum(axis=0), dtype=np.float64).ravel()
    return energy if design.mean is None else np.maximum(energy - X.shape[0] * design.mean**2, 0.0)


def _dense(matrix: Any) -> Matrix:
    return np.asarray(matrix.toarray() if sparse.issparse(matrix) else matrix, dtype=np.float64)
