"""Sparse queries times an inverted index on a GPU, a program for every query."""

from typing import Any

import numpy as np
import torch
import triton
import triton.language as tl
from numpy.typing import NDArray
from torch import Tensor

from pysldl.backend.torch.arrays import DeviceCSR, as_tensor, csr_on_device
from pysldl.backend.torch.inverted_index import heaviest_terms, padded_terms
from pysldl.backend.torch.selection import BLOCK_BYTES, Found
from pysldl.backend.triton.selection import largest_positive

BLOCK = 512


def search_inverted_index(queries: Any, postings: Any, k: int, exclude: NDArray[np.integer] | None = None) -> Found:
    rows, products = _nearest(csr_on_device(queries), queries.shape[0], postings, k, exclude)
    return rows.cpu().numpy(), products.cpu().numpy()


def search_by_terms(
    X: Any, postings: Any, k: int, exclude: NDArray[np.integer] | None = None, *, n_terms: int, max_postings: int
) -> Found:
    rows, products = nearest_by_terms(X, postings, k, exclude, n_terms, max_postings)
    return rows.cpu().numpy(), products.cpu().numpy()


def nearest_by_terms(
    X: Any, postings: Any, k: int, exclude: NDArray[np.integer] | None, n_terms: int, max_postings: int
) -> tuple[Tensor, Tensor]:
    """:func:`search_by_terms`, whose answer stays on the device."""
    n_of_term = torch.diff(csr_on_device(postings, keep=True).indptr)
    columns, values = padded_terms(heaviest_terms(X, n_terms), X.shape[0], n_terms)
    counts = n_of_term[columns.clamp_min(0)]
    # The rarest first, of equals the lower column; what is missing comes last.
    keys = torch.where(columns >= 0, (counts << 32) | columns, torch.iinfo(torch.int64).max)
    keys, order = torch.sort(keys, dim=1)
    kept = torch.cumsum(torch.where(columns >= 0, counts, 0).gather(1, order), dim=1) <= max_postings
    kept[:, 0] = True
    kept &= columns.gather(1, order) >= 0
    indptr = torch.nn.functional.pad(torch.cumsum(kept.sum(dim=1), 0), (1, 0))
    queries = DeviceCSR(indptr, (keys[kept] & 0xFFFFFFFF).to(torch.int32), values.gather(1, order)[kept])
    return _nearest(queries, X.shape[0], postings, k, exclude)


def _nearest(
    queries: DeviceCSR, n_queries: int, postings: Any, k: int, exclude: NDArray[np.integer] | None
) -> tuple[Tensor, Tensor]:
    n_rows, indexed = postings.shape[1], csr_on_device(postings, keep=True)
    own = None if exclude is None else as_tensor(np.asarray(exclude), torch.int64)
    rows = torch.empty((n_queries, k), dtype=torch.int32, device=indexed.values.device)
    products = torch.empty((n_queries, k), device=indexed.values.device)
    n_block = max(1, BLOCK_BYTES // (4 * n_rows))
    for start in range(0, n_queries, n_block):
        stop = min(start + n_block, n_queries)
        similarity = sparse_products(queries, indexed, start, stop, n_rows)
        if own is not None:
            similarity.scatter_(1, own[start:stop, None], 0.0)
        rows[start:stop], products[start:stop] = largest_positive(similarity, k)
    return rows, products


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
