"""Boosted trees on a GPU, several forests side by side.

A leaf is split by two kernels: one moves its rows to the two new leaves and counts those of the smaller one, the other
finds the best split of both and the leaf that comes next. Sums are exact, see ``FINEST``, and so the same in any order.
"""

from collections.abc import Sequence

import numpy as np
import torch
import triton
import triton.language as tl
from numpy.typing import NDArray
from torch import Tensor

from pysldl.backend.torch.arrays import as_tensor
from pysldl.backend.trees import (
    FINEST,
    MIN_HESSIAN,
    N_BINS,
    NO_TREES,
    Examples,
    GrownTree,
    Trees,
    joined_trees,
    log_odds,
)

ROWS = 256
# What is to be done next in a forest: the leaf to split, its feature and cut, the first of the new leaves, the smaller
# of them, and how many nodes there are.
START = (-1, 0, 0, 0, 0, 1)


def boosted_forests(
    sets: Sequence[Examples], *, n_trees: int, max_leaves: int, learning_rate: float, min_rows: int
) -> list[tuple[Trees, float]]:
    usable = [rows for rows in sets if len(np.unique(rows.is_true)) > 1]
    if not usable:
        return [(NO_TREES, 0.0) for _ in sets]
    edges, bins = zip(*(_binned(as_tensor(rows.X)) for rows in usable), strict=True)
    forests = _Forests(usable, torch.cat(bins), max_leaves, min_rows)
    for _ in range(n_trees):
        forests.add_tree(learning_rate)
    grown = iter(forests.grown(learning_rate))
    baselines, bounds = iter(forests.baselines), iter(edges)
    return [
        (joined_trees(next(grown), next(bounds)), next(baselines)) if len(np.unique(rows.is_true)) > 1
        else (NO_TREES, 0.0)
        for rows in sets
    ]  # fmt: skip


def _binned(X: Tensor) -> tuple[list[NDArray[np.float32]], Tensor]:
    """Upper ends of every feature's bins, and the bin of every value, (n_rows, n_features)."""
    columns = X.T.contiguous()
    ordered = torch.sort(columns, dim=1).values
    places = np.linspace(0, len(X) - 1, N_BINS, dtype=np.intp)[1:-1]
    bounds = ordered[:, as_tensor(places)].contiguous()
    is_new = torch.ones_like(bounds, dtype=torch.bool)
    is_new[:, 1:] = bounds[:, 1:] != bounds[:, :-1]
    n_below = torch.nn.functional.pad(torch.cumsum(is_new, dim=1), (1, 0))
    bins = torch.gather(n_below, 1, torch.searchsorted(bounds, columns))
    ends, kept = bounds.cpu().numpy(), is_new.cpu().numpy()
    return [row[here] for row, here in zip(ends, kept, strict=True)], bins.T.to(torch.uint8).contiguous()


