"""The ranker's classifiers on the device: Newton's method on the squared hinge, for many labels at once.

The problems of many labels are one: a sparse matrix with a row for every pair of a label and one of its rows, and a
column for every feature of every label. Each label has step lengths of its own.
"""

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor

from pysldl.backend.label_problems import HeldPairs, LabelProblems
from pysldl.backend.squared_hinge import BEFORE_HELD, BIAS_CENTER, BIAS_FREEDOM, one_sided
from pysldl.backend.torch.arrays import as_tensor, csr_of, ranges

__all__ = ["solve_squared_hinge"]

VALUES_AT_ONCE = 1 << 26
CG_STEPS = 10
INEXACT = 0.1
LINE_STEPS = 5


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
    indptr, signed_rows = problems
    rows = np.where(signed_rows >= 0, signed_rows, ~signed_rows)
    bias = np.full(n_labels, -1.0, dtype=np.float32)
    sizes, positive = np.diff(indptr), _sums_of_labels(signed_rows >= 0, indptr)
    bias[(sizes > 0) & (positive == sizes)] = 1.0
    mixed = np.flatnonzero(~one_sided(positive, sizes))
    positive_others = _sums_of_labels((signed_rows >= 0) & ~held.is_held[rows], indptr)
    others = sizes - np.diff(held.indptr)
    flat = one_sided(positive_others, others)
    held_scores = np.repeat(np.where(positive_others > 0, np.float32(1), np.float32(-1)), np.diff(held.indptr))
    stored = np.diff(X.indptr)[rows] + 1
    cost = np.concatenate([[0], np.cumsum(stored)])
    cost = cost[indptr[1:]] - cost[indptr[:-1]]
    matrix = _Matrix(X)
    labels_found, columns_found, values_found, n_open = [], [], [], 0
    for group in _groups(mixed, cost):
        costs = (C, C * positive_weight[group])
        w, label, column, scores, open_here = _fit_group(
            matrix, group, problems, held, flat[group], costs, max_epochs, tol, min_weight
        )
        n_open += open_here
        starts, sizes_held = held.indptr[group], np.diff(held.indptr)[group]
        first = np.cumsum(sizes_held) - sizes_held
        fitted = np.repeat(~flat[group], sizes_held)
        places = np.repeat(starts - first, sizes_held) + np.arange(len(scores))
        held_scores[places[fitted]] = scores[fitted]
        is_bias = column == n_features
        bias[group[label[is_bias]]] = BIAS_CENTER + np.sqrt(BIAS_FREEDOM) * w[is_bias]
        kept = ~is_bias & (np.abs(w) >= min_weight) & (w != 0)
        labels_found.append(group[label[kept]])
        columns_found.append(column[kept])
        values_found.append(w[kept])
    nothing = [np.zeros(0, dtype=np.int64)]
    W = sparse.csr_array(
        (
            np.concatenate([np.zeros(0, dtype=np.float32), *values_found]),
            (np.concatenate(nothing + labels_found), np.concatenate(nothing + columns_found)),
        ),
        shape=(n_labels, n_features),
    )
    W.sort_indices()
    return W, bias, held_scores, n_open


def _sums_of_labels(flags: NDArray[np.bool_], indptr: NDArray[np.int64]) -> NDArray[np.int64]:
    """How many of the flags of every label are set."""
    return np.searchsorted(np.flatnonzero(flags), indptr[1:]) - np.searchsorted(np.flatnonzero(flags), indptr[:-1])


class _Matrix:
    """A CSR matrix on the device, as its three arrays."""

    def __init__(self, X: sparse.csr_array) -> None:
        self.n_columns = X.shape[1]
        self.starts, self.columns = (as_tensor(a, torch.int64) for a in (X.indptr, X.indices))
        self.values = as_tensor(X.data, torch.float32)


