"""Where the labels lie on the map, and the arrows between them."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pysldl.inspection.map_layout import lay_out
from pysldl.inspection.relations import RelationFinder

__all__ = ["LabelMap", "make_map"]

ARROWS_PER_LABEL = 3
# More than a page can draw, or an eye can tell apart, are not on the map; the search finds them all the same.
MOST_ON_MAP = 50_000


@dataclass(frozen=True)
class LabelMap:
    """Places of labels in the unit square, and the arrows between them.

    Attributes
    ----------
    columns : ndarray of shape (n_shown,)
        The labels: all, or the most frequent where there are very many.
    places : ndarray of shape (n_shown, 2), float32
    source, target : ndarrays of shape (n_arrows,)
        Positions in ``columns``.
    strength : ndarray of shape (n_arrows,)
        Lower bound of the share of the source's rows that carry the target, in (0, 1].
    """

    columns: NDArray[np.int64]
    places: NDArray[np.float32]
    source: NDArray[np.int64]
    target: NDArray[np.int64]
    strength: NDArray[np.float64]


def make_map(finder: RelationFinder, vectors: NDArray[Any] | None = None) -> LabelMap:
    """Place the labels, each near those it is most strongly related to.

    Parameters
    ----------
    finder : RelationFinder
    vectors : ndarray of shape (n_labels, n_components), optional
        Codes of the labels, which say where to begin.
    """
    columns = np.arange(len(finder.counts))
    if len(columns) > MOST_ON_MAP:
        columns = np.sort(np.argsort(-finder.counts, kind="stable")[:MOST_ON_MAP])
    arrows = finder.strongest(ARROWS_PER_LABEL, columns=columns if len(columns) < len(finder.counts) else None)
    source, target = np.searchsorted(columns, arrows.source), np.searchsorted(columns, arrows.target)
    places = lay_out(len(columns), source, target, None if vectors is None else vectors[columns])
    return LabelMap(columns, places, source, target, arrows.share_low)