class _Forests:
    """The rows of all forests one after the other, and the nodes of the tree that each is growing."""

    def __init__(self, sets: Sequence[Examples], bins: Tensor, max_leaves: int, min_rows: int) -> None:
        device, self.min_rows, self.max_leaves = bins.device, min_rows, max_leaves
        sizes = [len(rows.X) for rows in sets]
        self.bins, self.n_features, self.longest = bins, bins.shape[1], max(sizes)
        self.starts = as_tensor(np.concatenate([[0], np.cumsum(sizes)]), torch.int64)
        self.forest = torch.repeat_interleave(torch.arange(len(sets), device=device), torch.diff(self.starts))
        self.is_true = as_tensor(np.concatenate([rows.is_true for rows in sets]), torch.float64)
        self.weights = as_tensor(np.concatenate([rows.weights for rows in sets]), torch.float64)
        self.baselines = [log_odds(rows.is_true, rows.weights) for rows in sets]
        self.total = as_tensor(np.array(self.baselines))[self.forest]
        self.most = triton.next_power_of_2(2 * max_leaves)
        self.node = torch.zeros(len(bins), dtype=torch.int32, device=device)
        shape = (len(sets), self.most, 3, self.n_features, N_BINS)
        self.histograms = torch.zeros(shape, dtype=torch.float64, device=device)
        self.begin = as_tensor(np.tile(np.array(START, dtype=np.int32), (len(sets), 1)))
        self.trees: list[tuple[Tensor, Tensor, Tensor]] = []

    def add_tree(self, learning_rate: float) -> None:
        """Grow the next tree of every forest."""
        probability = torch.sigmoid(self.total)
        gradients = _coarse(self.weights * (probability - self.is_true))
        hessians = _coarse(self.weights * probability * (1.0 - probability))
        n_forests, device = len(self.begin), self.bins.device
        self.node.zero_()
        self.histograms.zero_()
        todo = self.begin.clone()
        # Of every node: feature, cut, first child, depth, and of its best split: feature, cut, rows to the left, rows.
        nodes = torch.zeros((n_forests, self.most, 8), dtype=torch.int32, device=device)
        numbers = torch.zeros((n_forests, self.most, 2), dtype=torch.float64, device=device)  # gain and value
        for _ in range(self.max_leaves):
            _move_and_count[(triton.cdiv(self.longest, ROWS), n_forests)](
                self.bins, self.starts, self.node, gradients, hessians, todo, self.histograms, self.most,
                self.n_features, N_BINS, ROWS, num_warps=4,
            )  # fmt: skip
            _split[(n_forests,)](
                todo, nodes, numbers, self.histograms, self.most, self.n_features, self.min_rows, MIN_HESSIAN,
                2 * self.max_leaves - 1, triton.next_power_of_2(self.n_features), N_BINS, self.most, num_warps=8,
                enable_fp_fusion=False,
            )  # fmt: skip
        self.total += learning_rate * numbers[self.forest, self.node, 1]
        self.trees.append((nodes, numbers, todo[:, 5]))

    def grown(self, learning_rate: float) -> list[list[GrownTree]]:
        """The trees of every forest."""
        nodes, numbers, counts = (torch.stack(parts, dim=1).cpu().numpy() for parts in zip(*self.trees, strict=True))
        return [
            [_as_tree(nodes[f, t, :n], learning_rate * numbers[f, t, :n, 1]) for t, n in enumerate(counts[f])]
            for f in range(len(counts))
        ]


def _as_tree(nodes: NDArray[np.int32], value: NDArray[np.float64]) -> GrownTree:
    feature, cut, first, depth = nodes.T[:4]
    own = np.arange(len(nodes), dtype=np.int32)
    left, right = np.where(first > 0, first, own), np.where(first > 0, first + 1, own)
    leaf = np.empty(0, dtype=np.int32)
    return GrownTree(feature, cut, left.astype(np.int32), right.astype(np.int32), value, int(depth.max()), leaf)


def _coarse(values: Tensor) -> Tensor:
    return torch.round(values / FINEST) * FINEST


