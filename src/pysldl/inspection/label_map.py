"""A map of the labels: related ones lie close together, and arrows show the strongest relations."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pysldl.inspection.relations import RelationFinder

ARROWS_PER_LABEL = 3
MOST_LABELS = 50_000  # a page can draw, and people can tell apart
STEPS = 200
N_REPELLING = 6


@dataclass(frozen=True)
class LabelMap:
    """Positions of labels in the unit square, and the arrows between them.

    ``columns`` are the labels that are shown: all, or the most frequent if there are very many. ``places`` has the
    shape (n_shown, 2). Arrows lead from ``source`` to ``target``, both positions in ``columns``; ``strength``, in (0,
    1], is a lower bound of the share of the source's rows that carry the target.
    """

    columns: NDArray[np.int64]
    places: NDArray[np.float32]
    source: NDArray[np.int64]
    target: NDArray[np.int64]
    strength: NDArray[np.float64]


def make_map(finder: RelationFinder, vectors: NDArray[np.floating] | None = None) -> LabelMap:
    """Place each label near those that it is most strongly related to.

    The layout starts from ``vectors`` (n_labels, n_components), the codes of the labels, if they are given.
    """
    columns = np.arange(len(finder.counts))
    if len(columns) > MOST_LABELS:
        columns = np.sort(np.argsort(-finder.counts, kind="stable")[:MOST_LABELS])
    arrows = finder.strongest(ARROWS_PER_LABEL, columns=columns if len(columns) < len(finder.counts) else None)
    source, target = np.searchsorted(columns, arrows.source), np.searchsorted(columns, arrows.target)
    places = layout(len(columns), source, target, None if vectors is None else vectors[columns])
    return LabelMap(columns, places, source, target, arrows.share_low)


def layout(
    n: int,
    source: NDArray[np.integer],
    target: NDArray[np.integer],
    vectors: NDArray[np.floating] | None = None,
) -> NDArray[np.float32]:
    """Place ``n`` points in the unit square by a force-directed layout; returns float32 of shape (n, 2).

    The pairs (``source``, ``target``) attract each other, and every point is repelled by a few random others, so a step
    takes time in proportion to points and pairs. The layout starts from the first two principal components of
    ``vectors``, if given. The same input gives the same map.
    """
    rng = np.random.default_rng(0)
    places = (_start(n, vectors, rng) * np.sqrt(n)).astype(np.float32)
    degree = np.maximum(np.bincount(source, minlength=n) + np.bincount(target, minlength=n), 1)[:, None]
    for step in range(STEPS):
        pull = places[target] - places[source]
        force = (_sum_by(source, pull, n) - _sum_by(target, pull, n)) / degree
        force = (0.3 * force + 0.6 * _repulsion(places, rng)).astype(np.float32) - np.float32(0.004) * places
        length = np.linalg.norm(force, axis=1, keepdims=True)
        places += np.float32(1.0 - step / STEPS) * force * np.minimum(1.0, 0.5 / np.maximum(length, 1e-9))
    return _in_unit_square(places)


def _start(n: int, vectors: NDArray[np.floating] | None, rng: np.random.Generator) -> NDArray[np.float64]:
    noise = rng.normal(size=(n, 2))
    if vectors is None or min(vectors.shape) < 2:
        return 0.3 * noise
    centered = np.asarray(vectors, dtype=np.float64) - np.mean(vectors, axis=0)
    _, axes = np.linalg.eigh(centered.T @ centered)
    start: NDArray[np.float64] = centered @ axes[:, [-1, -2]]
    # The solver leaves the sign of an axis open; the largest entry decides it, so that maps can be compared.
    start *= np.sign(start[np.abs(start).argmax(axis=0), [0, 1]])
    return np.asarray(0.3 * start / np.maximum(start.std(axis=0), 1e-12) + 0.01 * noise)


def _repulsion(places: NDArray[np.float32], rng: np.random.Generator) -> NDArray[np.float32]:
    """Return the force of a few random other points on each point, smaller from far away, of shape (n, 2)."""
    others = rng.integers(len(places), size=(len(places), N_REPELLING), dtype=np.int32)
    x, y = places[:, 0], places[:, 1]
    to_x, to_y = x[:, None] - x[others], y[:, None] - y[others]
    near = 1.0 / (np.float32(0.05) + to_x**2 + to_y**2)
    return np.stack([(to_x * near).sum(axis=1), (to_y * near).sum(axis=1)], axis=1)


def _sum_by(group: NDArray[np.integer], values: NDArray[Any], n: int) -> NDArray[np.float64]:
    return np.stack([np.bincount(group, weights=values[:, axis], minlength=n) for axis in (0, 1)], axis=1)


def _in_unit_square(places: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the places in a disc: most keep their distances, and outliers are moved toward the center."""
    centered = places - np.median(places, axis=0)
    distance = np.linalg.norm(centered, axis=1, keepdims=True)
    relative = distance / max(float(np.percentile(distance, 90)), 1e-9)
    radius = 0.5 * relative / (1.0 + relative**4) ** 0.25
    return np.asarray(0.5 + centered / np.maximum(distance, 1e-9) * radius, dtype=np.float32)
