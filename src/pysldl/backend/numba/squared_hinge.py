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
    MOST_COPIED,
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
        max_epochs, np.float32(BEFORE_HELD) * np.float32(tol), np.float32(tol), np.float32(min_weight), MOST_COPIED,
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
def _dot_of_fours(w, xi, xd, start, stop):
    """As ``_dot``, of a multiple of four terms."""
    s0 = s1 = s2 = s3 = np.float32(0.0)
    j = start
    while j < stop:
        s0 += w[xi[j]] * xd[j]
        s1 += w[xi[j + ONE]] * xd[j + ONE]
        s2 += w[xi[j + TWO]] * xd[j + TWO]
        s3 += w[xi[j + THREE]] * xd[j + THREE]
        j += FOUR
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
    positive_weight, max_epochs, first_tol, tol, min_weight, most_copied,
):  # fmt: skip
    counts = np.zeros(stop - start, np.int64)
    bias = np.empty(stop - start, np.float32)
    converged = np.zeros(stop - start, np.bool_)
    room = copied_room = 1 << 16
    columns, values, used = np.empty(room, np.int32), np.empty(room, np.float32), 0
    copied_xi, copied_xd = np.empty(room, np.uint32), np.empty(room, np.float32)
    w = np.zeros(n_features + 1, np.float32)
    for at in range(start, stop):
        label = labels[at]
        first, m = indptr[label], indptr[label + 1] - indptr[label]
        order, waits = np.empty(m, np.int32), pair_waits[first : first + m]
        # What is asked of a row at every visit, side by side for the rows of the label.
        has, norm = np.empty(m, np.bool_), np.empty(m, np.float32)
        begin, end = np.empty(m, np.uint64), np.empty(m, np.uint64)
        n_others = n_positive = n_positive_others = n_terms = 0
        for e in range(m):
            row = rows[first + e]
            has[e] = row >= 0
            n_positive += row >= 0
            row = row if row >= 0 else ~row
            begin[e], end[e], norm[e] = xp[row], xp[row + 1], lengths[row]
            n_terms += (xp[row + 1] - xp[row] + 3) & ~3
            if not waits[e]:
                n_positive_others += has[e]
                order[n_others] = e
                n_others += 1
        without = n_positive_others == 0 or n_positive_others == n_others
        held = held_scores[held_at[label] : held_at[label] + m - n_others]
        if without:
            for place in range(len(held)):
                held[place] = 1.0 if n_positive_others else -1.0
        if n_positive == 0 or n_positive == m:
            bias[at - start] = 1.0 if n_positive else -1.0
            converged[at - start] = True
            continue
        weight = C * positive_weight[label]
        is_copied = n_terms <= most_copied
        if is_copied:
            if n_terms > copied_room:
                copied_room = max(min(2 * copied_room, most_copied), n_terms)
                copied_xi, copied_xd = np.empty(copied_room, np.uint32), np.empty(copied_room, np.float32)
            _copy_terms(xi, xd, begin, end, n_features, copied_xi, copied_xd)
            bias[at - start], converged[at - start] = _descend(
                w, copied_xi, copied_xd, True, begin, end, has, norm, order, waits, n_others, without, held, label,
                C, weight, max_epochs, first_tol, tol, min_weight,
            )  # fmt: skip
        else:
            bias[at - start], converged[at - start] = _descend(
                w, xi, xd, False, begin, end, has, norm, order, waits, n_others, without, held, label,
                C, weight, max_epochs, first_tol, tol, min_weight,
            )  # fmt: skip
        by_term = is_copied and n_terms < n_features
        n_places = n_terms if by_term else n_features
        if used + n_places > room:
            room = max(2 * room, used + n_places)
            more_columns, more_values = np.empty(room, np.int32), np.empty(room, np.float32)
            for t in range(used):  # a loop: numba takes seconds to compile a slice that is assigned
                more_columns[t], more_values[t] = columns[t], values[t]
            columns, values = more_columns, more_values
        before_label = used
        for place in range(n_places):
            feature = copied_xi[place] if by_term else np.uint32(place)
            if abs(w[feature]) >= min_weight and w[feature] != 0:
                columns[used], values[used] = feature, w[feature]
                used += 1
            w[feature] = 0
        counts[at - start] = used - before_label
    return counts, columns[:used].copy(), values[:used].copy(), bias, converged


@njit(nogil=True, cache=True)
def _copy_terms(xi, xd, begin, end, n_features, copied_xi, copied_xd):
    """Copy the rows of a label side by side, each filled up to a multiple of four terms; ``begin`` and ``end`` follow.

    The loops over their terms then end together for most rows, which the processor foresees. The weight of what fills
    up, a feature behind the last, stays 0 and adds nothing to a sum.
    """
    place = np.uint64(0)
    for e in range(len(begin)):
        first, last = begin[e], end[e]
        begin[e] = place
        for j in range(first, last):
            copied_xi[place], copied_xd[place] = xi[j], xd[j]
            place += ONE
        while place & THREE:
            copied_xi[place], copied_xd[place] = n_features, 0
            place += ONE
        end[e] = place


@njit(nogil=True, cache=True)
def _descend(
    w, xi, xd, fours, begin, end, has, norm, order, waits, n_others, without, held, label, C, weight, max_epochs,
    first_tol, tol, min_weight,
):  # fmt: skip
    """Fit one label from weights of zero, which become its own; returns its bias, and whether the descent converged."""
    m, n_held, converged = len(order), len(order) - n_others, False
    alpha = np.zeros(m, np.float32)
    b = CENTER
    shrink_without, shrink_with = np.float32(0.5) / C, np.float32(0.5) / weight
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
        converged = False
        for epoch in range(max_epochs):
            violation, whole = np.float32(0.0), active == size
            for s in range(active):
                seed = seed * MULTIPLIER + INCREMENT
                other = s + np.int64(((seed >> HIGH_BITS) * np.uint64(active - s)) >> DRAWN_BITS)
                order[s], order[other] = order[other], order[s]
            s = 0
            while s < active:
                e = np.uint32(order[s])
                sign, shrink = np.float32(1.0), shrink_with
                if not has[e]:
                    sign, shrink = np.float32(-1.0), shrink_without
                if s + AHEAD < active:
                    later = np.uint32(order[s + AHEAD])
                    for j in range(begin[later], end[later], CACHE_LINE):
                        prefetch(xi, j)
                        prefetch(xd, j)
                margin = _dot_of_fours(w, xi, xd, begin[e], end[e]) if fours else _dot(w, xi, xd, begin[e], end[e])
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
                s += 1
            if violation <= goal:
                if whole:
                    converged = True
                    break
                active = size
        if not with_held and n_held > 0:
            place = 0
            for e in range(m):
                if waits[e]:
                    held[place] = _dot_of_kept(w, xi, xd, begin[e], end[e], min_weight) + b
                    place += 1
    return b, converged