@triton.jit
def _move_and_count(
    bins, starts, node, gradients, hessians, todo, histograms, most,
    n_features, N_BINS: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    forest = tl.program_id(1)
    todo += 6 * forest
    smaller = tl.load(todo + 4)
    row = tl.load(starts + forest) + tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    inside = row < tl.load(starts + forest + 1)
    if smaller >= 0:
        at = tl.load(node + row, mask=inside, other=-1)
        moved = inside & (at == tl.load(todo))
        own = tl.load(bins + row * n_features + tl.load(todo + 1), mask=moved, other=0).to(tl.int32)
        at = tl.where(moved, tl.load(todo + 3) + (own > tl.load(todo + 2)).to(tl.int32), at)
        tl.store(node + row, at, mask=moved)
        counted = inside & (at == smaller)
        gradient = tl.load(gradients + row, mask=counted, other=0.0)
        hessian = tl.load(hessians + row, mask=counted, other=0.0)
        size = n_features * N_BINS
        histograms += (forest * most + smaller) * 3 * size
        for column in range(0, n_features):
            place = histograms + column * N_BINS
            place += tl.load(bins + row * n_features + column, mask=counted, other=0).to(tl.int32)
            tl.atomic_add(place, tl.full((ROWS,), 1.0, tl.float64), mask=counted)
            tl.atomic_add(place + size, gradient, mask=counted)
            tl.atomic_add(place + 2 * size, hessian, mask=counted)


@triton.jit
def _split(
    todo, nodes, numbers, histograms, most, n_features, min_rows, min_hessian,
    most_nodes, FEATURES: tl.constexpr, N_BINS: tl.constexpr, NODES: tl.constexpr,
):  # fmt: skip
    forest = tl.program_id(0)
    todo += 6 * forest
    nodes += forest * most * 8
    numbers += forest * most * 2
    histograms += forest * most * 3 * n_features * N_BINS
    smaller = tl.load(todo + 4)
    if smaller >= 0:
        leaf = tl.load(todo)
        n_nodes = tl.load(todo + 5)
        column = tl.arange(0, FEATURES)[:, None]
        cell = column * N_BINS + tl.arange(0, N_BINS)[None, :]
        size = n_features * N_BINS
        there = (column < n_features) & (cell >= 0)
        mine = histograms + smaller * 3 * size + cell
        count = tl.load(mine, mask=there, other=0.0)
        gradient = tl.load(mine + size, mask=there, other=0.0)
        hessian = tl.load(mine + 2 * size, mask=there, other=0.0)
        _note_split(nodes, numbers, smaller, count, gradient, hessian, there, cell, min_rows, min_hessian, N_BINS)
        if leaf >= 0:
            other = 2 * tl.load(todo + 3) + 1 - smaller
            whole = histograms + leaf * 3 * size + cell
            count = tl.load(whole, mask=there, other=0.0) - count
            gradient = tl.load(whole + size, mask=there, other=0.0) - gradient
            hessian = tl.load(whole + 2 * size, mask=there, other=0.0) - hessian
            left_over = histograms + other * 3 * size + cell
            tl.store(left_over, count, mask=there)
            tl.store(left_over + size, gradient, mask=there)
            tl.store(left_over + 2 * size, hessian, mask=there)
            _note_split(nodes, numbers, other, count, gradient, hessian, there, cell, min_rows, min_hessian, N_BINS)
        tl.debug_barrier()
        place = tl.arange(0, NODES)
        gains = tl.load(numbers + 2 * place, mask=place < n_nodes, other=0.0)
        best = tl.max(gains)
        chosen = tl.min(tl.where((gains == best) & (place < n_nodes), place, NODES))
        tl.debug_barrier()
        if (best > 0.0) & (n_nodes + 2 <= most_nodes):
            own = nodes + 8 * chosen
            feature = tl.load(own + 4)
            cut = tl.load(own + 5)
            n_left = tl.load(own + 6)
            depth = tl.load(own + 3) + 1
            tl.store(own, feature)
            tl.store(own + 1, cut)
            tl.store(own + 2, n_nodes)
            tl.store(nodes + 8 * n_nodes + 3, depth)
            tl.store(nodes + 8 * n_nodes + 11, depth)
            tl.store(numbers + 2 * chosen, 0.0)
            tl.store(todo, chosen)
            tl.store(todo + 1, feature)
            tl.store(todo + 2, cut)
            tl.store(todo + 3, n_nodes)
            tl.store(todo + 4, tl.where(2 * n_left <= tl.load(own + 7), n_nodes, n_nodes + 1))
            tl.store(todo + 5, n_nodes + 2)
        else:
            tl.store(todo, -1)
            tl.store(todo + 4, -1)


@triton.jit
def _note_split(
    nodes, numbers, node, count, gradient, hessian, there, cell, min_rows, min_hessian, N_BINS: tl.constexpr
):
    """Write down the best split of a leaf, of equals the first, its gain, 0 for none, and the value of the leaf."""
    n_left = tl.cumsum(count, 1)
    left = tl.cumsum(gradient, 1)
    left_hessian = tl.cumsum(hessian, 1)
    first_feature = cell < N_BINS
    n_rows = tl.sum(tl.where(first_feature, count, 0.0))
    total = tl.sum(tl.where(first_feature, gradient, 0.0))
    total_hessian = tl.sum(tl.where(first_feature, hessian, 0.0))
    right = total - left
    right_hessian = total_hessian - left_hessian
    enough = there & (tl.minimum(n_left, n_rows - n_left) >= min_rows)
    enough = enough & (tl.minimum(left_hessian, right_hessian) >= min_hessian)
    gain = left * left / tl.where(enough, left_hessian, 1.0) + right * right / tl.where(enough, right_hessian, 1.0)
    gain = tl.where(enough, gain - total * total / tl.where(total_hessian > 0.0, total_hessian, 1.0), 0.0)
    best = tl.maximum(tl.max(gain), 0.0)
    split = tl.min(tl.where(enough & (gain == best), cell, 1 << 30))
    here = cell == split
    tl.store(numbers + 2 * node, best)
    tl.store(numbers + 2 * node + 1, tl.where(total_hessian > 0.0, -total / total_hessian, 0.0))
    tl.store(nodes + 8 * node + 4, split // N_BINS)
    tl.store(nodes + 8 * node + 5, split % N_BINS)
    tl.store(nodes + 8 * node + 6, tl.sum(tl.where(here, n_left, 0.0)).to(tl.int32))
    tl.store(nodes + 8 * node + 7, n_rows.to(tl.int32))
