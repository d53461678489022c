"""Cholesky factors on the device."""

import torch
from torch import Tensor

from pysldl.backend.torch.arrays import as_tensor

__all__ = ["cholesky_factor", "cholesky_solve", "triangular_solve"]


def cholesky_factor(A: Tensor, alpha: float) -> Tensor:
    A.diagonal().add_(alpha)
    return torch.linalg.cholesky(A)


def cholesky_solve(factor: Tensor, B: Tensor) -> Tensor:
    return torch.cholesky_solve(as_tensor(B, factor.dtype), factor)


def triangular_solve(factor: Tensor, B: Tensor) -> Tensor:
    return torch.linalg.solve_triangular(factor, B, upper=False)
