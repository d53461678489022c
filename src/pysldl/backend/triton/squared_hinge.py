"""The ranker's classifiers on a GPU: dual coordinate descent, one label after the other in every program.

Visits to rows follow one after the other, and the label with the most rows takes the longest: it decides when all are
done. So rows are visited only where a pass over all of them, which looks at many at once, finds that they have a say
or should have one.
"""

import numpy as np
import torch
import triton
import triton.language as tl
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor

from pysldl.backend.dispatch import current_device
from pysldl.backend.label_problems import HeldOutPairs, LabelProblems
from pysldl.backend.squared_hinge import BEFORE_HELD, BIAS_CENTER, BIAS_FREEDOM, largest_first
from pysldl.backend.torch.arrays import as_tensor, csr_on_device, kept_tensor, row_squares

PROGRAMS_PER_PROCESSOR = 8
WARPS = 16  # the label with the most rows decides when all are done: passes that look at its rows want many
SHARE_OF_MEMORY = 8
FIRST_ROOM = 1 << 25
LONGEST_BLOCK = 1024
ROWS_AT_ONCE, TERMS_AT_ONCE = 128, 32  # of a pass that only looks
FIRST_ROWS = 1024  # that a label begins with, at least, where it has so many
# Rows are visited in steps of a prime modulo their number. Above 2^30 it shares no divisor with that number, so that
# each row comes once.
PRIMES = (1073741827, 1073741831, 1073741833, 1073741839, 1073741843, 1073741857, 1073741891, 1073741909)


