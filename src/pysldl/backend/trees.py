"""Sums of decision trees."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pysldl.backend.dispatch import primitive

__all__ = ["NO_TREES", "Trees", "sum_of_trees", "walk_trees"]

NODES_AT_ONCE = 1 << 20


class Trees(NamedTuple):
    """Binary decision trees as arrays; a leaf is its own child, so that a walk may go on after its end.

    Attributes
    ----------
    roots : ndarray of shape (n_trees,), int32
        First node of every tree.
    feature : ndarray of shape (n_nodes,), int32
        The feature that a node asks for; 0 in a leaf.
    threshold : ndarray of shape (n_nodes,), float64
        A row goes left where its feature is at most this.
    left, right : ndarray of shape (n_nodes,), int32
        The children.
    value : ndarray of shape (n_nodes,), float64
        What a row that ends in the node adds to its sum.
    depth : int
        Steps from a root to the deepest leaf.
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
    """The sum of the leaves that each row ends in, added up in the order of the trees.

    Parameters
    ----------
    X : ndarray of shape (n_rows, n_candidates, n_features), float32
    trees : Trees
        At least one.

    Returns
    -------
    ndarray of shape (n_rows, n_candidates), float64
    """
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
