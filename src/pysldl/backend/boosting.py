"""Gradient boosting of decision trees for a yes or no."""

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pysldl.backend.dispatch import primitive
from pysldl.backend.threads import parallel_map
from pysldl.backend.tree_growth import GrownTree, grow_tree
from pysldl.backend.trees import NO_TREES, Trees

__all__ = ["Examples", "boosted_forests", "boosted_trees", "joined_trees"]

N_BINS = 64  # values of a feature that a tree tells apart
# Gradients are multiples of this: their sums are exact, and so the same on every processor and in any order.
FINEST = 2.0**-20


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
    """Trees whose sum, with what it begins with, is the logit of the probability that a row is true.

    Parameters
    ----------
    X : ndarray of shape (n_rows, n_features), float32
    is_true : ndarray of shape (n_rows,), bool
    weights : ndarray of shape (n_rows,)
        How much each row counts.
    n_trees, max_leaves, learning_rate
        Number of trees, most leaves of each, and factor of each.
    min_rows : int
        Fewest rows of a leaf.

    Returns
    -------
    trees : Trees
        None where all rows are true, or all are not.
    baseline : float
        What the sum begins with.
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
