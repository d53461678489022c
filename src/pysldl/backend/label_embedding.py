"""The loops of the label embeddings: a step of the walk, the hinge over ranked labels, and Adam on some labels."""

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from pysldl.backend.dispatch import primitive
from pysldl.backend.topk import top_k_or_zero

PRODUCTS_AT_ONCE = 1 << 22

BETA1, BETA2, EPSILON = 0.9, 0.999, 1e-8


@primitive(numba=True)
def walk_step(
    P: sparse.csr_array, labels: NDArray[np.int32], values: NDArray[np.float32], discount: float
) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """The strongest entries of each row of ``P + discount * P @ T``, strongest first, ties to the lower label.

    The cost is that of the stored entries of P times the entries kept, whatever the number of labels.

    ``P``, of shape (n_labels, n_labels), has rows of sum 1 and sorted indices; ``labels`` and ``values``, of shape
    (n_labels, n_kept), are the entries of ``T`` before and, as returned, after the step: -1 and 0 for none.
    """
    n_labels, n_kept = labels.shape
    kept = labels >= 0
    indptr = np.concatenate([[0], np.cumsum(kept.sum(axis=1))])
    T = sparse.csr_array((values[kept].astype(np.float64), labels[kept], indptr), shape=(n_labels, n_labels))
    found, strengths = np.empty_like(labels), np.empty_like(values)
    products = np.cumsum(np.diff(P.indptr)) * (n_kept + 1)
    start = 0
    while start < n_labels:
        before = products[start - 1] if start else 0
        stop = max(start + 1, int(np.searchsorted(products, before + PRODUCTS_AT_ONCE, side="right")))
        step = P[start:stop].astype(np.float64)
        walked = (step + discount * (step @ T)).astype(np.float32)
        found[start:stop], strengths[start:stop] = top_k_or_zero(walked, n_kept)
        start = stop
    return found, strengths


@primitive(numba=True, torch="tensors")
def ranking_hinge(
    D: NDArray[np.float64],
    ranking: NDArray[np.int32],
    margin: float,
    sign: int = 1,
    *,
    offset: NDArray[np.float64] | None = None,
    out: NDArray[np.float64] | None = None,
) -> tuple[float, NDArray[np.float64]]:
    """``sum_j [sign (D(i, j) - D(i, j+1)) + margin]₊`` along the ranking of every row, and its derivative by ``D``.

    ``ranking`` are columns of ``D``, each at most once, in the order in which they should come; a ``sign`` of -1 asks
    for the opposite order. ``offset`` is added to every row of ``D`` on the fly. The derivative, of 1, 0 and -1, is
    written to ``out``, whose columns that a row does not rank must be 0.
    """
    G = np.zeros(D.shape) if out is None else out
    ranked = np.take_along_axis(D if offset is None else D + offset, ranking, axis=1)
    violation = sign * (ranked[:, :-1] - ranked[:, 1:]) + margin
    np.maximum(violation, 0.0, out=violation)
    active = np.zeros((ranking.shape[0], ranking.shape[1] + 1))
    np.greater(violation, 0.0, out=active[:, 1:-1], casting="unsafe")
    np.put_along_axis(G, ranking, sign * (active[:, 1:] - active[:, :-1]), axis=1)
    return float(violation.sum()), G


def consecutive_violations(
    ranked: NDArray[np.floating], margin: float, there: NDArray[np.bool_]
) -> tuple[float, NDArray[np.int8]]:
    """The hinge of short lists, and its derivative by their divergences: 1, 0 or -1, as int8.

    ``ranked``, of shape (n_anchors, n_ranked), holds the divergences of each anchor to its labels, most related first;
    ``there``, of the same shape, is False behind the end of a shorter list.
    """
    violation = ranked[:, :-1] - ranked[:, 1:]
    violation += ranked.dtype.type(margin)
    np.maximum(violation, 0, out=violation)
    violation *= there[:, 1:]
    active = np.zeros((ranked.shape[0], ranked.shape[1] + 1), dtype=np.int8)
    np.greater(violation, 0, out=active[:, 1:-1], casting="unsafe")
    return float(violation.sum(dtype=np.float64)), active[:, 1:] - active[:, :-1]


@primitive(numba=True)
def adam_update_rows(
    parameters: NDArray[np.floating],
    first: NDArray[np.floating],
    second: NDArray[np.floating],
    rows: NDArray[np.integer],
    gradient: NDArray[np.float64],
    rates: NDArray[np.float64],
    shrink: float = 1.0,
) -> None:
    """Move ``rows`` of ``parameters``, each listed at most once, against their gradient, in place, and no other row.

    ``first`` and ``second`` are the running means of the gradient and of its square; ``rates`` the learning rates of
    the rows, with Adam's correction for the steps that each has made; ``shrink`` a factor on the parameters before the
    step (decoupled weight decay). Both forms take the same steps in the same order, so that they agree bit for bit.
    """
    first[rows] += (1 - BETA1) * (gradient - first[rows])
    second[rows] += (1 - BETA2) * (gradient * gradient - second[rows])
    m, v = first[rows].astype(np.float64), second[rows].astype(np.float64)
    parameters[rows] = shrink * parameters[rows].astype(np.float64) - rates[:, None] * m / (np.sqrt(v) + EPSILON)
