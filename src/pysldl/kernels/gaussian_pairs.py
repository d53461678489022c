"""Divergences of chosen pairs of diagonal Gaussians, and what they do to the rows of each pair.

Means and precisions (inverse variances) are (n_labels, n_components), the log-volumes (sums of the log-variances)
(n_labels,): what one label needs for all its pairs is computed once. The divergence of anchor i to label j is
KL(N_i ‖ N_j) (Eq. 8), or with ``symmetric`` the Jensen-Shannon divergence of
:func:`~pysldl.embedding.divergence.js_divergence`.
"""

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pysldl.kernels import compiled

__all__ = ["pair_divergences", "pull_anchors", "pull_labels"]

PLAIN_BLOCK = 1 << 21  # numbers of a temporary of the plain twins

Array = NDArray[np.floating]
Labels = NDArray[np.integer]


def pair_divergences(
    mu: Array, precision: Array, log_volume: Array, anchors: Labels, listed: Labels, *, symmetric: bool = False
) -> Array:
    """Divergences of each anchor to the labels listed for it.

    Parameters
    ----------
    mu, precision : ndarrays of shape (n_labels, n_components)
    log_volume : ndarray of shape (n_labels,)
    anchors : ndarray of shape (n_anchors,)
    listed : ndarray of shape (n_anchors, n_listed)
        Labels; -1 for none.

    Returns
    -------
    ndarray of shape (n_anchors, n_listed)
        0 beside a label of -1.
    """
    if compiled():
        return _compiled_pairs()[0](mu, precision, log_volume, anchors, listed, symmetric)
    found = np.zeros(listed.shape, dtype=mu.dtype)
    for rows in _blocks(len(anchors), listed.shape[1] * mu.shape[1]):
        own, others = anchors[rows, None], listed[rows]
        p_i, p_j = precision[own], precision[others]
        squared = (mu[own] - mu[others]) ** 2
        if symmetric:
            terms = np.log(0.5 / p_i + 0.5 / p_j + 0.25 * squared).sum(axis=-1)
            twice = terms - 0.5 * (log_volume[own] + log_volume[others])
        else:
            terms = ((1.0 / p_i + squared) * p_j - 1.0).sum(axis=-1)
            twice = terms + log_volume[others] - log_volume[own]
        found[rows] = np.where(others < 0, 0.0, 0.5 * twice)
    return found


def pull_anchors(
    G: Array, mu: Array, precision: Array, anchors: Labels, listed: Labels, *, symmetric: bool = False
) -> tuple[Array, Array]:
    """Gradients of ``sum(G * pair_divergences(...))`` by the anchors' means and log-variances.

    ``G`` is (n_anchors, n_listed), zero beside a label of -1; each gradient is (n_anchors, n_components).
    """
    if compiled():
        return _compiled_pairs()[1](G, mu, precision, anchors, listed, symmetric)
    by_mu = np.zeros((len(anchors), mu.shape[1]), dtype=mu.dtype)
    by_log_var = np.zeros_like(by_mu)
    for rows in _blocks(len(anchors), listed.shape[1] * mu.shape[1]):
        own, others, pull = anchors[rows, None], listed[rows], G[rows][:, :, None]
        p_i, p_j = precision[own], precision[others]
        difference = mu[own] - mu[others]
        if symmetric:
            over = 0.25 * pull / (0.5 / p_i + 0.5 / p_j + 0.25 * difference**2)
            by_mu[rows] = (over * difference).sum(axis=1)
            by_log_var[rows] = (over / p_i - 0.25 * pull).sum(axis=1)
        else:
            by_mu[rows] = (pull * difference * p_j).sum(axis=1)
            by_log_var[rows] = 0.5 * (pull * (p_j / p_i - 1.0)).sum(axis=1)
    return by_mu, by_log_var


def pull_labels(
    starts: Labels,
    sources: Labels,
    G: Array,
    labels: Labels,
    mu: Array,
    precision: Array,
    anchors: Labels,
    *,
    symmetric: bool = False,
) -> tuple[Array, Array]:
    """Gradients of the same sum by the other end of the pairs.

    Parameters
    ----------
    starts : ndarray of shape (n_rows + 1,)
        Pairs ``starts[r]`` to ``starts[r + 1]`` end in ``labels[r]``.
    sources, G : ndarrays of shape (n_pairs,)
        Position in ``anchors`` where each pair comes from, and its weight.
    labels : ndarray of shape (n_rows,)

    Returns
    -------
    by_mu, by_log_var : ndarrays of shape (n_rows, n_components)
    """
    mu_from, variance_from = mu[anchors], 1 / precision[anchors]
    if compiled():
        return _compiled_pairs()[2](starts, sources, G, labels, mu, precision, mu_from, variance_from, symmetric)
    by_mu = np.zeros((len(labels), mu.shape[1]), dtype=mu.dtype)
    by_log_var = np.zeros_like(by_mu)
    row_of = np.repeat(np.arange(len(labels)), np.diff(starts))
    for pairs in _blocks(len(sources), mu.shape[1]):
        row, pull = row_of[pairs], G[pairs, None]
        v_i, p_j = variance_from[sources[pairs]], precision[labels[row]]
        difference = mu_from[sources[pairs]] - mu[labels[row]]
        if symmetric:
            over = 0.25 * pull / (0.5 * v_i + 0.5 / p_j + 0.25 * difference**2)
            to_mu, to_log_var = -over * difference, over / p_j - 0.25 * pull
        else:
            to_mu = -pull * difference * p_j
            to_log_var = 0.5 * pull * (1.0 - (v_i + difference**2) * p_j)
        np.add.at(by_mu, row, to_mu)
        np.add.at(by_log_var, row, to_log_var)
    return by_mu, by_log_var


