"""The ranker's classifiers on a GPU: dual coordinate descent, one label after the other in every program."""

import numpy as np
import torch
import triton
import triton.language as tl
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor

from pysldl.backend.label_problems import HeldPairs, LabelProblems
from pysldl.backend.squared_hinge import BIAS_CENTER, BIAS_FREEDOM, largest_first, squared_norms
from pysldl.backend.torch.arrays import as_tensor

__all__ = ["solve_squared_hinge"]

PROGRAMS_PER_PROCESSOR = 8
SHARE_OF_MEMORY = 8
FIRST_ROOM = 1 << 25
LONGEST_BLOCK = 1024
# Rows are visited in steps of a prime modulo their number. Above 2^30 it shares no divisor with that number, so that
# each row comes once.
PRIMES = (1073741827, 1073741831, 1073741833, 1073741839, 1073741843, 1073741857, 1073741891, 1073741909)


def solve_squared_hinge(
    X: sparse.csr_array,
    problems: LabelProblems,
    held: HeldPairs,
    C: float,
    positive_weight: NDArray[np.float32],
    max_epochs: int,
    tol: float,
    min_weight: float,
) -> tuple[sparse.csr_array, NDArray[np.float32], NDArray[np.float32], int]:
    n_labels, n_features = len(problems.indptr) - 1, X.shape[1]
    kernel = _Kernel(X, problems, held, C, positive_weight, max_epochs, tol, min_weight)
    todo = as_tensor(largest_first(np.diff(problems.indptr)), torch.int32)
    room, found = FIRST_ROOM, []
    while len(todo):
        label, column, value, todo = kernel.run(todo, room)
        found.append((label, column, value))
        room *= 4
    label, column, value = (torch.cat(parts) for parts in zip(*found, strict=True))
    order = torch.argsort(label.to(torch.int64) * n_features + column)
    indptr = torch.nn.functional.pad(torch.cumsum(torch.bincount(label, minlength=n_labels), 0), (1, 0))
    parts = (value[order], column[order], indptr)
    W = sparse.csr_array(tuple(part.cpu().numpy() for part in parts), shape=(n_labels, n_features))
    n_open = n_labels - int(kernel.converged.sum())
    return W, kernel.bias.cpu().numpy(), kernel.held_scores.cpu().numpy(), n_open


