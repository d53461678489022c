"""Places on a map: what is related attracts, everything repels, and the axes of largest variance say where to begin."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["lay_out"]

STEPS = 200
STRANGERS = 6


def lay_out(
    n: int,
    source: NDArray[np.integer],
    target: NDArray[np.integer],
    vectors: NDArray[Any] | None = None,
) -> NDArray[np.float32]:
    """Places of ``n`` points in the unit square.

    Each step costs one pass over the pairs and a few random strangers a point, so that thousands take a second. The
    same input gives the same map.

    Parameters
    ----------
    n : int
    source, target : arrays of int of shape (n_pairs,)
        Pairs that belong together.
    vectors : ndarray of shape (n, n_components), optional
        Their first two principal axes are the start.

    Returns
    -------
    ndarray of shape (n, 2), float32
    """
    rng = np.random.default_rng(0)
    size = np.sqrt(n)
    places = (_begin(n, vectors, rng) * size).astype(np.float32)
    degree = np.maximum(np.bincount(source, minlength=n) + np.bincount(target, minlength=n), 1)[:, None]
    for step in range(STEPS):
        heat = 1.0 - step / STEPS
        pull = places[target] - places[source]
        force = (_sum_by(source, pull, n) - _sum_by(target, pull, n)) / degree
        force = (0.3 * force + 0.6 * _pushed(places, rng)).astype(np.float32) - np.float32(0.004) * places
        length = np.linalg.norm(force, axis=1, keepdims=True)
        places += np.float32(heat) * force * np.minimum(1.0, 0.5 / np.maximum(length, 1e-9))
    return _into_unit_square(places)


def _begin(n: int, vectors: NDArray[Any] | None, rng: np.random.Generator) -> NDArray[np.float64]:
    noise = rng.normal(size=(n, 2))
    if vectors is None or min(vectors.shape) < 2:
        return 0.3 * noise
    centered = np.asarray(vectors, dtype=np.float64) - np.mean(vectors, axis=0)
    _, axes = np.linalg.eigh(centered.T @ centered)
    start = centered @ axes[:, [-1, -2]]
    # The sign of an axis is an accident of the solver; the largest entry decides, so that maps can be compared.
    largest = np.abs(start).argmax(axis=0)
    start *= np.sign(start[largest, [0, 1]])
    return 0.3 * start / np.maximum(start.std(axis=0), 1e-12) + 0.01 * noise


def _pushed(places: NDArray[np.float32], rng: np.random.Generator) -> NDArray[np.float32]:
    """How a few random strangers push each point away, less from afar, (n, 2)."""
    strangers = rng.integers(len(places), size=(len(places), STRANGERS), dtype=np.int32)
    x, y = places[:, 0], places[:, 1]
    to_x, to_y = x[:, None] - x[strangers], y[:, None] - y[strangers]
    near = 1.0 / (np.float32(0.05) + to_x**2 + to_y**2)
    return np.stack([(to_x * near).sum(axis=1), (to_y * near).sum(axis=1)], axis=1)


def _sum_by(group: NDArray[np.integer], values: NDArray[Any], n: int) -> NDArray[np.float64]:
    return np.stack([np.bincount(group, weights=values[:, axis], minlength=n) for axis in (0, 1)], axis=1)


def _into_unit_square(places: NDArray[Any]) -> NDArray[np.float32]:
    """A disc in the unit square: most keep their distances, those that fled far are drawn in."""
    centered = places - np.median(places, axis=0)
    distance = np.linalg.norm(centered, axis=1, keepdims=True)
    relative = distance / max(float(np.percentile(distance, 90)), 1e-9)
    drawn_in = 0.5 * relative / (1.0 + relative**4) ** 0.25
    return np.asarray(0.5 + centered / np.maximum(distance, 1e-9) * drawn_in, dtype=np.float32)