def _groups(labels: NDArray[np.int64], cost: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    """Labels in groups whose problems fit into memory together."""
    if labels.size == 0:
        return []
    part = (np.cumsum(cost[labels]) - 1) // VALUES_AT_ONCE
    return np.split(labels, np.flatnonzero(np.diff(part)) + 1)


def _fit_group(
    X: _Matrix,
    group: NDArray[np.int64],
    problems: LabelProblems,
    held: HeldPairs,
    flat: NDArray[np.bool_],
    costs: tuple[float, NDArray[np.float32]],
    max_steps: int,
    tol: float,
    min_weight: float,
) -> tuple[NDArray[np.float32], NDArray[np.int64], NDArray[np.int64], NDArray[np.float32], int]:
    """Weights of a group of labels, where they belong, scores of rows held out, and how many labels did not converge.

    A weight belongs to a label and a column; the column behind the last feature is the bias. ``flat`` tells which
    labels have nothing to fit without the rows held out. ``costs``: of an error on a row that does not have the label,
    and, label by label, on one that has.
    """
    indptr, signed_rows = problems
    device = X.values.device
    first, sizes = (as_tensor(a, torch.int64) for a in (indptr[group], np.diff(indptr)[group]))
    signed = as_tensor(signed_rows[: indptr[group[-1] + 1]], torch.int64)[ranges(first, sizes)]
    sign = torch.where(signed >= 0, 1.0, -1.0)
    row = torch.where(signed >= 0, signed, ~signed)
    label = torch.repeat_interleave(torch.arange(len(group), device=device), sizes)

    stored = X.starts[row + 1] - X.starts[row]
    places = ranges(X.starts[row], stored)
    pair = torch.repeat_interleave(torch.arange(len(row), device=device), stored)
    width = X.n_columns + 1
    everyone = torch.arange(len(row), device=device)
    key = torch.cat([label[pair] * width + X.columns[places], label * width + X.n_columns])
    pair = torch.cat([pair, everyone])
    value = torch.cat([X.values[places], torch.full((len(row),), BIAS_FREEDOM**0.5, device=device)])
    del places
    keys, column = torch.unique(key, return_inverse=True)
    del key
    owner = keys // width
    A = _Pairs(pair, column, value, len(row), len(keys))
    del pair, column, value
    C = torch.where(sign > 0, as_tensor(costs[1], torch.float32)[label], costs[0])
    weights, pairs = _Sums(owner, len(group)), _Sums(label, len(group))
    w, scores = torch.zeros(len(keys), device=device), torch.zeros(0)
    waits = as_tensor(held.is_held, torch.bool)[row]
    if bool(waits.any()):
        fitted_later = as_tensor(flat, torch.bool)
        goal = torch.where(pairs(waits.to(w.dtype)) > 0, BEFORE_HELD * tol, tol)
        w, _ = _newton(A, weights, pairs, sign, C * ~waits * ~fitted_later[label], w, max_steps, goal)
        kept = torch.where((w.abs() >= min_weight) | (keys % width == X.n_columns), w, 0.0)
        scores = A.times(kept)[waits] + BIAS_CENTER
    w, n_open = _newton(A, weights, pairs, sign, C, w, max_steps, torch.full((len(group),), tol, device=device))
    return w.cpu().numpy(), owner.cpu().numpy(), (keys % width).cpu().numpy(), scores.cpu().numpy(), n_open


class _Pairs:
    """A sparse matrix by rows and by columns: products with it and with its transpose are both sums along rows."""

    def __init__(self, row: Tensor, column: Tensor, value: Tensor, n_rows: int, n_columns: int) -> None:
        by_row = torch.argsort(row, stable=True)
        self.by_row = csr_of(torch.bincount(row, minlength=n_rows), column[by_row], value[by_row], n_columns)
        del by_row
        by_column = torch.argsort(column, stable=True)
        self.by_column = csr_of(torch.bincount(column, minlength=n_columns), row[by_column], value[by_column], n_rows)

    def times(self, w: Tensor) -> Tensor:
        return self.by_row @ w

    def transposed_times(self, s: Tensor) -> Tensor:
        return self.by_column @ s


class _Sums:
    """Sums over consecutive numbers that belong to the same label, as a product with a sparse matrix of ones."""

    def __init__(self, owner: Tensor, n_labels: int) -> None:
        self.owner = owner
        everyone = torch.arange(len(owner), device=owner.device)
        ones = torch.ones(len(owner), device=owner.device)
        self.matrix = csr_of(torch.bincount(owner, minlength=n_labels), everyone, ones, len(owner))

    def __call__(self, values: Tensor) -> Tensor:
        return self.matrix @ values


def _newton(
    A: _Pairs, weights: _Sums, pairs: _Sums, sign: Tensor, C: Tensor, w: Tensor, max_steps: int, tol: Tensor
) -> tuple[Tensor, int]:
    """``min ‖w‖²/2 + sum C max(0, 1 - y (A w + center))²`` for every label, and how many labels did not converge.

    ``weights`` and ``pairs`` sum over the columns and over the rows of ``A`` that belong to a label; rows with a ``C``
    of 0 take no part. It begins at ``w``, and ``tol`` is that of each label. A label that has converged stays where it
    is while others go on.
    """
    margin = sign * (A.times(w) + BIAS_CENTER)  # y (A w + center)
    goal, counts = tol[pairs.owner], C > 0
    for step_number in range(max_steps + 1):
        short = (1.0 - margin).clamp_min(0.0)
        gradient = w - 2.0 * A.transposed_times(C * sign * short)
        # The dual variables 2 C short have the weights w - gradient; these are the projected gradients of their rows.
        dual_gradient = margin + short - 1.0 - sign * A.times(gradient)
        violation = torch.where(short > 0, dual_gradient, dual_gradient.clamp_max(0.0)).abs()
        is_open = pairs(((violation > goal) & counts).to(w.dtype)) > 0
        n_open = int(is_open.sum())
        if n_open == 0 or step_number == max_steps:
            break
        step = _newton_direction(A, weights, (short > 0).to(w.dtype), gradient, C)
        moved = sign * A.times(step)
        length = torch.where(is_open, _line_search(weights, pairs, w, step, margin, moved, C), 0.0)
        w = w + length[weights.owner] * step
        margin = margin + length[pairs.owner] * moved
    return w, n_open


def _newton_direction(A: _Pairs, weights: _Sums, active: Tensor, gradient: Tensor, C: Tensor) -> Tensor:
    """Conjugate gradients on ``(I + 2 A_activeᵀ C A_active) step = -gradient``, not to the end."""
    step = torch.zeros_like(gradient)
    residual = -gradient
    direction = residual
    energy = weights(residual**2)
    goal = INEXACT**2 * energy
    for _ in range(CG_STEPS):
        image = direction + 2.0 * A.transposed_times(C * active * A.times(direction))
        curvature = weights(direction * image)
        # A label that has reached its goal waits, so that its step does not depend on the labels beside it.
        length = torch.where((curvature > 0) & (energy > goal), energy / curvature, 0.0)[weights.owner]
        step = step + length * direction
        residual = residual - length * image
        fresh = weights(residual**2)
        if bool((fresh <= goal).all()):
            break
        direction = residual + torch.where(energy > 0, fresh / energy, 0.0)[weights.owner] * direction
        energy = fresh
    return step


def _line_search(
    weights: _Sums, pairs: _Sums, w: Tensor, step: Tensor, margin: Tensor, moved: Tensor, C: Tensor
) -> Tensor:
    """Length of the step of every label: Newton's method on the loss along it, which is piecewise quadratic."""
    slope_w, square = weights(w * step), weights(step**2)
    length = torch.ones_like(square)
    low, high = torch.zeros_like(square), torch.full_like(square, 4.0)
    for _ in range(LINE_STEPS):
        short = (1.0 - margin - length[pairs.owner] * moved).clamp_min(0.0)
        slope = slope_w + length * square - 2.0 * pairs(C * short * moved)
        curvature = square + 2.0 * pairs(C * (short > 0) * moved**2)
        low, high = torch.where(slope < 0, length, low), torch.where(slope < 0, high, length)
        guess = length - torch.where(curvature > 0, slope / curvature, 0.0)
        length = torch.where((guess > low) & (guess < high), guess, 0.5 * (low + high))
    return length
