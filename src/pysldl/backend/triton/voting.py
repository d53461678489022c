"""Votes as a product of two sparse matrices: of rows by neighbors, and of neighbors by labels."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from pysldl.backend.torch.arrays import DeviceCSR, as_tensor
from pysldl.backend.torch.selection import BLOCK_BYTES, Found, concatenate_found, largest_nonnegative, pad_found
from pysldl.backend.triton.inverted_index import sparse_products

__all__ = ["vote_top"]


def vote_top(neighbors: NDArray[np.int32], weights: NDArray[np.float32], Y: Any, m: int) -> Found:
    n_rows, n_labels = len(neighbors), Y.shape[1]
    voters, weight = as_tensor(neighbors), as_tensor(weights, torch.float32)
    there = (voters >= 0) & (weight > 0)
    indptr = torch.nn.functional.pad(torch.cumsum(there.sum(dim=1), 0), (1, 0))
    ballots = DeviceCSR(indptr, voters[there], weight[there])
    labels = as_tensor(Y.indices, torch.int32)
    of_rows = DeviceCSR(as_tensor(Y.indptr, torch.int64), labels, torch.ones_like(labels, dtype=torch.float32))
    width = min(m, n_labels)
    block = max(1, BLOCK_BYTES // (4 * n_labels))
    found = []
    for start in range(0, n_rows, block):
        total = sparse_products(ballots, of_rows, start, min(start + block, n_rows), n_labels)
        found.append(largest_nonnegative(total, width))
    return pad_found(concatenate_found(found, width), m)
