"""Votes of a block of rows in a dense array."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from pysldl.backend.torch.arrays import as_tensor, ranges
from pysldl.backend.torch.selection import BLOCK_BYTES, Found, concatenate_found, largest_nonnegative, pad_found

__all__ = ["vote_top"]


def vote_top(neighbors: NDArray[np.int32], weights: NDArray[np.float32], Y: Any, m: int) -> Found:
    n_labels = Y.shape[1]
    indptr, labels = as_tensor(Y.indptr, torch.int64), as_tensor(Y.indices, torch.int64)
    width = min(m, n_labels)
    block = max(1, BLOCK_BYTES // (12 * n_labels))
    found = []
    for start in range(0, len(neighbors), block):
        there = neighbors[start : start + block] >= 0
        voters = as_tensor(neighbors[start : start + block][there], torch.int64)
        weight = as_tensor(weights[start : start + block][there], torch.float32)
        row = as_tensor(np.nonzero(there)[0], torch.int64)
        sizes = indptr[voters + 1] - indptr[voters]
        places = torch.repeat_interleave(row * n_labels, sizes) + labels[ranges(indptr[voters], sizes)]
        total = torch.zeros(len(there) * n_labels, dtype=torch.float32, device=indptr.device)
        total.index_add_(0, places, torch.repeat_interleave(weight, sizes))
        found.append(largest_nonnegative(total.view(len(there), n_labels), width))
    return pad_found(concatenate_found(found, width), m)
