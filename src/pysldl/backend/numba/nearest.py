"""Selection by a heap, and sums over the terms of one pair after the other."""

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray
from scipy import sparse

from pysldl.backend.numba.heap import pop_sorted, push, value_of
from pysldl.backend.threads import concatenate_parts, parallel_for

MOST_MEMBERS, GROUPS_PER_VALUE = 32, 4  # columns of a group, and groups for each value that is looked for
SPARE_SHARE = 8  # a bound that lets this share more values pass is good enough


def largest(
    values: NDArray[np.float32], k: int, exclude: NDArray[np.integer] | None = None
) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    without = np.full(len(values), -1, np.int64) if exclude is None else np.asarray(exclude, np.int64)
    return concatenate_parts(_largest, len(values), values, k, without)


def largest_columns(
    values: NDArray[np.float32], k: int, exclude: NDArray[np.integer] | None = None
) -> NDArray[np.int32]:
    without = np.full(len(values), -1, np.int64) if exclude is None else np.asarray(exclude, np.int64)
    return np.concatenate(parallel_for(_largest_columns, len(values), values, k, without))


def pair_products(Q: Any, rows: NDArray[np.integer], V: Any) -> NDArray[np.float32]:
    if sparse.issparse(V):
        arguments = (Q.indptr, Q.indices, Q.data, Q.shape[1], rows, V.indptr, V.indices, V.data)
        return np.concatenate(parallel_for(_sparse_products, len(rows), *arguments))
    return np.concatenate(parallel_for(_dense_products, len(rows), Q, rows, V))


def pair_distances(Q: NDArray[np.float64], rows: NDArray[np.integer], V: NDArray[np.float32]) -> NDArray[np.float64]:
    return np.concatenate(parallel_for(_distances, len(rows), Q, rows, V))


@njit(nogil=True, cache=True)
def _put_maxima(own, skipped, members, highest):
    """The largest value of each group of a row but the one that is skipped; column c is in group c % n_groups."""
    n_groups = len(highest)
    for group in range(n_groups):
        highest[group] = own[group]
    for first in range(n_groups, n_groups * members, n_groups):
        part = own[first : first + n_groups]
        for group in range(n_groups):
            highest[group] = part[group] if part[group] > highest[group] else highest[group]
    if 0 <= skipped < n_groups * members:
        group = skipped % n_groups
        highest[group] = -np.inf
        for column in range(group, n_groups * members, n_groups):
            if column != skipped:
                highest[group] = max(highest[group], own[column])


