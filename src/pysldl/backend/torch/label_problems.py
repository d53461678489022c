"""Pairs of labels and rows sorted on the device."""

import numpy as np
import torch
from numpy.typing import NDArray

from pysldl.backend.label_problems import HeldOutPairs, LabelProblems
from pysldl.backend.torch.arrays import as_tensor, kept_tensor, remember


def group_rows_by_label(
    candidates: NDArray[np.int32],
    everywhere: NDArray[np.int32],
    late: NDArray[np.int32],
    indptr: NDArray[np.integer],
    indices: NDArray[np.integer],
    n_labels: int,
    kept: NDArray[np.bool_],
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.bool_]]:
    n_rows = len(candidates)
    offered, everyone, later, own = (as_tensor(a, torch.int64) for a in (candidates, everywhere, late, indices))
    row = torch.arange(n_rows, device=own.device)
    takes_part = as_tensor(kept)
    row_of_own = torch.repeat_interleave(row, as_tensor(np.diff(indptr), torch.int64))
    # Four times the pair, and one more where the row was only offered the label, two where late: the least counts.
    keys = torch.cat([
        4 * (own * n_rows + row_of_own)[takes_part[row_of_own]],
        4 * (offered * n_rows + row[:, None])[(offered >= 0) & takes_part[:, None]] + 1,
        (4 * (everyone[None, :] * n_rows + row[takes_part][:, None]) + 1).ravel(),
        4 * (later * n_rows + row[:, None])[(later >= 0) & takes_part[:, None]] + 2,
    ])  # fmt: skip
    keys = torch.sort(keys).values
    pair = keys >> 2
    first = torch.ones(len(keys), dtype=torch.bool, device=keys.device)
    first[1:] = pair[1:] != pair[:-1]
    keys, pair = keys[first], pair[first]
    found = (pair % n_rows).to(torch.int32)
    counts = torch.bincount(pair // n_rows, minlength=n_labels)
    signed = torch.where(keys & 3 == 0, found, ~found)
    ends = torch.nn.functional.pad(torch.cumsum(counts, 0), (1, 0))
    return remember(ends), remember(signed), remember(keys & 3 == 2)


def held_out_pairs(
    problems: LabelProblems, n_samples: int, held_out: NDArray[np.integer] | None = None
) -> HeldOutPairs:
    if held_out is None:
        nobody = np.zeros(len(problems.rows), dtype=np.bool_)
        return HeldOutPairs(nobody, np.zeros_like(problems.indptr), np.zeros(0, dtype=np.int32), n_samples)
    is_held = np.zeros(n_samples, dtype=np.bool_)
    is_held[held_out] = True
    signed = kept_tensor(problems.rows, torch.int32)
    rows = torch.where(signed >= 0, signed, ~signed)
    waits = as_tensor(is_held)[rows]
    if problems.late is not None:
        waits |= kept_tensor(problems.late)
    places = torch.nonzero(waits).ravel()
    indptr = torch.searchsorted(places, kept_tensor(problems.indptr, torch.int64))
    return HeldOutPairs(remember(waits), remember(indptr), remember(rows[places]), n_samples)
