"""The vector part of conjugate gradients on the device; the numbers of the columns come back as NumPy arrays."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from pysldl.backend.torch.arrays import as_tensor

__all__ = ["advance", "column_dots", "turn"]


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
