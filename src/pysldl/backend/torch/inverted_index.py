"""Sparse indexed rows times dense blocks of queries."""

from threading import Lock
from typing import Any
from weakref import finalize

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pysldl.backend.device import current_device
from pysldl.backend.torch.arrays import as_csr, as_tensor
from pysldl.backend.torch.selection import BLOCK_BYTES, Found, concatenate_found, largest_nonnegative, pad_found

__all__ = ["search_inverted_index"]

_lock = Lock()  # prediction may ask in several threads
_rows: dict[tuple[int, Any], Tensor] = {}


def search_inverted_index(queries: Any, postings: Any, k: int, exclude: NDArray[np.integer] | None = None) -> Found:
    n_rows = postings.shape[1]
    rows = _rows_on_device(postings)
    width = min(k, n_rows)
    block = max(1, BLOCK_BYTES // (12 * max(n_rows, postings.shape[0])))
    found = []
    for start in range(0, queries.shape[0], block):
        asked = slice(start, start + block)
        columns = as_csr(queries[asked]).to_dense().T.contiguous()
        similarity = (rows @ columns).T.contiguous()
        if exclude is not None:
            own = as_tensor(np.asarray(exclude[asked]), torch.int64)[:, None]
            similarity.scatter_(1, own, 0.0)
        found.append(largest_nonnegative(similarity.clamp_min(0.0), width))
    return pad_found(concatenate_found(found, width), k)


def _rows_on_device(postings: Any) -> Tensor:
    """The indexed rows on the device: kept as long as the matrix they were made from, for the next block of queries."""
    key = (id(postings), current_device())
    with _lock:
        if key not in _rows:
            _rows[key] = as_csr(postings.T)
            finalize(postings, _rows.pop, key, None)
        return _rows[key]