@njit(nogil=True, cache=True)
def _largest(start, stop, values, k, exclude):
    """Most columns are passed over in groups: the k-th largest of the groups' maxima is a bound for the k-th value."""
    columns = np.empty((stop - start, k), np.int32)
    found = np.empty((stop - start, k), np.float32)
    heap = np.empty(k, np.uint64)
    n = values.shape[1]
    members = min(MOST_MEMBERS, n // (GROUPS_PER_VALUE * k))  # column c is in group c % n_groups
    n_groups = n // members if members > 1 else 0
    highest = np.empty(n_groups, np.float32)
    for row in range(start, stop):
        own, skipped = values[row], exclude[row]
        size = 0
        if n_groups > 0:
            _put_maxima(own, skipped, members, highest)
            for group in range(n_groups):
                if size < k or highest[group] > value_of(heap[0]):
                    size = push(heap, size, highest[group], group)
            bound, size = value_of(heap[0]), 0
            for group in range(n_groups):
                if highest[group] >= bound:
                    for column in range(group, n_groups * members, n_groups):
                        if own[column] >= bound and column != skipped:
                            size = push(heap, size, own[column], column)
        for column in range(n_groups * members, n):
            if (size < k or own[column] >= value_of(heap[0])) and column != skipped:
                size = push(heap, size, own[column], column)
        pop_sorted(heap, size, found[row - start], columns[row - start])
    return columns, found


@njit(nogil=True, cache=True)
def _largest_columns(start, stop, values, k, exclude):
    """Nothing is ordered: there is a bound among the groups' maxima, and what reaches it is halved until k are left."""
    columns = np.empty((stop - start, k), np.int32)
    n = values.shape[1]
    members = min(MOST_MEMBERS, n // (GROUPS_PER_VALUE * k))  # column c is in group c % n_groups
    n_groups = n // members if members > 1 else 0
    highest, listed = np.empty(n_groups, np.float32), np.empty(n + 1, np.int32)
    keys = np.empty(n, np.int32)
    for row in range(start, stop):
        own, skipped = values[row], exclude[row]
        bound = np.float32(-np.inf)
        if n_groups > 0:
            _put_maxima(own, skipped, members, highest)
            for group in range(n_groups):
                keys[group] = _ascending(highest[group])
            bound = _value(_reached_by(keys[:n_groups], k, k // SPARE_SHARE))
        size = np.int64(0)
        for column in range(n):
            if own[column] >= bound and column != skipped:
                listed[size] = column
                size += 1
        for at in range(size):
            keys[at] = _ascending(own[listed[at]])
        last = _reached_by(keys[:size], k, 0)
        ties = np.int64(k)
        for at in range(size):
            ties -= keys[at] > last
        found = 0
        for at in range(size):
            if keys[at] > last or (keys[at] == last and ties > 0):
                ties -= keys[at] == last
                columns[row - start, found] = listed[at]
                found += 1
    return columns


@njit(nogil=True, cache=True)
def _ascending(value):
    """A whole number that ascends with the value, the same for both zeros."""
    bits = np.float32(value + np.float32(0.0)).view(np.int32)
    return np.int32(bits ^ ((bits >> np.int32(31)) & np.int32(0x7FFFFFFF)))


@njit(nogil=True, cache=True)
def _value(key):
    """The value of a whole number of :func:`_ascending`."""
    return np.int32(key ^ ((key >> np.int32(31)) & np.int32(0x7FFFFFFF))).view(np.float32)


@njit(nogil=True, cache=True)
def _reached_by(keys, k, spare):
    """The largest number that at least k of the keys reach, or one below that at most ``spare`` more do.

    It is found by halving: to count keys takes the processor no decisions, of which to move them would take many.
    """
    low, high = np.int64(keys.min()), np.int64(keys.max()) + 1  # reached by k or more, and by fewer
    while high - low > 1:
        middle = (low + high) >> 1
        bar, reached = np.int32(middle), np.int32(0)
        for at in range(len(keys)):
            reached += np.int32(keys[at] >= bar)
        if reached >= k:
            low = middle
            if reached <= k + spare:
                break
        else:
            high = middle
    return np.int32(low)


@njit(nogil=True, cache=True)
def _sparse_products(start, stop, qp, qi, qd, width, rows, vp, vi, vd):
    m = rows.shape[1]
    products = np.zeros((stop - start, m), np.float32)
    x = np.zeros(width, np.float64)
    for query in range(start, stop):
        for at in range(qp[query], qp[query + 1]):
            x[qi[at]] = qd[at]
        for slot in range(m):
            row = rows[query, slot]
            if row >= 0:
                total = 0.0
                for at in range(np.uint64(vp[row]), np.uint64(vp[row + 1])):
                    total += x[np.uint32(vi[at])] * vd[at]
                products[query - start, slot] = total
        for at in range(qp[query], qp[query + 1]):
            x[qi[at]] = 0
    return products


@njit(nogil=True, cache=True, fastmath={"reassoc", "contract"})
def _dense_products(start, stop, Q, rows, V):
    m, width = rows.shape[1], Q.shape[1]
    products = np.zeros((stop - start, m), np.float32)
    for query in range(start, stop):
        q = Q[query]
        for slot in range(m):
            row = rows[query, slot]
            if row >= 0:
                v = V[row]
                total = 0.0
                for j in range(width):
                    total += np.float64(q[j]) * np.float64(v[j])
                products[query - start, slot] = total
    return products


@njit(nogil=True, cache=True, fastmath={"reassoc", "contract"})
def _distances(start, stop, Q, rows, V):
    m, width = rows.shape[1], Q.shape[1]
    distances = np.full((stop - start, m), np.inf)
    for query in range(start, stop):
        q = Q[query]
        size = 0.0
        for j in range(width):
            size += q[j] * q[j]
        for slot in range(m):
            row = rows[query, slot]
            if row < 0:
                continue
            v = V[row]
            total, other = 0.0, 0.0
            for j in range(width):
                value = np.float64(v[j])
                difference = value - q[j]
                total += difference * difference
                other += value * value
            distances[query - start, slot] = 0.5 * total if size > 0 and other > 0 else 1.0
    return distances
