"""The heaviest terms of sparse rows on the device."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from pysldl.backend.torch.arrays import as_tensor
from pysldl.backend.torch.selection import BLOCK_BYTES

__all__ = ["best_terms"]


def best_terms(X: Any, n_terms: int) -> tuple[NDArray[np.integer], NDArray[np.float32]]:
    if not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
    starts, lengths = X.indptr[:-1].astype(np.int64), np.diff(X.indptr).astype(np.int64)
    longest = int(lengths.max(initial=1))
    columns, values = as_tensor(X.indices, torch.int32), as_tensor(X.data, torch.float32)
    found_columns = np.full((X.shape[0], n_terms), -1, dtype=np.int32)
    found_values = np.zeros((X.shape[0], n_terms), dtype=np.float32)
    width = min(n_terms, longest)
    n_block = max(1, BLOCK_BYTES // (16 * longest))
    for start in range(0, X.shape[0] if X.nnz else 0, n_block):
        rows = slice(start, start + n_block)
        places = as_tensor(starts[rows])[:, None] + torch.arange(longest, device=values.device)
        there = torch.arange(longest, device=values.device) < as_tensor(lengths[rows])[:, None]
        places = torch.where(there, places, 0)
        ordered, order = torch.sort(torch.where(there, values[places], -torch.inf), dim=1, descending=True, stable=True)
        ordered, order = ordered[:, :width], order[:, :width]
        kept = torch.gather(there, 1, order)
        chosen = torch.where(kept, columns[torch.gather(places, 1, order)], -1)
        found_columns[rows, :width] = chosen.cpu().numpy()
        found_values[rows, :width] = torch.where(kept, ordered, 0.0).cpu().numpy()
    return found_columns, found_values
