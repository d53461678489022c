"""The largest numbers of every row on a GPU, a program for every row."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from pysldl.backend.torch.selection import largest_nonnegative

BLOCK = 1024
SPARE = 4  # times as many as are asked for have room: the search for the smallest of them ends early
# Bits of 2^-14 and 4, between which that search begins, and how often a range is cut into eight.
LOWEST, HIGHEST, N_CUTS = tl.constexpr(0x38800000), tl.constexpr(0x40800000), tl.constexpr(4)


def largest_positive(values: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Columns and values of the k largest of every row, of equals the lower column; -1 and 0 if fewer are above 0."""
    room = max(512, triton.next_power_of_2(SPARE * k))
    keys = torch.zeros((len(values), room), dtype=torch.int64, device=values.device)
    counts = torch.zeros(len(values), dtype=torch.int32, device=values.device)
    _collect[(len(values),)](values, values.shape[1], k, keys, counts, room, BLOCK, num_warps=4)
    best, _ = torch.topk(keys, k, dim=1)
    columns = torch.where(best > 0, 0x7FFFFFFF - (best & 0xFFFFFFFF), -1).to(torch.int32)
    largest = (best >> 32).to(torch.int32).view(torch.float32)
    crowded = torch.nonzero(counts > room).ravel()
    if len(crowded):
        width = min(k, values.shape[1])
        found, numbers = largest_nonnegative(values[crowded].clamp_min_(0.0), width)
        columns[crowded, :width] = torch.where(numbers > 0, found, -1)
        largest[crowded, :width] = numbers
    return columns, largest


@triton.jit
def _collect(values, n_columns, k, keys, counts, room, BLOCK: tl.constexpr):
    """Write down, in any order, the k largest numbers of a row and a few more, each with its column.

    The bits of a number above 0 are ordered as it is.
    """
    row = tl.program_id(0).to(tl.int64)
    values += row * n_columns
    keys += row * room
    lane = tl.arange(0, BLOCK)
    low = tl.full((), 0, tl.int32) + LOWEST
    step = tl.full((), 0, tl.int32) + (HIGHEST - LOWEST) // 8
    for _ in range(0, N_CUTS):
        reached0 = tl.zeros((BLOCK,), tl.int32)
        reached1 = tl.zeros((BLOCK,), tl.int32)
        reached2 = tl.zeros((BLOCK,), tl.int32)
        reached3 = tl.zeros((BLOCK,), tl.int32)
        reached4 = tl.zeros((BLOCK,), tl.int32)
        reached5 = tl.zeros((BLOCK,), tl.int32)
        reached6 = tl.zeros((BLOCK,), tl.int32)
        reached7 = tl.zeros((BLOCK,), tl.int32)
        for start in range(0, n_columns, BLOCK):
            bits = tl.load(values + start + lane, mask=start + lane < n_columns, other=0.0).to(tl.int32, bitcast=True)
            above = bits - low
            above = tl.where(bits > 0, above, -1)
            reached0 += (above >= 0).to(tl.int32)
            reached1 += (above >= step).to(tl.int32)
            reached2 += (above >= 2 * step).to(tl.int32)
            reached3 += (above >= 3 * step).to(tl.int32)
            reached4 += (above >= 4 * step).to(tl.int32)
            reached5 += (above >= 5 * step).to(tl.int32)
            reached6 += (above >= 6 * step).to(tl.int32)
            reached7 += (above >= 7 * step).to(tl.int32)
        n_steps = (tl.sum(reached1) >= k).to(tl.int32) + (tl.sum(reached2) >= k).to(tl.int32)
        n_steps += (tl.sum(reached3) >= k).to(tl.int32) + (tl.sum(reached4) >= k).to(tl.int32)
        n_steps += (tl.sum(reached5) >= k).to(tl.int32) + (tl.sum(reached6) >= k).to(tl.int32)
        n_steps += (tl.sum(reached7) >= k).to(tl.int32)
        low = tl.where(tl.sum(reached0) >= k, low + n_steps * step, 1)  # where fewer are so large: all
        step = step // 8
    for start in range(0, n_columns, BLOCK):
        bits = tl.load(values + start + lane, mask=start + lane < n_columns, other=0.0).to(tl.int32, bitcast=True)
        taken = (bits > 0) & (bits >= low)
        place = tl.atomic_add(counts + row + tl.zeros_like(lane), 1, mask=taken)
        key = (bits.to(tl.int64) << 32) | (0x7FFFFFFF - (start + lane)).to(tl.int64)
        tl.store(keys + place, key, mask=taken & (place < room))
