"""Sparse queries times an inverted index on a GPU, a program for every query."""

from typing import Any

import numpy as np
import torch
import triton
import triton.language as tl
from numpy.typing import NDArray
from torch import Tensor

from pysldl.backend.torch.arrays import DeviceCSR, as_tensor, csr_on_device
from pysldl.backend.torch.selection import BLOCK_BYTES, Found, concatenate_found, largest_nonnegative, pad_found

__all__ = ["search_inverted_index", "sparse_products"]

BLOCK = 512


def search_inverted_index(queries: Any, postings: Any, k: int, exclude: NDArray[np.integer] | None = None) -> Found:
    n_rows = postings.shape[1]
    asked, indexed = csr_on_device(queries), csr_on_device(postings, keep=True)
    own = None if exclude is None else as_tensor(np.asarray(exclude), torch.int64)
    width = min(k, n_rows)
    n_block = max(1, BLOCK_BYTES // (4 * n_rows))
    found = []
    for start in range(0, queries.shape[0], n_block):
        stop = min(start + n_block, queries.shape[0])
        similarity = sparse_products(asked, indexed, start, stop, n_rows)
        if own is not None:
            similarity.scatter_(1, own[start:stop, None], 0.0)
        found.append(largest_nonnegative(similarity.clamp_min_(0.0), width))
    return pad_found(concatenate_found(found, width), k)


def sparse_products(left: DeviceCSR, right: DeviceCSR, start: int, stop: int, n_columns: int) -> Tensor:
    """Rows ``start`` to ``stop`` of the product of two sparse matrices, as a dense array.

    Every entry is summed in the order of the columns of ``left``, and each product is rounded, as on a CPU.
    """
    out = torch.zeros((stop - start, n_columns), device=left.values.device)
    _add_products[(stop - start,)](
        left.indptr, left.indices, left.values, right.indptr, right.indices, right.values, out, start, n_columns,
        BLOCK, num_warps=4, enable_fp_fusion=False,
    )  # fmt: skip
    return out


@triton.jit
def _add_products(lp, li, lv, rp, ri, rv, out, start, n_columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    out += row.to(tl.int64) * n_columns
    lane = tl.arange(0, BLOCK)
    for t in range(tl.load(lp + start + row), tl.load(lp + start + row + 1)):
        term = tl.load(li + t)
        value = tl.load(lv + t)
        end = tl.load(rp + term + 1)
        for j in range(tl.load(rp + term), end, BLOCK):
            inside = j + lane < end
            column = tl.load(ri + j + lane, mask=inside, other=0)
            old = tl.load(out + column, mask=inside, other=0.0)
            tl.store(out + column, old + value * tl.load(rv + j + lane, mask=inside, other=0.0), mask=inside)
        tl.debug_barrier()
