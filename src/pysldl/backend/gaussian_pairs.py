"""Loops over chosen pairs of labels: products for the Kullback-Leibler divergence, and the Jensen-Shannon divergence.

:func:`pair_products` adds up products of rounded factors, which is exact in every order (:mod:`pysldl.backend.exact`).
The Jensen-Shannon functions take means and precisions (inverse variances) of shape (n_labels, n_components), and
log-volumes (sums of the log-variances) of shape (n_labels,); see :func:`~pysldl.embedding.divergence.js_divergence`.
"""

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pysldl.backend import exact
from pysldl.backend.dispatch import has_numba

__all__ = ["TERM_BITS", "js_of_pairs", "js_pull_anchors", "js_pull_labels", "kl_of_pairs", "pair_products"]

TERM_BITS = 40  # of what is only added up: sums of 4,096 such terms are exact
PAIRS_AT_ONCE = 1 << 14
PLAIN_BLOCK = 1 << 18  # numbers of a temporary of the plain twins

Array = NDArray[np.float64]
Labels = NDArray[np.integer]


def pair_products(left: NDArray[np.floating], right: NDArray[np.floating], listed: Labels) -> NDArray[np.float64]:
    """Inner products of each row of ``left`` with the rows of ``right`` that are listed for it.

    Parameters
    ----------
    left : ndarray of shape (n_anchors, n_components)
    right : ndarray of shape (n_rows, n_components)
        Both rounded, so that sums of their products in double precision are exact.
    listed : ndarray of shape (n_anchors, n_listed)
        Rows of ``right``; -1 for none.

    Returns
    -------
    ndarray of shape (n_anchors, n_listed), float64
        0 beside a row of -1.
    """
    if has_numba():
        return _compiled_products()(left, right, listed)
    found = np.zeros(listed.shape)
    for rows in _blocks(len(left), listed.shape[1] * left.shape[1]):
        products = np.einsum("ak,alk->al", left[rows].astype(np.float64), right[listed[rows]].astype(np.float64))
        found[rows] = np.where(listed[rows] < 0, 0.0, products)
    return found


def kl_of_pairs(
    mu: NDArray[np.floating],
    log_var: NDArray[np.floating],
    source: NDArray[np.integer],
    target: NDArray[np.integer],
) -> Array:
    """KL(N_source ‖ N_target) of chosen pairs, with the same bits on every machine.

    Parameters
    ----------
    mu, log_var : ndarrays of shape (n_labels, n_components)
    source, target : ndarrays of shape (n_pairs,)
        Labels.

    Returns
    -------
    ndarray of shape (n_pairs,), float64
    """
    found = np.empty(len(source))
    step = max(1, (PAIRS_AT_ONCE * 128) // max(mu.shape[1], 1))
    for start in range(0, len(source), step):
        i, j = source[start : start + step], target[start : start + step]
        difference = mu[i].astype(np.float64) - mu[j]
        log_ratio = log_var[i].astype(np.float64) - log_var[j]
        precision = exact.exp(-log_var[j].astype(np.float64))
        terms = exact.exp(log_ratio) + difference * difference * precision - log_ratio - 1.0
        found[start : start + step] = 0.5 * exact.round_to_bits(terms, TERM_BITS, axis=1).sum(axis=1)
    return found


def js_of_pairs(mu: Array, precision: Array, log_volume: Array, anchors: Labels, listed: Labels) -> Array:
    """Jensen-Shannon divergences of each anchor to the labels listed for it.

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
    found = np.zeros(listed.shape, dtype=mu.dtype)
    for rows in _blocks(len(anchors), listed.shape[1] * mu.shape[1]):
        own, others = anchors[rows, None], listed[rows]
        mixture = 0.5 / precision[own] + 0.5 / precision[others] + 0.25 * (mu[own] - mu[others]) ** 2
        twice = exact.log(mixture).sum(axis=-1) - 0.5 * (log_volume[own] + log_volume[others])
        found[rows] = np.where(others < 0, 0.0, 0.5 * twice)
    return found


def js_pull_anchors(G: Array, mu: Array, precision: Array, anchors: Labels, listed: Labels) -> tuple[Array, Array]:
    """Gradients of ``sum(G * js_of_pairs(...))`` by the anchors' means and log-variances.

    ``G`` is (n_anchors, n_listed), zero beside a label of -1; each gradient is (n_anchors, n_components).
    """
    by_mu = np.zeros((len(anchors), mu.shape[1]), dtype=mu.dtype)
    by_log_var = np.zeros_like(by_mu)
    for rows in _blocks(len(anchors), listed.shape[1] * mu.shape[1]):
        own, others, pull = anchors[rows, None], listed[rows], G[rows][:, :, None]
        difference = mu[own] - mu[others]
        over = 0.25 * pull / (0.5 / precision[own] + 0.5 / precision[others] + 0.25 * difference**2)
        by_mu[rows] = (over * difference).sum(axis=1)
        by_log_var[rows] = (over / precision[own] - 0.25 * pull).sum(axis=1)
    return by_mu, by_log_var


def js_pull_labels(
    starts: Labels, sources: Labels, G: Array, labels: Labels, mu: Array, precision: Array, anchors: Labels
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
    by_mu = np.zeros((len(labels), mu.shape[1]), dtype=mu.dtype)
    by_log_var = np.zeros_like(by_mu)
    row_of = np.repeat(np.arange(len(labels)), np.diff(starts))
    for pairs in _blocks(len(sources), mu.shape[1]):
        row, pull = row_of[pairs], G[pairs, None]
        v_i, p_j = variance_from[sources[pairs]], precision[labels[row]]
        difference = mu_from[sources[pairs]] - mu[labels[row]]
        over = 0.25 * pull / (0.5 * v_i + 0.5 / p_j + 0.25 * difference**2)
        np.add.at(by_mu, row, -over * difference)
        np.add.at(by_log_var, row, over / p_j - 0.25 * pull)
    return by_mu, by_log_var


def _blocks(n_rows: int, row_size: int) -> list[slice]:
    step = max(1, PLAIN_BLOCK // max(row_size, 1))
    return [slice(start, start + step) for start in range(0, n_rows, step)]


@cache
def _compiled_products() -> Any:
    from numba import njit, prange

    # The sums are exact, so that they may be taken in any order: in vector registers.
    @njit(parallel=True, cache=True, fastmath={"reassoc", "contract"})
    def products(left, right, listed):  # type: ignore[no-untyped-def]
        n_anchors, n_listed = listed.shape
        found = np.zeros((n_anchors, n_listed), np.float64)
        for at in prange(n_anchors):
            own = left[at].astype(np.float64)
            for slot in range(n_listed):
                row = listed[at, slot]
                if row < 0:
                    continue
                other = right[row]
                total = 0.0
                for k in range(len(own)):
                    total += own[k] * other[k]
                found[at, slot] = total
        return found

    return products
