"""Ridge regression on the device: conjugate gradients, and Cholesky."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor

from pysldl.backend.torch.arrays import as_csr, as_tensor

__all__ = ["conjugate_gradients", "ridge_by_cholesky"]

ROWS_AT_ONCE = 8192


def conjugate_gradients(
    device: torch.device,
    X: Any,
    mean: NDArray[Any] | None,
    Z: NDArray[Any],
    alpha: float,
    *,
    tol: float,
    max_iter: int,
    start: NDArray[Any] | None = None,
    held: NDArray[np.integer] | None = None,
    expected: NDArray[Any] | None = None,
    smallest_fall: float = 0.0,
    on_step: Callable[[int, float], None] | None = None,
) -> tuple[NDArray[Any], int, float]:
    """Solve ``(XᵀX + alpha I) W = XᵀZ``, X centered where ``mean`` is given, in the precision of ``Z``.

    Parameters
    ----------
    X : ndarray or csr_array of shape (n_samples, n_features)
    Z : ndarray of shape (n_samples, n_columns)
        Zero in the rows ``held``.
    held : array of int, optional
        Rows held out; with ``expected``, their targets in the first columns, the steps stop when their squared error
        falls by less than the fraction ``smallest_fall``.

    Returns
    -------
    W : ndarray of shape (n_features, n_columns)
    steps : int
    left : float
        Length of the residual against that of the right-hand side.
    """
    targets = as_tensor(Z, device)
    dtype = targets.dtype
    rows = _Rows(device, X, mean, held, dtype)
    B = rows.transposed_times(targets)
    del targets
    whole = B.norm(dim=0)
    scale = 1.0 / (rows.energy() + alpha).clamp_min(1e-30)[:, None]
    W = torch.zeros_like(B) if start is None else as_tensor(start, device, dtype)
    residual = B - rows.gram_times(W) - alpha * W if start is not None else B
    direction = scale * residual
    energy = (residual * direction).sum(0)
    held_targets = None if expected is None else as_tensor(expected, device, dtype)
    left, step, before = residual.norm(dim=0), 0, np.inf
    while step < max_iter and not bool((left <= tol * whole).all()):
        step += 1
        image = rows.gram_times(direction) + alpha * direction
        curvature = (direction * image).sum(0)
        length = torch.where(curvature > 0, energy / curvature, 0.0)
        W = W + length * direction
        residual = residual - length * image
        left = residual.norm(dim=0)
        if on_step is not None:
            on_step(step, float(left.norm() / whole.norm().clamp_min(1e-30)))
        if held_targets is not None:
            error = float(((rows.held_times(W[:, : held_targets.shape[1]]) - held_targets) ** 2).mean())
            if error > before * (1 - smallest_fall):
                break
            before = error
        fresh = (residual * scale * residual).sum(0)
        direction = scale * residual + torch.where(energy > 0, fresh / energy, 0.0) * direction
        energy = fresh
    return W.cpu().numpy(), max(step, 1), float(left.norm() / whole.norm().clamp_min(1e-30))


class _Rows:
    """Features on the device, by rows and by columns, centered on the fly."""

    def __init__(
        self,
        device: torch.device,
        X: Any,
        mean: NDArray[Any] | None,
        held: NDArray[np.integer] | None,
        dtype: torch.dtype,
    ) -> None:
        if sparse.issparse(X):
            self.X, self.transpose = as_csr(X, device, dtype), as_csr(X.T, device, dtype)
            squares: Any = np.bincount(X.indices, weights=X.data.astype(np.float64) ** 2, minlength=X.shape[1])
        else:
            self.X = as_tensor(X, device, dtype)
            self.transpose = self.X.T
            squares = np.einsum("ij,ij->j", X, X, dtype=np.float64)
        self.mean = None if mean is None else as_tensor(mean, device, dtype)
        self.n_samples = X.shape[0]
        self.squares = as_tensor(squares, device, dtype)
        self.held = None if held is None else as_tensor(np.asarray(held), device, torch.int64)
        self.held_rows = None
        if held is not None:
            own = X[held]
            self.held_rows = as_csr(own, device, dtype) if sparse.issparse(own) else as_tensor(own, device, dtype)

    def times(self, W: Tensor) -> Tensor:
        product = self.X @ W
        if self.mean is not None:
            product -= self.mean @ W
        if self.held is not None:
            product[self.held] = 0
        return product

    def transposed_times(self, Z: Tensor) -> Tensor:
        product = self.transpose @ Z
        return product if self.mean is None else product - torch.outer(self.mean, Z.sum(0))

    def gram_times(self, W: Tensor) -> Tensor:
        return self.transposed_times(self.times(W))

    def held_times(self, W: Tensor) -> Tensor:
        product = self.held_rows @ W
        return product if self.mean is None else product - self.mean @ W

    def energy(self) -> Tensor:
        return self.squares if self.mean is None else (self.squares - self.n_samples * self.mean**2).clamp_min(0.0)


def ridge_by_cholesky(
    device: torch.device,
    X: Any,
    mean: NDArray[Any] | None,
    Z: NDArray[np.float64],
    alpha: float,
    leverage_of: NDArray[np.integer] | None = None,
) -> tuple[NDArray[np.float64], NDArray[np.float64] | None]:
    """The closed form by a Cholesky factor of ``XᵀX + alpha I``, in double precision; and the leverage of some rows.

    Parameters
    ----------
    X : ndarray or csr_array of shape (n_samples, n_features)
        No more features than rows.
    """

    def dense(block: Any) -> Tensor:
        rows = as_tensor(block.toarray() if sparse.issparse(block) else block, device, torch.float64)
        return rows if center is None else rows - center

    n_features = X.shape[1]
    gram = torch.zeros((n_features, n_features), dtype=torch.float64, device=device)
    B = torch.zeros((n_features, Z.shape[1]), dtype=torch.float64, device=device)
    center = None if mean is None else as_tensor(mean, device, torch.float64)
    for start in range(0, X.shape[0], ROWS_AT_ONCE):
        rows = dense(X[start : start + ROWS_AT_ONCE])
        gram += rows.T @ rows
        B += rows.T @ as_tensor(Z[start : start + ROWS_AT_ONCE], device, torch.float64)
    gram.diagonal().add_(alpha)
    factor = torch.linalg.cholesky(gram)
    W = torch.cholesky_solve(B, factor).cpu().numpy()
    if leverage_of is None:
        return W, None
    leverage = np.empty(len(leverage_of))
    for start in range(0, len(leverage_of), ROWS_AT_ONCE):
        rows = dense(X[leverage_of[start : start + ROWS_AT_ONCE]])
        half = torch.linalg.solve_triangular(factor, rows.T, upper=False)
        leverage[start : start + len(rows)] = (half**2).sum(0).cpu().numpy()
    return W, leverage
