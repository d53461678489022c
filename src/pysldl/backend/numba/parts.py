"""Compiled loops over rows, in threads."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pysldl.backend.threads import parallel_for

__all__ = ["concatenate_parts"]


def concatenate_parts(
    loop: Callable[..., tuple[Any, Any]], n: int, *arguments: Any
) -> tuple[NDArray[Any], NDArray[Any]]:
    """The two arrays of a compiled loop over ``n`` rows, of all its parts (:func:`parallel_for`) together."""
    first, second = zip(*parallel_for(loop, n, *arguments), strict=True)
    return np.concatenate(first), np.concatenate(second)
