"""Exponentials in one pass, without fastmath, so that no operation is fused or reordered; and exact sums."""

import numpy as np
from numba import njit, prange
from numpy.typing import NDArray

from pysldl.backend.exact import EXP_TERMS, LN2_HIGH, LN2_LOW, PER_LN2

TERMS = np.array(EXP_TERMS)


def exp_of_many(x: NDArray[np.float64]) -> NDArray[np.float64]:
    flat = np.ascontiguousarray(x).ravel()
    return np.asarray(_exp(flat, np.empty_like(flat)).reshape(x.shape))


@njit(parallel=True, cache=True, error_model="numpy")
def _exp(x, out):
    n_blocks = (len(x) + 1023) // 1024
    for block in prange(n_blocks):
        scale = np.empty(1024, np.float64)
        bits = scale.view(np.int64)
        start = block * 1024
        part, to = x[start : start + 1024], out[start : start + 1024]
        for i in range(len(part)):
            power = np.rint(part[i] * PER_LN2)
            rest = part[i] - power * LN2_HIGH
            rest -= power * LN2_LOW
            value = TERMS[13]
            for k in range(12, -1, -1):
                value *= rest
                value += TERMS[k]
            to[i] = value
            bits[i] = (np.int64(power) + 1023) << 52
        for i in range(len(part)):
            to[i] *= scale[i]
    return out


# The sums are exact, so that they may be taken in any order: in vector registers.
@njit(parallel=True, cache=True, fastmath={"reassoc", "contract"})
def listed_products(left, right, listed):
    n_anchors, n_listed = listed.shape
    found = np.zeros((n_anchors, n_listed), np.float64)
    for at in prange(n_anchors):
        own = left[at].astype(np.float64)
        for slot in range(n_listed):
            row = listed[at, slot]
            if row < 0:
                continue
            other = right[row]
            total = 0.0
            for k in range(len(own)):
                total += own[k] * other[k]
            found[at, slot] = total
    return found