class _Kernel:
    """The data of all labels on the device."""

    def __init__(
        self,
        X: sparse.csr_array,
        problems: LabelProblems,
        held: HeldPairs,
        C: float,
        positive_weight: NDArray[np.float32],
        max_epochs: int,
        tol: float,
        min_weight: float,
    ) -> None:
        n_labels = len(problems.indptr) - 1
        self.n_features = X.shape[1]
        extents = torch.int32 if X.nnz < 2**31 else torch.int64
        self.X = (as_tensor(X.indptr, extents), as_tensor(X.indices, torch.int32), as_tensor(X.data, torch.float32))
        self.norms = as_tensor(squared_norms(X), torch.float32)
        self.indptr, self.rows = as_tensor(problems.indptr, torch.int64), as_tensor(problems.rows, torch.int32)
        self.waits = as_tensor(held.waits.view(np.int8))
        self.held = as_tensor(held.indptr, torch.int64), as_tensor(held.rows, torch.int32)
        self.held_scores = torch.zeros(len(held.rows), device=self.norms.device)
        self.positive_cost = C * as_tensor(positive_weight, torch.float32)
        self.limits = (float(C), float(tol), float(min_weight), int(max_epochs))
        self.bias = torch.full((n_labels,), -1.0, device=self.norms.device)
        self.converged = torch.ones(n_labels, dtype=torch.int32, device=self.norms.device)
        longest = int(np.diff(X.indptr).max(initial=1))
        self.block = min(triton.next_power_of_2(max(longest, 32)), LONGEST_BLOCK)

    def run(self, labels: Tensor, room: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Labels, columns and values of the weights found, and the labels whose weights had no room."""
        device = labels.device
        n_programs = PROGRAMS_PER_PROCESSOR * torch.cuda.get_device_properties(device).multi_processor_count
        room_for_weights = torch.cuda.mem_get_info(device)[0] // SHARE_OF_MEMORY
        n_programs = max(1, min(n_programs, len(labels), room_for_weights // (4 * self.n_features)))
        w = torch.zeros(n_programs * self.n_features, device=device)
        alpha = torch.zeros(len(self.rows), device=device)
        active = torch.empty(len(self.rows), dtype=torch.int32, device=device)
        cursors = torch.zeros(2, dtype=torch.int64, device=device)  # of labels, of weights
        out = torch.empty(room, dtype=torch.int32, device=device), torch.empty(room, dtype=torch.int32, device=device)
        value = torch.empty(room, device=device)
        left = torch.zeros(len(labels), dtype=torch.int32, device=device)
        C, tol, min_weight, max_epochs = self.limits
        _descend[(n_programs,)](
            labels, len(labels), *self.X, self.norms, self.indptr, self.rows, self.waits, *self.held,
            self.held_scores, self.positive_cost, w, alpha, active,
            torch.tensor(PRIMES, dtype=torch.int64, device=device), cursors, *out, value, room, left, self.bias,
            self.converged, self.n_features, C, tol, min_weight, max_epochs, BIAS_CENTER, BIAS_FREEDOM,
            len(PRIMES), self.block, num_warps=4,
        )  # fmt: skip
        used = min(int(cursors[1]), room)
        # A label that did not fit left a gap behind, which says so.
        kept = out[0][:used] >= 0
        return out[0][:used][kept], out[1][:used][kept], value[:used][kept], labels[left.bool()]


@triton.jit
def _descend(
    labels, n_labels, xp, xi, xd, norms, indptr, rows, waits, held_at, held_rows,
    held_scores, positive_cost, w, alpha, active,
    primes, cursors, out_label, out_column, out_value, room, left, bias,
    converged, n_features, C, tol, min_weight, max_epochs, center, freedom,
    N_PRIMES: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    w += tl.program_id(0).to(tl.int64) * n_features
    lane = tl.arange(0, BLOCK)
    at = tl.atomic_add(cursors, 1)
    while at < n_labels:
        label = tl.load(labels + at)
        first = tl.load(indptr + label)
        m = (tl.load(indptr + label + 1) - first).to(tl.int32)
        held_first = tl.load(held_at + label)
        n_held = (tl.load(held_at + label + 1) - held_first).to(tl.int32)
        n_positive, n_positive_others = _count_positive(rows + first, waits + first, m, lane, BLOCK)
        one_sided = (n_positive_others == 0) | (n_positive_others == m - n_held)
        if one_sided:
            for start in range(0, n_held, BLOCK):
                score = tl.where(n_positive_others > 0, 1.0, -1.0) + tl.zeros_like(lane)
                tl.store(held_scores + held_first + start + lane, score, mask=start + lane < n_held)
        if (n_positive == 0) | (n_positive == m):
            if n_positive > 0:
                tl.store(bias + label, 1.0)
        else:
            without = 0.5 / C
            with_label = 0.5 / tl.load(positive_cost + label)
            b = center
            done = 1
            if one_sided == 0:
                b, done = _solve(
                    xp, xi, xd, norms, rows + first, waits + first, m, m - n_held, 0, without, with_label, w,
                    alpha + first, active + first, primes, tol, max_epochs, b, freedom, lane, N_PRIMES, BLOCK,
                )  # fmt: skip
                _score_held(
                    xp, xi, xd, held_rows + held_first, held_scores + held_first, n_held, w, b, min_weight, lane, BLOCK
                )
            if n_held > 0:
                b, done = _solve(
                    xp, xi, xd, norms, rows + first, waits + first, m, m, 1, without, with_label, w, alpha + first,
                    active + first, primes, tol, max_epochs, b, freedom, lane, N_PRIMES, BLOCK,
                )  # fmt: skip
            tl.store(bias + label, b)
            tl.store(converged + label, done)
            _write(
                w, n_features, min_weight, label, at, cursors + 1, out_label, out_column, out_value, room, left, BLOCK
            )
        at = tl.atomic_add(cursors, 1)


@triton.jit
def _count_positive(rows, waits, m, lane, BLOCK: tl.constexpr):
    """How many rows have the label, and how many of those that are not held out."""
    total = 0
    others = 0
    for start in range(0, m, BLOCK):
        signed = tl.load(rows + start + lane, mask=start + lane < m, other=-1)
        positive = signed >= 0
        waiting = tl.load(waits + start + lane, mask=positive, other=1)
        total += tl.sum(positive.to(tl.int32))
        others += tl.sum((positive & (waiting == 0)).to(tl.int32))
    return total, others


@triton.jit
def _solve(
    xp, xi, xd, norms, rows, waits, m, size, with_held, shrink_without, shrink_with, w, alpha,
    active, primes, tol, max_epochs, b, freedom, lane, N_PRIMES: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Passes over ``size`` rows, those held out among them or not, until all conditions hold or the passes are over."""
    # With rows that wait: first they and the rows that have a say.
    n_active = _list(waits, alpha, active, m, with_held, 0, lane, BLOCK)
    epoch = 0
    done = 0
    while (epoch < max_epochs) & (done == 0):
        whole = n_active == size
        b, violation, n_removed = _epoch(
            xp, xi, xd, norms, rows, shrink_without, shrink_with, w, alpha, active, n_active,
            (tl.load(primes + epoch % N_PRIMES) % n_active), epoch + with_held, b, freedom, lane, BLOCK,
        )  # fmt: skip
        if n_removed > 0:
            n_active = _compact(active, n_active, lane, BLOCK)
        if violation <= tol:
            if whole:
                done = 1
            else:
                n_active = _list(waits, alpha, active, m, with_held, 1, lane, BLOCK)
        epoch += 1
    return b, done


@triton.jit
def _list(waits, alpha, active, m, with_held, everyone, lane, BLOCK: tl.constexpr):
    """Write down the rows to visit and return their number."""
    n_listed = 0
    for start in range(0, m, BLOCK):
        inside = start + lane < m
        waiting = tl.load(waits + start + lane, mask=inside, other=0) != 0
        has_say = tl.load(alpha + start + lane, mask=inside, other=0.0) > 0.0
        listed = inside & tl.where(with_held > 0, waiting | has_say | (everyone > 0), waiting == 0)
        listed = listed.to(tl.int32)
        tl.store(active + n_listed + tl.cumsum(listed, 0) - 1, start + lane, mask=listed > 0)
        n_listed += tl.sum(listed)
    tl.debug_barrier()
    return n_listed


@triton.jit
def _score_held(xp, xi, xd, held_rows, held_scores, n_held, w, b, min_weight, lane, BLOCK: tl.constexpr):
    """Scores of the rows held out, with the weights that would be kept."""
    for at in range(0, n_held):
        row = tl.load(held_rows + at)
        end = tl.load(xp + row + 1)
        total = 0.0
        for start in range(tl.load(xp + row), end, BLOCK):
            more = start + lane < end
            weight = tl.load(w + tl.load(xi + start + lane, mask=more, other=0), mask=more, other=0.0)
            value = tl.load(xd + start + lane, mask=more, other=0.0)
            total += tl.sum(tl.where(tl.abs(weight) >= min_weight, weight * value, 0.0))
        tl.store(held_scores + at, total + b)


@triton.jit
def _compact(active, n_active, lane, BLOCK: tl.constexpr):
    kept_before = 0
    for start in range(0, n_active, BLOCK):
        entry = tl.load(active + start + lane, mask=start + lane < n_active, other=-1)
        kept = (entry >= 0).to(tl.int32)
        place = kept_before + tl.cumsum(kept, 0) - 1
        tl.debug_barrier()
        tl.store(active + place, entry, mask=kept > 0)
        kept_before += tl.sum(kept)
        tl.debug_barrier()
    return kept_before


@triton.jit
def _epoch(
    xp, xi, xd, norms, rows, shrink_without, shrink_with, w, alpha, active, n_active,
    stride, epoch, b, freedom, lane, BLOCK: tl.constexpr,
):  # fmt: skip
    violation = 0.0
    n_removed = 0
    # What the next rows need is on its way while a row is worked on: their places, numbers, extents and features.
    place0 = (stride // 2) % n_active
    place1 = (place0 + stride) % n_active
    place2 = (place1 + stride) % n_active
    place3 = (place2 + stride) % n_active
    pair0 = tl.load(active + place0)
    pair1 = tl.load(active + place1)
    pair2 = tl.load(active + place2)
    signed0 = tl.load(rows + pair0)
    signed1 = tl.load(rows + pair1)
    row0 = tl.where(signed0 >= 0, signed0, -1 - signed0)
    begin0 = tl.load(xp + row0)
    end0 = tl.load(xp + row0 + 1)
    norm0 = tl.load(norms + row0)
    alpha0 = tl.load(alpha + pair0)
    column0 = tl.load(xi + begin0 + lane, mask=begin0 + lane < end0, other=0)
    value0 = tl.load(xd + begin0 + lane, mask=begin0 + lane < end0, other=0.0)
    for _ in range(0, n_active):
        here = begin0 + lane < end0
        weight = tl.load(w + column0, mask=here, other=0.0)
        # Further rows.
        pair3 = tl.load(active + place3)
        pair3 = tl.where(pair3 >= 0, pair3, -1 - pair3)  # one that was removed in this pass is not used any more
        signed2 = tl.load(rows + pair2)
        row1 = tl.where(signed1 >= 0, signed1, -1 - signed1)
        begin1 = tl.load(xp + row1)
        end1 = tl.load(xp + row1 + 1)
        norm1 = tl.load(norms + row1)
        alpha1 = tl.load(alpha + pair1)
        column1 = tl.load(xi + begin1 + lane, mask=begin1 + lane < end1, other=0)
        value1 = tl.load(xd + begin1 + lane, mask=begin1 + lane < end1, other=0.0)
        # This row.
        margin = tl.sum(weight * value0)
        for start in range(begin0 + BLOCK, end0, BLOCK):
            more = start + lane < end0
            there = tl.load(w + tl.load(xi + start + lane, mask=more, other=0), mask=more, other=0.0)
            margin += tl.sum(there * tl.load(xd + start + lane, mask=more, other=0.0))
        sign = tl.where(signed0 >= 0, 1.0, -1.0)
        shrink = tl.where(signed0 >= 0, shrink_with, shrink_without)
        gradient = sign * (margin + b) - 1.0 + alpha0 * shrink
        satisfied = (alpha0 == 0.0) & (gradient > 0.0)
        if satisfied:
            if epoch > 0:
                tl.store(active + place0, -1 - pair0)
                n_removed += 1
        else:
            violation = tl.maximum(violation, tl.abs(gradient))
            fresh = tl.maximum(alpha0 - gradient / (norm0 + freedom + shrink), 0.0)
            step = (fresh - alpha0) * sign
            tl.store(alpha + pair0, fresh)
            b += step * freedom
            tl.store(w + column0, weight + step * value0, mask=here)
            for start in range(begin0 + BLOCK, end0, BLOCK):
                more = start + lane < end0
                column = tl.load(xi + start + lane, mask=more, other=0)
                old = tl.load(w + column, mask=more, other=0.0)
                tl.store(w + column, old + step * tl.load(xd + start + lane, mask=more, other=0.0), mask=more)
            tl.debug_barrier()
        place0 = place1
        place1 = place2
        place2 = place3
        place3 = (place3 + stride) % n_active
        pair0 = pair1
        pair1 = pair2
        pair2 = pair3
        signed0 = signed1
        signed1 = signed2
        begin0 = begin1
        end0 = end1
        norm0 = norm1
        alpha0 = alpha1
        column0 = column1
        value0 = value1
    tl.debug_barrier()  # all of the program must see what was removed last
    return b, violation, n_removed


@triton.jit
def _write(
    w, n_features, min_weight, label, at, cursor, out_label, out_column, out_value, room, left, BLOCK: tl.constexpr
):
    WIDE: tl.constexpr = 4 * BLOCK
    lane = tl.arange(0, WIDE)
    n_kept = 0
    for start in range(0, n_features, WIDE):
        value = tl.load(w + start + lane, mask=start + lane < n_features, other=0.0)
        n_kept += tl.sum(((tl.abs(value) >= min_weight) & (value != 0.0)).to(tl.int32))
    place = tl.atomic_add(cursor, n_kept)
    fits = place + n_kept <= room
    if fits == 0:
        tl.store(left + at, 1)
    for start in range(0, n_features, WIDE):
        inside = start + lane < n_features
        value = tl.load(w + start + lane, mask=inside, other=0.0)
        kept = (tl.abs(value) >= min_weight) & (value != 0.0)
        to = place + tl.cumsum(kept.to(tl.int32), 0) - 1
        to_keep = kept & (to < room)
        tl.store(out_label + to, tl.where(fits, label, -1).to(tl.int32) + tl.zeros_like(lane), mask=to_keep)
        tl.store(out_column + to, start + lane, mask=to_keep)
        tl.store(out_value + to, value, mask=to_keep)
        place += tl.sum(kept.to(tl.int32))
        tl.store(w + start + lane, 0.0, mask=inside & (value != 0.0))
    tl.debug_barrier()