def solve_squared_hinge(
    X: sparse.csr_array,
    problems: LabelProblems,
    held: HeldOutPairs,
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


def dense_vectors(n_jobs: int, n_features: int) -> Tensor:
    """A vector of zeros for each program that works beside others, (n_programs, n_features)."""
    device = current_device()
    n_programs = PROGRAMS_PER_PROCESSOR * torch.cuda.get_device_properties(device).multi_processor_count
    room = torch.cuda.mem_get_info(device)[0] // SHARE_OF_MEMORY
    n_programs = max(1, min(n_programs, n_jobs, room // (4 * n_features)))
    return torch.zeros((n_programs, n_features), device=device)


class _Kernel:
    """The data of all labels on the device."""

    def __init__(
        self,
        X: sparse.csr_array,
        problems: LabelProblems,
        held: HeldOutPairs,
        C: float,
        positive_weight: NDArray[np.float32],
        max_epochs: int,
        tol: float,
        min_weight: float,
    ) -> None:
        n_labels = len(problems.indptr) - 1
        self.n_features = X.shape[1]
        self.X = csr_on_device(X)
        self.norms = row_squares(X)
        self.indptr, self.rows = kept_tensor(problems.indptr, torch.int64), kept_tensor(problems.rows, torch.int32)
        self.waits = kept_tensor(held.waits).view(torch.int8)
        self.held = kept_tensor(held.indptr, torch.int64), kept_tensor(held.rows, torch.int32)
        self.held_scores = torch.zeros(len(held.rows), device=self.norms.device)
        self.positive_cost = C * as_tensor(positive_weight, torch.float32)
        self.limits = (float(C), float(tol), float(min_weight), int(max_epochs))
        self.bias = torch.full((n_labels,), -1.0, device=self.norms.device)
        self.converged = torch.ones(n_labels, dtype=torch.int32, device=self.norms.device)
        most = 3 * X.nnz // max(2 * X.shape[0], 1)  # as long as most rows are
        self.block = min(triton.next_power_of_2(max(most, 32)), LONGEST_BLOCK)

    def run(self, labels: Tensor, room: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Labels, columns and values of the weights found, and the labels whose weights had no room."""
        device = labels.device
        w = dense_vectors(len(labels), self.n_features)
        alpha = torch.zeros(len(self.rows), device=device)
        active = torch.empty(len(self.rows), dtype=torch.int32, device=device)
        cursors = torch.zeros(2, dtype=torch.int64, device=device)  # of labels, of weights
        out = torch.empty(room, dtype=torch.int32, device=device), torch.empty(room, dtype=torch.int32, device=device)
        value = torch.empty(room, device=device)
        left = torch.zeros(len(labels), dtype=torch.int32, device=device)
        C, tol, min_weight, max_epochs = self.limits
        _descend[(len(w),)](
            labels, len(labels), *self.X, self.norms, self.indptr, self.rows, self.waits, *self.held,
            self.held_scores, self.positive_cost, w, alpha, active,
            torch.tensor(PRIMES, dtype=torch.int64, device=device), cursors, *out, value, room, left, self.bias,
            self.converged, self.n_features, C, tol, BEFORE_HELD * tol, min_weight, max_epochs, BIAS_CENTER,
            BIAS_FREEDOM, FIRST_ROWS, len(PRIMES), self.block, ROWS_AT_ONCE, TERMS_AT_ONCE, num_warps=WARPS,
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
    converged, n_features, C, tol, first_tol, min_weight, max_epochs, center, freedom, first_rows,
    N_PRIMES: tl.constexpr, BLOCK: tl.constexpr, ROWS: tl.constexpr, TERMS: tl.constexpr,
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
                    xp, xi, xd, norms, rows + first, waits + first, m, 0,
                    m // tl.maximum(2 * n_positive, first_rows), without, with_label, w, alpha + first, active + first,
                    primes, tl.where(n_held > 0, first_tol, tol), max_epochs, b, freedom, lane,
                    N_PRIMES, BLOCK, ROWS, TERMS,
                )  # fmt: skip
                _score_held(
                    xp, xi, xd, held_rows + held_first, held_scores + held_first, n_held, w, b, min_weight, ROWS, TERMS
                )
            if n_held > 0:
                b, done = _solve(
                    xp, xi, xd, norms, rows + first, waits + first, m, 1, 1, without, with_label, w, alpha + first,
                    active + first, primes, tol, max_epochs, b, freedom, lane, N_PRIMES, BLOCK, ROWS, TERMS,
                )  # fmt: skip
            tl.store(bias + label, b)
            tl.store(converged + label, done)
            _write(w, n_features, min_weight, label, at, cursors + 1, out_label, out_column, out_value, room, left)
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
    xp, xi, xd, norms, rows, waits, m, with_held, step, shrink_without, shrink_with, w, alpha,
    active, primes, tol, max_epochs, b, freedom, lane,
    N_PRIMES: tl.constexpr, BLOCK: tl.constexpr, ROWS: tl.constexpr, TERMS: tl.constexpr,
):  # fmt: skip
    """Passes over the rows, those held out among them or not, until all conditions hold or the passes are over."""
    # With rows that wait: first they and the rows that have a say. Else those with the label, and every step-th.
    n_active = _list(rows, waits, alpha, active, m, with_held, tl.maximum(step, 1), lane, BLOCK)
    whole = (with_held == 0) & (step <= 1)
    epoch = 0
    done = 0
    while (epoch < max_epochs) & (done == 0):
        violation = 0.0
        n_removed = 0
        if n_active > 0:
            b, violation, n_removed = _epoch(
                xp, xi, xd, norms, rows, shrink_without, shrink_with, w, alpha, active, n_active,
                (tl.load(primes + epoch % N_PRIMES) % n_active).to(tl.int32), epoch + with_held, b, freedom, lane,
                BLOCK,
            )  # fmt: skip
        if n_removed > 0:
            n_active = _compact(active, n_active, lane, BLOCK)
        settled = violation <= tol
        done = (settled & whole).to(tl.int32)
        # All are looked at when the others have settled, and after the first pass.
        whole = settled | ((epoch == 0) & (with_held == 0))
        if whole & (done == 0):
            n_active = _look(xp, xi, xd, rows, waits, m, with_held, w, b, alpha, active, ROWS, TERMS)
        epoch += 1
    return b, done


@triton.jit
def _list(rows, waits, alpha, active, m, with_held, step, lane, BLOCK: tl.constexpr):
    """Write down the rows to begin with and return their number."""
    n_listed = 0
    for start in range(0, m, BLOCK):
        inside = start + lane < m
        signed = tl.load(rows + start + lane, mask=inside, other=0)
        waiting = tl.load(waits + start + lane, mask=inside, other=0) != 0
        has_say = tl.load(alpha + start + lane, mask=inside, other=0.0) > 0.0
        drawn = (signed >= 0) | ((start + lane) % step == 0)
        listed = inside & tl.where(with_held > 0, waiting | has_say, (waiting == 0) & drawn)
        listed = listed.to(tl.int32)
        tl.store(active + n_listed + tl.cumsum(listed, 0) - 1, start + lane, mask=listed > 0)
        n_listed += tl.sum(listed)
    tl.debug_barrier()
    return n_listed


@triton.jit
def _look(xp, xi, xd, rows, waits, m, with_held, w, b, alpha, active, ROWS: tl.constexpr, TERMS: tl.constexpr):
    """Write down the rows that have a say, or whose condition does not hold, and return their number."""
    n_listed = 0
    place = tl.arange(0, ROWS)
    for start in range(0, m, ROWS):
        inside = start + place < m
        signed = tl.load(rows + start + place, mask=inside, other=0)
        row = tl.where(signed >= 0, signed, -1 - signed)
        waiting = tl.load(waits + start + place, mask=inside, other=0) != 0
        inside = inside & ((with_held > 0) | (waiting == 0))
        margin = b + _dots(xp, xi, xd, row, inside, w, 0.0, ROWS, TERMS)
        has_say = tl.load(alpha + start + place, mask=inside, other=0.0) > 0.0
        listed = inside & (has_say | (tl.where(signed >= 0, margin, -margin) < 1.0))
        listed = listed.to(tl.int32)
        tl.store(active + n_listed + tl.cumsum(listed, 0) - 1, start + place, mask=listed > 0)
        n_listed += tl.sum(listed)
    tl.debug_barrier()
    return n_listed


@triton.jit
def _dots(xp, xi, xd, row, inside, w, min_weight, ROWS: tl.constexpr, TERMS: tl.constexpr):
    """Products of several rows and the weights that are not smaller than ``min_weight``."""
    begin = tl.load(xp + row, mask=inside, other=0)
    size = (tl.load(xp + row + 1, mask=inside, other=0) - begin).to(tl.int32)
    lane = tl.arange(0, TERMS)
    total = tl.zeros((ROWS, TERMS), tl.float32)
    for start in range(0, tl.max(size), TERMS):
        more = start + lane[None, :] < size[:, None]
        at = begin[:, None] + (start + lane[None, :])
        weight = tl.load(w + tl.load(xi + at, mask=more, other=0), mask=more, other=0.0)
        total += tl.where(tl.abs(weight) >= min_weight, weight, 0.0) * tl.load(xd + at, mask=more, other=0.0)
    return tl.sum(total, axis=1)


@triton.jit
def _score_held(xp, xi, xd, held_rows, held_scores, n_held, w, b, min_weight, ROWS: tl.constexpr, TERMS: tl.constexpr):
    """Scores of the rows held out, with the weights that would be kept."""
    place = tl.arange(0, ROWS)
    for start in range(0, n_held, ROWS):
        inside = start + place < n_held
        row = tl.load(held_rows + start + place, mask=inside, other=0)
        scores = b + _dots(xp, xi, xd, row, inside, w, min_weight, ROWS, TERMS)
        tl.store(held_scores + start + place, scores, mask=inside)


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
        place3 += stride - tl.where(place3 >= n_active - stride, n_active, 0)
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
def _write(w, n_features, min_weight, label, at, cursor, out_label, out_column, out_value, room, left):
    WIDE: tl.constexpr = 4096
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
