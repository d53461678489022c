"""One decision tree, grown on binned features by the gradients of a loss."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pysldl.backend.dispatch import primitive

__all__ = ["MIN_HESSIAN", "GrownTree", "grow_tree"]

MIN_HESSIAN = 1e-3  # of a child: with less, its value is the quotient of two numbers near zero


class GrownTree(NamedTuple):
    """A tree as arrays over its nodes, the root first; a leaf is its own child.

    Attributes
    ----------
    feature, cut : ndarrays of shape (n_nodes,), int32
        A row goes left where its bin of the feature is at most the cut; both are 0 in a leaf.
    left, right : ndarrays of shape (n_nodes,), int32
    value : ndarray of shape (n_nodes,), float64
        The Newton step of the node's rows.
    depth : int
        Steps from the root to the deepest leaf.
    leaf : ndarray of shape (n_rows,), int32
        Where each row ends.
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

    Parameters
    ----------
    bins : ndarray of shape (n_rows, n_features), uint8
    gradients, hessians : ndarrays of shape (n_rows,), float64
        Multiples of one power of two, so coarse that all sums are exact: then they are the same in any order.
    max_leaves : int
    min_rows : int
        Fewest rows of a leaf.
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
