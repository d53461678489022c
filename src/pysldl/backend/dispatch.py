"""Loops that NumPy cannot express well, compiled by numba where it is installed.

Every loop has a plain NumPy or SciPy form that solves the same problem with the same parameters to the same tolerance;
:func:`has_numba` says which one runs. Most pairs agree bit for bit, the others up to the rounding of sums that are
taken in another order: ``tests/contracts/test_backends.py`` states for each how far they may differ. No loop adds up
across threads, so results do not depend on their number.
"""

import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

import numpy as np
from scipy import sparse

from pysldl.exceptions import SLDLWarning

__all__ = ["as_int32_indices", "has_numba", "parallel_for", "warn_no_numba"]

PARTS_A_THREAD = 8  # so that a slow part does not leave the other threads idle
SMALLEST_PART = 32


@cache
def has_numba() -> bool:
    """Whether numba is there to compile the loops."""
    try:
        import numba  # noqa: F401
    except ImportError:
        return False
    return True


def parallel_for(loop: Callable[..., Any], n: int, *arguments: Any) -> list[Any]:
    """``loop(start, stop, *arguments)`` for parts of ``range(n)``, in as many threads as numba is allowed.

    The loop must be compiled with ``nogil``. Its work space belongs to the part, so only as many exist at once as there
    are threads.
    """
    from numba import get_num_threads

    n_threads = get_num_threads()
    n_parts = max(1, min(PARTS_A_THREAD * n_threads, n // SMALLEST_PART))
    if n_parts == 1:
        return [loop(0, n, *arguments)]
    with ThreadPoolExecutor(n_threads) as threads:
        return list(
            threads.map(lambda part: loop(n * part // n_parts, n * (part + 1) // n_parts, *arguments), range(n_parts))
        )


def as_int32_indices(matrix: sparse.csr_array) -> sparse.csr_array:
    """The matrix with 32-bit indices, half the memory, where they suffice."""
    if max(matrix.nnz, *matrix.shape) < np.iinfo(np.int32).max:
        matrix.indices = matrix.indices.astype(np.int32, copy=False)
        matrix.indptr = matrix.indptr.astype(np.int32, copy=False)
    return matrix


@cache
def warn_no_numba() -> None:
    """Warn, once, that the plain loops are slow."""
    if not has_numba():
        warnings.warn(
            "numba is not installed: the results are the same, but fitting and searching run on one core and take "
            'several times as long. To speed them up: pip install "pysldl[fast]".',
            SLDLWarning,
            stacklevel=3,
        )
