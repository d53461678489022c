"""Cholesky factors of symmetric positive definite matrices, on the processor or where the matrix is."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from pysldl.backend.dispatch import primitive

__all__ = ["cholesky_factor", "cholesky_solve", "triangular_solve"]

Array = NDArray[Any]


@primitive(torch="tensors")
def cholesky_factor(A: Array, alpha: float) -> Array:
    """The lower triangle L of ``A + alpha I = L Lᵀ``, written over ``A``; what is above the diagonal is undefined."""
    A.flat[:: len(A) + 1] += alpha
    return np.asarray(linalg.cho_factor(A, lower=True, overwrite_a=True, check_finite=False)[0])


@primitive(torch="tensors")
def cholesky_solve(factor: Array, B: Array) -> Array:
    """``A⁻¹ B``, from the factor of ``A``."""
    return np.asarray(linalg.cho_solve((factor, True), B, check_finite=False))


@primitive(torch="tensors")
def triangular_solve(factor: Array, B: Array) -> Array:
    """``L⁻¹ B``, from the factor L."""
    return np.asarray(linalg.solve_triangular(factor, B, lower=True, check_finite=False))
