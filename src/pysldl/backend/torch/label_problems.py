"""Pairs of labels and rows sorted on the device."""

import numpy as np
import torch
from numpy.typing import NDArray

from pysldl.backend.torch.arrays import as_tensor

__all__ = ["group_rows_by_label"]


def group_rows_by_label(
    candidates: NDArray[np.int32],
    everywhere: NDArray[np.int32],
    indptr: NDArray[np.integer],
    indices: NDArray[np.integer],
    n_labels: int,
    kept: NDArray[np.bool_],
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    n_rows = len(candidates)
    offered, everyone, own = (as_tensor(a, torch.int64) for a in (candidates, everywhere, indices))
    row = torch.arange(n_rows, device=own.device)
    takes_part = as_tensor(kept)
    row_of_own = torch.repeat_interleave(row, as_tensor(np.diff(indptr), torch.int64))
    # Twice the pair, and one more where the row was only offered the label: of equal pairs the owned comes first.
    keys = torch.cat([
        2 * (own * n_rows + row_of_own)[takes_part[row_of_own]],
        2 * (offered * n_rows + row[:, None])[(offered >= 0) & takes_part[:, None]] + 1,
        (2 * (everyone[None, :] * n_rows + row[takes_part][:, None]) + 1).ravel(),
    ])  # fmt: skip
    keys = torch.sort(keys).values
    pair = keys >> 1
    first = torch.ones(len(keys), dtype=torch.bool, device=keys.device)
    first[1:] = pair[1:] != pair[:-1]
    keys, pair = keys[first], pair[first]
    found = (pair % n_rows).to(torch.int32)
    counts = torch.bincount(pair // n_rows, minlength=n_labels)
    signed = torch.where(keys & 1 == 0, found, ~found)
    return torch.nn.functional.pad(torch.cumsum(counts, 0), (1, 0)).cpu().numpy(), signed.cpu().numpy()
