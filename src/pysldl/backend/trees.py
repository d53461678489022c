"""Decision trees: sums of them, one grown on binned features, and many by gradient boosting for a yes or no."""

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pysldl.backend.dispatch import primitive
from pysldl.backend.threads import parallel_map

NODES_AT_ONCE = 1 << 20

TIE = 2.0**-20  # by how much of its probability a candidate falls behind the one that was before it
MIN_HESSIAN = 1e-3  # of a child: with less, its value is the quotient of two numbers near zero

N_BINS = 64  # values of a feature that a tree tells apart
# Gradients are multiples of this: their sums are exact, and so the same on every processor and in any order.
FINEST = 2.0**-20


class Trees(NamedTuple):
    """Binary decision trees as arrays; a leaf is its own child, so that a walk may go on after its end.

    ``roots`` are the first nodes of the trees. A row goes left where its ``feature`` is at most the ``threshold``, and
    adds the ``value`` of the node it ends in to its sum. ``depth`` is the number of steps to the deepest leaf.
    """

    roots: NDArray[np.int32]
    feature: NDArray[np.int32]
    threshold: NDArray[np.float64]
    left: NDArray[np.int32]
    right: NDArray[np.int32]
    value: NDArray[np.float64]
    depth: int


NO_TREES = Trees(
    np.empty(0, np.int32),
    np.empty(0, np.int32),
    np.empty(0),
    np.empty(0, np.int32),
    np.empty(0, np.int32),
    np.empty(0),
    depth=0,
)


@primitive(numba=True, single_row="single_query", few_rows=True)
def sum_of_trees(X: NDArray[np.float32], trees: Trees) -> NDArray[np.float64]:
    """The sum of the leaves that each candidate of each row ends in, added up in the order of the trees."""
    return walk_trees(X, trees)


