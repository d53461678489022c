"""Rounding and exact products on the device."""

import numpy as np
import torch
from torch import Tensor

from pysldl.backend.exact import MANTISSA


def round_to_bits(x: Tensor, bits: int, axis: int | None = None) -> Tensor:
    size = x.abs()
    exponent = torch.frexp(size.max() if axis is None else size.amax(axis, keepdim=True))[1]
    anchor = torch.ldexp(torch.full_like(exponent, 1.5, dtype=x.dtype), exponent - bits + MANTISSA - 1)
    return (x + anchor) - anchor


def multiply(A: Tensor, B: Tensor, out: Tensor | None = None) -> Tensor:
    return torch.matmul(A, B, out=out)


def hstack(left: Tensor, right: Tensor) -> Tensor:
    return torch.hstack([left, right])


def power_of_two(x: Tensor) -> float:
    return float(np.ldexp(1.0, int(torch.frexp(x.abs().max())[1])))
