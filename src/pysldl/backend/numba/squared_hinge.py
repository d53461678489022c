"""Dual coordinate descent, one label after the other in every thread."""

from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic
from numpy.typing import NDArray
from scipy import sparse

from pysldl.backend.label_problems import HeldOutPairs, LabelProblems
from pysldl.backend.squared_hinge import (
    BEFORE_HELD,
    BIAS_CENTER,
    BIAS_FREEDOM,
    DRAWN_BITS,
    HIGH_BITS,
    INCREMENT,
    MULTIPLIER,
    FittedLabels,
    as_weights,
    largest_first,
    squared_norms,
)
from pysldl.backend.threads import parallel_for

N_STRIDES = 64
CENTER, FREEDOM = np.float32(BIAS_CENTER), np.float32(BIAS_FREEDOM)
AHEAD, CACHE_LINE = 2, np.uint64(16)  # how many rows ahead memory is asked for; numbers of four bytes in a line
# Unsigned places and features: a signed one may count from the end, and looking whether it does takes a third of the
# time of the loop.
ONE, TWO, THREE, FOUR = np.uint64(1), np.uint64(2), np.uint64(3), np.uint64(4)


@intrinsic
def prefetch(typing_context: Any, array: Any, place: Any) -> Any:
    """In compiled loops, ``prefetch(array, place)``: begin to bring ``array[place]`` into the cache; nothing waits."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        byte, word = ir.IntType(8).as_pointer(), ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [byte, word, word, word])
        instruction = builder.module.declare_intrinsic("llvm.prefetch", [byte], kind)
        address = builder.bitcast(builder.gep(data, [arguments[1]]), byte)
        # To be read, not written; to stay in all caches; data, not instructions.
        builder.call(instruction, [address, ir.Constant(word, 0), ir.Constant(word, 3), ir.Constant(word, 1)])
        return context.get_dummy_value()

    return types.void(array, place), generate


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
    labels = largest_first(np.diff(problems.indptr))
    # Every 64th label together, so that every part of the loop gets labels of all sizes.
    labels = np.concatenate([labels[first::N_STRIDES] for first in range(N_STRIDES)])
    held_scores = np.empty(len(held.rows), dtype=np.float32)
    parts = parallel_for(
        _fit, len(labels), labels, X.indptr, X.indices.view(np.uint32), X.data, X.shape[1], squared_norms(X),
        problems.indptr, problems.rows, held.waits, held.indptr, held_scores, np.float32(C), positive_weight,
        max_epochs, np.float32(BEFORE_HELD) * np.float32(tol), np.float32(tol), np.float32(min_weight),
    )  # fmt: skip
    shape = (len(problems.indptr) - 1, X.shape[1])
    fitted = [FittedLabels(*parts.pop(0)) for _ in range(len(parts))]
    W, bias, n_open = as_weights(fitted, labels, shape)
    return W, bias, held_scores, n_open


# No fastmath: it would add up in an order that depends on the processor. Four sums at once are as fast.
@njit(nogil=True, cache=True)
def _dot(w, xi, xd, start, stop):
    s0 = s1 = s2 = s3 = np.float32(0.0)
    j, stop = np.uint64(start), np.uint64(stop)
    while j + THREE < stop:
        s0 += w[xi[j]] * xd[j]
        s1 += w[xi[j + ONE]] * xd[j + ONE]
        s2 += w[xi[j + TWO]] * xd[j + TWO]
        s3 += w[xi[j + THREE]] * xd[j + THREE]
        j += FOUR
    if j < stop:
        s0 += w[xi[j]] * xd[j]
    if j + ONE < stop:
        s1 += w[xi[j + ONE]] * xd[j + ONE]
    if j + TWO < stop:
        s2 += w[xi[j + TWO]] * xd[j + TWO]
    return (s0 + s1) + (s2 + s3)


@njit(nogil=True, cache=True)
def _dot_of_kept(w, xi, xd, start, stop, min_weight):
    """As ``_dot``, with the weights that will be kept only."""
    s0 = s1 = s2 = s3 = np.float32(0.0)
    for j in range(start, stop):
        weight = w[xi[j]]
        term = weight * xd[j] if abs(weight) >= min_weight else np.float32(0.0)
        place = (j - start) % 4
        if place == 0:
            s0 += term
        elif place == 1:
            s1 += term
        elif place == 2:
            s2 += term
        else:
            s3 += term
    return (s0 + s1) + (s2 + s3)


@njit(nogil=True, cache=True)
def _fit(
    start, stop, labels, xp, xi, xd, n_features, lengths, indptr, rows, pair_waits, held_at, held_scores, C,
    positive_weight, max_epochs, first_tol, tol, min_weight,
):  # fmt: skip
    counts = np.zeros(stop - start, np.int64)
    bias = np.empty(stop - start, np.float32)
    converged = np.zeros(stop - start, np.bool_)
    room = 1 << 16
    columns, values, used = np.empty(room, np.int32), np.empty(room, np.float32), 0
    w = np.zeros(n_features, np.float32)
    known = np.zeros(n_features, np.bool_)
    touched = np.empty(n_features, np.int32)
    for at in range(start, stop):
        label = labels[at]
        first, m = indptr[label], indptr[label + 1] - indptr[label]
        order, waits = np.empty(m, np.int32), pair_waits[first : first + m]
        # What is asked of a row at every visit, side by side for the rows of the label.
        has, norm = np.empty(m, np.bool_), np.empty(m, np.float32)
        begin, end = np.empty(m, np.uint64), np.empty(m, np.uint64)
        n_others = n_positive = n_positive_others = 0
        for e in range(m):
            row = rows[first + e]
            has[e] = row >= 0
            n_positive += row >= 0
            row = row if row >= 0 else ~row
            begin[e], end[e], norm[e] = xp[row], xp[row + 1], lengths[row]
            if not waits[e]:
                n_positive_others += has[e]
                order[n_others] = e
                n_others += 1
        n_held = m - n_others
        without = n_positive_others == 0 or n_positive_others == n_others
        if without:
            for place in range(held_at[label], held_at[label] + n_held):
                held_scores[place] = 1.0 if n_positive_others else -1.0
        if n_positive == 0 or n_positive == m:
            bias[at - start] = 1.0 if n_positive else -1.0
            converged[at - start] = True
            continue
        alpha = np.zeros(m, np.float32)
        n_touched = 0
        b = CENTER
        shrink_without, shrink_with = np.float32(0.5) / C, np.float32(0.5) / (C * positive_weight[label])
        seed = np.uint64(label)
        for with_held in (False, True):
            if (with_held and n_held == 0) or (not with_held and without):
                continue
            size = m if with_held else n_others
            goal = tol if with_held or n_held == 0 else first_tol
            active = size
            if with_held:  # first the rows that have a say, and those that had none yet
                active = 0
                for e in range(m):
                    if alpha[e] > 0 or waits[e]:
                        order[active] = e
                        active += 1
                last = active
                for e in range(m):
                    if alpha[e] == 0 and not waits[e]:
                        order[last] = e
                        last += 1
            converged[at - start] = False
            for epoch in range(max_epochs):
                violation, whole = np.float32(0.0), active == size
                for s in range(active):
                    seed = seed * MULTIPLIER + INCREMENT
                    other = s + np.int64(((seed >> HIGH_BITS) * np.uint64(active - s)) >> DRAWN_BITS)
                    order[s], order[other] = order[other], order[s]
                s = 0
                while s < active:
                    e = order[s]
                    sign, shrink = np.float32(1.0), shrink_with
                    if not has[e]:
                        sign, shrink = np.float32(-1.0), shrink_without
                    if s + AHEAD < active:
                        later = order[s + AHEAD]
                        for j in range(begin[later], end[later], CACHE_LINE):
                            prefetch(xi, j)
                            prefetch(xd, j)
                    margin = _dot(w, xi, xd, begin[e], end[e])
                    gradient = sign * (margin + b) - np.float32(1.0) + alpha[e] * shrink
                    projected = gradient
                    if alpha[e] == 0 and gradient > 0:
                        if epoch > 0 or with_held:
                            active -= 1
                            order[s], order[active] = order[active], order[s]
                            continue
                        projected = np.float32(0.0)
                    violation = max(violation, abs(projected))
                    if projected != 0:
                        before = alpha[e]
                        alpha[e] = max(before - gradient / (norm[e] + FREEDOM + shrink), np.float32(0.0))
                        step = (alpha[e] - before) * sign
                        b += step * FREEDOM
                        for j in range(begin[e], end[e]):
                            w[xi[j]] += step * xd[j]
                        if before == 0:
                            for j in range(begin[e], end[e]):
                                feature = xi[j]
                                if not known[feature]:
                                    known[feature] = True
                                    touched[n_touched] = feature
                                    n_touched += 1
                    s += 1
                if violation <= goal:
                    if whole:
                        converged[at - start] = True
                        break
                    active = size
            if not with_held and n_held > 0:
                place = held_at[label]
                for e in range(m):
                    if waits[e]:
                        held_scores[place] = _dot_of_kept(w, xi, xd, begin[e], end[e], min_weight) + b
                        place += 1
        if used + n_touched > room:
            room = max(2 * room, used + n_touched)
            more_columns, more_values = np.empty(room, np.int32), np.empty(room, np.float32)
            for t in range(used):  # a loop: numba takes seconds to compile a slice that is assigned
                more_columns[t], more_values[t] = columns[t], values[t]
            columns, values = more_columns, more_values
        before_label = used
        for t in range(n_touched):
            feature = touched[t]
            if abs(w[feature]) >= min_weight and w[feature] != 0:
                columns[used], values[used] = feature, w[feature]
                used += 1
            w[feature] = 0
            known[feature] = False
        counts[at - start] = used - before_label
        bias[at - start] = b
    return counts, columns[:used].copy(), values[:used].copy(), bias, converged
