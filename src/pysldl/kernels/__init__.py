"""Loops that NumPy cannot express well, compiled by numba where it is installed.

Every loop has a plain NumPy or SciPy twin that gives the same result; :func:`compiled` says which one runs. No loop
adds up across threads, so results do not depend on their number.
"""

import warnings
from functools import cache

import numpy as np
from scipy import sparse

from pysldl.exceptions import SLDLWarning

__all__ = ["compiled", "say_what_is_missing", "with_small_indices"]


@cache
def compiled() -> bool:
    """Whether numba is there to compile the loops."""
    try:
        import numba  # noqa: F401
    except ImportError:
        return False
    return True


def with_small_indices(matrix: sparse.csr_array) -> sparse.csr_array:
    """The matrix with 32-bit indices, half the memory, where they suffice."""
    if max(matrix.nnz, *matrix.shape) < np.iinfo(np.int32).max:
        matrix.indices = matrix.indices.astype(np.int32, copy=False)
        matrix.indptr = matrix.indptr.astype(np.int32, copy=False)
    return matrix


@cache
def say_what_is_missing() -> None:
    """Warn, once, that the plain loops are slow."""
    if not compiled():
        warnings.warn(
            'numba is not installed, so this runs on one core in SciPy: pip install "pysldl[fast]" makes it several '
            "times faster.",
            SLDLWarning,
            stacklevel=3,
        )