def _blocks(n_rows: int, row_size: int) -> list[slice]:
    step = max(1, PLAIN_BLOCK // max(row_size, 1))
    return [slice(start, start + step) for start in range(0, n_rows, step)]


@cache
def _compiled_pairs() -> Any:
    from numba import njit, prange

    fast = {"reassoc", "contract", "arcp", "nsz"}  # sums in vector registers; infinities and NaN stay themselves

    @njit(parallel=True, cache=True, fastmath=fast)
    def divergences(mu, precision, log_volume, anchors, listed, symmetric):  # type: ignore[no-untyped-def]
        n_anchors, n_listed = listed.shape
        width = mu.shape[1]
        one, half, quarter = mu.dtype.type(1), mu.dtype.type(0.5), mu.dtype.type(0.25)
        found = np.zeros((n_anchors, n_listed), mu.dtype)
        for at in prange(n_anchors):
            i = anchors[at]
            mu_i, v_i = mu[i], one / precision[i]
            for slot in range(n_listed):
                j = listed[at, slot]
                if j < 0:
                    continue
                mu_j, p_j = mu[j], precision[j]
                total = mu.dtype.type(0)
                if symmetric:
                    for k in range(width):
                        difference = mu_i[k] - mu_j[k]
                        total += np.log(half * (v_i[k] + one / p_j[k]) + quarter * difference * difference)
                    total -= half * (log_volume[i] + log_volume[j])
                else:
                    for k in range(width):
                        difference = mu_i[k] - mu_j[k]
                        total += (v_i[k] + difference * difference) * p_j[k] - one
                    total += log_volume[j] - log_volume[i]
                found[at, slot] = half * total
        return found

    @njit(parallel=True, cache=True, fastmath=fast)
    def anchors_pulled(G, mu, precision, anchors, listed, symmetric):  # type: ignore[no-untyped-def]
        n_anchors, n_listed = listed.shape
        width = mu.shape[1]
        one, half, quarter = mu.dtype.type(1), mu.dtype.type(0.5), mu.dtype.type(0.25)
        by_mu = np.zeros((n_anchors, width), mu.dtype)
        by_log_var = np.zeros((n_anchors, width), mu.dtype)
        for at in prange(n_anchors):
            mu_i, v_i = mu[anchors[at]], one / precision[anchors[at]]
            to_mu, to_log_var = by_mu[at], by_log_var[at]
            for slot in range(n_listed):
                pull = G[at, slot]
                if pull == 0:
                    continue
                mu_j, p_j = mu[listed[at, slot]], precision[listed[at, slot]]
                if symmetric:
                    part = quarter * pull
                    for k in range(width):
                        difference = mu_i[k] - mu_j[k]
                        over = part / (half * (v_i[k] + one / p_j[k]) + quarter * difference * difference)
                        to_mu[k] += over * difference
                        to_log_var[k] += over * v_i[k] - part
                else:
                    part = half * pull
                    for k in range(width):
                        to_mu[k] += pull * (mu_i[k] - mu_j[k]) * p_j[k]
                        to_log_var[k] += part * (v_i[k] * p_j[k] - one)
        return by_mu, by_log_var

    @njit(parallel=True, cache=True, fastmath=fast)
    def labels_pulled(  # type: ignore[no-untyped-def]
        starts, sources, G, labels, mu, precision, mu_from, variance_from, symmetric
    ):
        n_rows, width = len(labels), mu.shape[1]
        one, half, quarter = mu.dtype.type(1), mu.dtype.type(0.5), mu.dtype.type(0.25)
        by_mu = np.zeros((n_rows, width), mu.dtype)
        by_log_var = np.zeros((n_rows, width), mu.dtype)
        for row in prange(n_rows):
            mu_j, p_j = mu[labels[row]], precision[labels[row]]
            to_mu, to_log_var = by_mu[row], by_log_var[row]
            for pair in range(starts[row], starts[row + 1]):
                pull = G[pair]
                mu_i, v_i = mu_from[sources[pair]], variance_from[sources[pair]]
                if symmetric:
                    part = quarter * pull
                    for k in range(width):
                        difference = mu_i[k] - mu_j[k]
                        over = part / (half * (v_i[k] + one / p_j[k]) + quarter * difference * difference)
                        to_mu[k] -= over * difference
                        to_log_var[k] += over / p_j[k] - part
                else:
                    part = half * pull
                    for k in range(width):
                        difference = mu_i[k] - mu_j[k]
                        to_mu[k] -= pull * difference * p_j[k]
                        to_log_var[k] += part * (one - (v_i[k] + difference * difference) * p_j[k])
        return by_mu, by_log_var

    return divergences, anchors_pulled, labels_pulled
