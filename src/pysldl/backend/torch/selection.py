"""The k largest of every row on the device."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

BLOCK_BYTES = 1 << 29

Found = tuple[NDArray[np.int32], NDArray[np.float32]]


def largest_nonnegative(values: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The k largest of every row without negative numbers, of equals the lower column.

    The bits of a number that is not negative are ordered as it is; where equals would have to be told apart, the column
    fills the bits below.
    """
    if values.is_cuda and values.shape[1] > k:
        best, chosen = torch.topk(values, k + 1, dim=1)
        tied = ((best[:, 1:] == best[:, :-1]) & (best[:, 1:] > 0)).any(dim=1)
        chosen, best = chosen[:, :k].to(torch.int32), best[:, :k].contiguous()
        rows = torch.nonzero(tied).ravel()
        if len(rows):
            chosen[rows], best[rows] = _largest_keys(values[rows], k)
        return chosen, best
    return _largest_keys(values, k)


def _largest_keys(values: Tensor, k: int) -> tuple[Tensor, Tensor]:
    n_columns = values.shape[1]
    columns = torch.arange(n_columns - 1, -1, -1, device=values.device)
    keys = (values.view(torch.int32).to(torch.int64) << 32) | columns
    best, _ = torch.topk(keys, k, dim=1)
    chosen = n_columns - 1 - (best & 0xFFFFFFFF)
    return chosen.to(torch.int32), (best >> 32).to(torch.int32).view(torch.float32)


def concatenate_found(found: list[tuple[Tensor, Tensor]], k: int) -> Found:
    if not found:
        return np.empty((0, k), dtype=np.int32), np.empty((0, k), dtype=np.float32)
    return (
        np.concatenate([columns.cpu().numpy() for columns, _ in found]),
        np.concatenate([values.cpu().numpy() for _, values in found]),
    )
