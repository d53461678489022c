"""Row norms, design matrices, Cholesky factors and the vector part of conjugate gradients on the device.

The numbers of the columns come back as NumPy arrays.
"""

from dataclasses import replace
from functools import cached_property
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import DTypeLike, NDArray
from scipy import sparse
from torch import Tensor

from pysldl.backend.linear_algebra import NEARLY, DesignMatrix
from pysldl.backend.torch.arrays import as_csr, as_tensor, row_squares, torch_type

ROWS_AT_ONCE = 8192


def has_unit_rows(X: Any) -> bool:
    lengths = torch.sqrt(row_squares(X).double())
    return not bool(((lengths > 0) & ((lengths - 1.0).abs() > NEARLY)).any())


def cholesky_factor(A: Tensor, alpha: float) -> Tensor:
    A.diagonal().add_(alpha)
    return torch.linalg.cholesky(A)


def cholesky_solve(factor: Tensor, B: Tensor) -> Tensor:
    return torch.cholesky_solve(as_tensor(B, factor.dtype), factor)


def triangular_solve(factor: Tensor, B: Tensor) -> Tensor:
    return torch.linalg.solve_triangular(factor, B, upper=False)


def design_matrix(X: Any, mean: NDArray[np.floating] | None = None) -> DesignMatrix:
    return DeviceDesignMatrix(X, mean)


class DeviceDesignMatrix(DesignMatrix):
    """A design matrix whose products are torch's: it takes arrays or tensors and gives tensors."""

    @cached_property
    def transpose(self) -> Tensor:
        return _placed(self.X.T) if sparse.issparse(self.X) else self._matrix.T

    @cached_property
    def _matrix(self) -> Tensor:
        return _placed(self.X)

    def double(self) -> Self:
        return self if self.X.dtype == np.float64 else replace(self, X=self.X.astype(np.float64))

    def times(self, W: Any) -> Tensor:
        W = as_tensor(W, self._matrix.dtype)
        product = self._matrix @ W
        if self.mean is not None:
            product -= as_tensor(self.mean, W.dtype) @ W
        if self.without is not None:
            product[as_tensor(self.without, torch.int64)] = 0
        return product

    def transposed_times(self, Z: Any) -> Tensor:
        Z = as_tensor(Z, self._matrix.dtype)
        product = self.transpose @ Z
        return product if self.mean is None else product - torch.outer(as_tensor(self.mean, Z.dtype), Z.sum(0))

    def zeros(self, n_columns: int, dtype: DTypeLike) -> Tensor:
        return torch.zeros((self.X.shape[1], n_columns), dtype=torch_type(dtype), device=self._matrix.device)

    def gram(self) -> Tensor:
        n_samples, n_features = self.X.shape
        gram = torch.zeros((n_features, n_features), dtype=torch.float64, device=self._matrix.device)
        for start in range(0, n_samples, ROWS_AT_ONCE):
            rows = self.dense_rows(slice(start, start + ROWS_AT_ONCE))
            gram += rows.T @ rows
        return gram

    def kernel(self) -> Tensor:
        rows = self.dense_rows(slice(None))
        return rows @ rows.T

    def dense_rows(self, rows: Any) -> Tensor:
        return as_tensor(super().dense_rows(rows))


def _placed(X: Any) -> Tensor:
    dtype = torch_type(X.dtype)
    return as_csr(X, dtype) if sparse.issparse(X) else as_tensor(X, dtype)


def column_dots(A: Tensor, B: Tensor) -> NDArray[np.float64]:
    dots: NDArray[np.float64] = (A.double() * B.double()).sum(0).cpu().numpy()
    return dots


def advance(
    W: Tensor, residual: Tensor, direction: Tensor, image: Tensor, length: NDArray[Any], scale: Tensor
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    by = as_tensor(length, W.dtype)
    W += by * direction
    residual -= by * image
    return column_dots(residual, residual), column_dots(residual, scale[:, None] * residual)


def turn(direction: Tensor, residual: Tensor, scale: Tensor, share: NDArray[Any]) -> None:
    direction *= as_tensor(share, direction.dtype)
    direction += scale[:, None] * residual