def walk_trees(X: NDArray[np.float32], trees: Trees) -> NDArray[np.float64]:
    """:func:`sum_of_trees` by NumPy, all candidates a step at a time."""
    flat = X.reshape(-1, X.shape[-1])
    total = np.zeros(len(flat))
    size = max(1, NODES_AT_ONCE // len(trees.roots))
    for start in range(0, len(flat), size):
        rows = flat[start : start + size]
        nodes = np.tile(trees.roots, (len(rows), 1))
        for _ in range(trees.depth):
            asked = np.take_along_axis(rows, trees.feature[nodes], axis=1)
            nodes = np.where(asked <= trees.threshold[nodes], trees.left[nodes], trees.right[nodes])
        for leaves in nodes.T:
            total[start : start + size] += trees.value[leaves]
    return total.reshape(X.shape[:-1])


class GrownTree(NamedTuple):
    """A tree as arrays over its nodes, the root first; a leaf is its own child.

    A row goes left where its bin of the ``feature`` is at most the ``cut``. ``value`` is the Newton step of a node's
    rows, ``depth`` the number of steps to the deepest leaf, and ``leaf`` where each row ends.
    """

    feature: NDArray[np.int32]
    cut: NDArray[np.int32]
    left: NDArray[np.int32]
    right: NDArray[np.int32]
    value: NDArray[np.float64]
    depth: int
    leaf: NDArray[np.int32]


@primitive(numba=True)
def grow_tree(
    bins: NDArray[np.uint8],
    gradients: NDArray[np.float64],
    hessians: NDArray[np.float64],
    *,
    max_leaves: int,
    min_rows: int,
) -> GrownTree:
    """Split the leaf that gains most, again and again, as long as there are not too many leaves.

    Gradients and hessians are multiples of one power of two, so coarse that all sums are exact: the same in any order.
    ``min_rows`` are the fewest rows of a leaf.
    """
    n_features, n_bins = bins.shape[1], int(bins.max(initial=0)) + 1
    cells = bins + np.arange(n_features) * n_bins
    grower = _Grower(cells, gradients, hessians, min_rows, n_bins)
    grower.add(np.arange(len(bins)), grower.histogram(np.arange(len(bins))), depth=0)
    while len(grower.left) < 2 * max_leaves - 1 and max(grower.gain) > 0:
        grower.split(int(np.argmax(grower.gain)))
    leaf = np.empty(len(bins), dtype=np.int32)
    for node, rows in enumerate(grower.rows):
        if grower.left[node] == node:
            leaf[rows] = node
    columns = (grower.feature, grower.cut, grower.left, grower.right)
    feature, cut, left, right = (np.array(column, dtype=np.int32) for column in columns)
    return GrownTree(feature, cut, left, right, np.array(grower.value), max(grower.depth), leaf)


class _Grower:
    """The nodes so far: for each its rows, its histogram of shape (3, n_features, n_bins), and its best split."""

    def __init__(
        self,
        cells: NDArray[np.intp],
        gradients: NDArray[np.float64],
        hessians: NDArray[np.float64],
        min_rows: int,
        n_bins: int,
    ) -> None:
        self.cells, self.gradients, self.hessians = cells, gradients, hessians
        self.min_rows, self.n_bins = min_rows, n_bins
        self.rows: list[NDArray[np.intp]] = []
        self.histograms: list[NDArray[np.float64]] = []
        self.gain: list[float] = []
        self.best: list[tuple[int, int]] = []
        self.feature: list[int] = []
        self.cut: list[int] = []
        self.left: list[int] = []
        self.right: list[int] = []
        self.value: list[float] = []
        self.depth: list[int] = []

    def histogram(self, rows: NDArray[np.intp]) -> NDArray[np.float64]:
        """Number, gradients and hessians of rows, by feature and bin."""
        cells = self.cells[rows]
        size, width = cells.shape[1] * self.n_bins, cells.shape[1]
        sums = [np.bincount(cells.ravel(), np.repeat(of[rows], width), size) for of in (self.gradients, self.hessians)]
        return np.stack([np.bincount(cells.ravel(), minlength=size), *sums]).reshape(3, width, self.n_bins)

    def add(self, rows: NDArray[np.intp], histogram: NDArray[np.float64], depth: int) -> int:
        """A new leaf; returns its number."""
        node = len(self.left)
        _, gradient, hessian = histogram[:, 0].sum(axis=1)
        gain, best = self._best_split(histogram)
        self.rows.append(rows)
        self.histograms.append(histogram)
        self.gain.append(gain)
        self.best.append(best)
        self.feature.append(0)
        self.cut.append(0)
        self.left.append(node)
        self.right.append(node)
        self.value.append(float(-gradient / hessian) if hessian > 0 else 0.0)
        self.depth.append(depth)
        return node

    def split(self, node: int) -> None:
        """Make two leaves of one: the histogram of the larger is what the smaller one leaves."""
        feature, cut = self.best[node]
        rows, whole = self.rows[node], self.histograms[node]
        goes_left = self.cells[rows, feature] - feature * self.n_bins <= cut
        first, second = rows[goes_left], rows[~goes_left]
        if len(first) <= len(second):
            of_first = self.histogram(first)
            of_second = whole - of_first
        else:
            of_second = self.histogram(second)
            of_first = whole - of_second
        self.feature[node], self.cut[node], self.gain[node] = feature, cut, 0.0
        self.left[node] = self.add(first, of_first, self.depth[node] + 1)
        self.right[node] = self.add(second, of_second, self.depth[node] + 1)

    def _best_split(self, histogram: NDArray[np.float64]) -> tuple[float, tuple[int, int]]:
        """The largest gain, 0 for none, and the first feature and bin that have it."""
        left = np.cumsum(histogram, axis=2)
        right = left[:, :, -1:] - left
        enough = np.minimum(left[0], right[0]) >= self.min_rows
        enough &= np.minimum(left[2], right[2]) >= MIN_HESSIAN
        gains = np.zeros(enough.shape)
        of_left, of_right = left[:, enough], right[:, enough]
        whole = np.broadcast_to(left[:, :, -1:], left.shape)[:, enough]
        gains[enough] = (
            of_left[1] * of_left[1] / of_left[2]
            + of_right[1] * of_right[1] / of_right[2]
            - whole[1] * whole[1] / whole[2]
        )
        place = int(np.argmax(gains))
        return max(float(gains.ravel()[place]), 0.0), (place // self.n_bins, place % self.n_bins)


class Examples(NamedTuple):
    """Rows to learn from: features (n_rows, n_features), float32, who is true, and how much each row counts."""

    X: NDArray[np.float32]
    is_true: NDArray[np.bool_]
    weights: NDArray[np.float64]


@primitive(triton=True)
def boosted_forests(
    sets: Sequence[Examples], *, n_trees: int, max_leaves: int, learning_rate: float, min_rows: int
) -> list[tuple[Trees, float]]:
    """:func:`boosted_trees` of several sets of rows, side by side."""
    train = partial(
        boosted_trees, n_trees=n_trees, max_leaves=max_leaves, learning_rate=learning_rate, min_rows=min_rows
    )
    return parallel_map(lambda rows: train(*rows), sets)


def boosted_trees(
    X: NDArray[np.float32],
    is_true: NDArray[np.bool_],
    weights: NDArray[np.float64],
    *,
    n_trees: int,
    max_leaves: int,
    learning_rate: float,
    min_rows: int,
) -> tuple[Trees, float]:
    """Trees whose sum, with the number it begins with, is the logit of the probability that a row is true.

    There is no tree where all rows are true, or none is.
    """
    if len(np.unique(is_true)) < 2:
        return NO_TREES, 0.0
    edges = [_quantiles(column) for column in X.T]
    bins = np.column_stack([np.searchsorted(bounds, column) for bounds, column in zip(edges, X.T, strict=True)])
    bins = bins.astype(np.uint8)
    baseline = log_odds(is_true, weights)
    total = np.full(len(X), baseline)
    grown = []
    for _ in range(n_trees):
        probability = 1.0 / (1.0 + np.exp(-total))
        gradients = _coarse(weights * (probability - is_true))
        hessians = _coarse(weights * probability * (1.0 - probability))
        tree = grow_tree(bins, gradients, hessians, max_leaves=max_leaves, min_rows=min_rows)
        tree = tree._replace(value=learning_rate * tree.value)
        total += tree.value[tree.leaf]
        grown.append(tree)
    return joined_trees(grown, edges), baseline


def log_odds(is_true: NDArray[np.bool_], weights: NDArray[np.float64]) -> float:
    """What the sum of the trees begins with."""
    # Added up one by one: NumPy's own order of a sum depends on the processor.
    of_all, of_true = (float(np.cumsum(part)[-1]) for part in (weights, weights * is_true))
    return float(np.log(of_true / (of_all - of_true)))


def joined_trees(grown: Sequence[GrownTree], edges: Sequence[NDArray[np.float32]]) -> Trees:
    """Trees one after the other, with thresholds in place of bins; ``edges`` are the upper ends of a feature's bins."""
    starts = np.concatenate([[0], np.cumsum([len(tree.value) for tree in grown])])
    feature, value = (np.concatenate([getattr(tree, name) for tree in grown]) for name in ("feature", "value"))
    left, right = (
        np.concatenate([start + getattr(tree, name) for start, tree in zip(starts, grown, strict=False)])
        for name in ("left", "right")
    )
    cut = np.concatenate([tree.cut for tree in grown])
    threshold = np.full(len(value), np.inf)
    splits = np.flatnonzero(left != np.arange(len(left)))
    threshold[splits] = [edges[feature[node]][cut[node]] for node in splits]
    left, right, roots = (places.astype(np.int32) for places in (left, right, starts[:-1]))
    return Trees(roots, feature, threshold, left, right, value, max(tree.depth for tree in grown))


def _coarse(values: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.rint(values / FINEST) * FINEST


def _quantiles(values: NDArray[np.float32]) -> NDArray[np.float32]:
    """Values that part the others into about equally many; each is one of them, so that no rounding decides."""
    ordered = np.sort(values)
    return np.unique(ordered[np.linspace(0, len(ordered) - 1, N_BINS, dtype=np.intp)[1:-1]])
