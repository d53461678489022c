"""The ranking loss minimized a few anchors at a time; only the labels that they rank move."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from pysldl._utils.progress import Progress, ProgressCallback
from pysldl.backend import exact
from pysldl.backend.gaussian_pairs import js_of_pairs, js_pull_anchors, js_pull_labels, pair_products
from pysldl.backend.row_adam import BETA1, BETA2, adam_update_rows
from pysldl.backend.sparse_product import sparse_times
from pysldl.embedding.adam import DescentResult
from pysldl.embedding.divergence import TERM_BITS
from pysldl.embedding.ranking_loss import consecutive_violations
from pysldl.embedding.truncated_ranking import TruncatedRanking

__all__ = ["BatchDescent", "Gaussians", "ranking_gradient"]

Labels = NDArray[np.integer]
SINGLE_BITS = 23  # that a number in single precision holds, whatever its sign
ROWS_AT_ONCE = 1 << 14


class Gaussians:
    """Means and log-variances of all labels, with what their divergences need.

    They are kept in the precision in which they are given, single for the sake of memory, and computed with in double.

    Attributes
    ----------
    mu, log_var, precision : ndarrays of shape (n_labels, n_components)
    log_volume, scaled_norm : ndarrays of shape (n_labels,), float64
        Sums of the log-variances and of ``mu² / variance``.
    """

    def __init__(self, mu: NDArray[np.floating], log_var: NDArray[np.floating]) -> None:
        self.mu, self.log_var = mu.copy(), log_var.copy()
        self.precision = np.empty_like(self.mu)
        self.log_volume, self.scaled_norm = np.empty(len(mu)), np.empty(len(mu))
        for start in range(0, len(mu), ROWS_AT_ONCE):
            self.refresh(np.arange(start, min(start + ROWS_AT_ONCE, len(mu))))

    def refresh(self, rows: Labels) -> None:
        """Bring what is derived up to date after ``rows`` moved."""
        mu, log_var = self.mu[rows].astype(np.float64), self.log_var[rows].astype(np.float64)
        self.precision[rows] = exact.exp(-log_var)
        precision = self.precision[rows].astype(np.float64)
        self.log_volume[rows] = exact.round_to_bits(log_var, TERM_BITS, axis=1).sum(axis=1)
        self.scaled_norm[rows] = exact.round_to_bits(mu * mu * precision, TERM_BITS, axis=1).sum(axis=1)


def ranking_gradient(
    gaussians: Gaussians, anchors: Labels, listed: Labels, margin: float, *, symmetric: bool = False
) -> tuple[float, Labels, NDArray[np.float64], NDArray[np.float64]]:
    """The ranking loss (Eq. 7) of some anchors, and its gradient by the labels that it moves.

    Parameters
    ----------
    anchors : ndarray of shape (n_anchors,)
    listed : ndarray of shape (n_anchors, n_listed)
        Labels in the order in which each anchor should have them; -1 behind the end.
    margin : float
    symmetric : bool
        Jensen-Shannon instead of Kullback-Leibler divergence.

    Returns
    -------
    loss : float
        Mean over the anchors.
    rows : ndarray of shape (n_rows,)
        Labels with a gradient, ascending: the anchors, and all that they pull or push.
    by_mu, by_log_var : ndarrays of shape (n_rows, n_components)
    """
    g = gaussians
    if symmetric:
        D = js_of_pairs(g.mu.astype(np.float64), g.precision.astype(np.float64), g.log_volume, anchors, listed)
    else:
        D = _kl_of_listed(g, anchors, listed)
    total, pulls = consecutive_violations(D, margin, there=listed >= 0)
    source, slot = np.nonzero(pulls)
    label = listed[source, slot]
    rows = np.union1d(anchors, label)
    if symmetric:
        gradients = _js_gradients(g, anchors, listed, pulls, rows)
    else:
        G = sparse.csr_array(
            (pulls[source, slot].astype(np.float64), (source, np.searchsorted(rows, label))),
            shape=(len(anchors), len(rows)),
        )
        gradients = _kl_gradients(g, anchors, rows, G)
    for gradient in gradients:
        gradient /= len(anchors)
    return total / len(anchors), rows, *gradients


def _kl_of_listed(g: Gaussians, anchors: Labels, listed: Labels) -> NDArray[np.float64]:
    """KL(anchor ‖ label) of every listed label: two exact sums of products, as in ``kl_divergence``."""
    labels, places = np.unique(listed, return_inverse=True)
    n_none = int(labels[0] < 0)
    labels, places = labels[n_none:], (places.reshape(listed.shape) - n_none).astype(np.int32)
    bits = min(exact.product_bits(g.mu.shape[1]), SINGLE_BITS)

    def rounded(x: NDArray[np.float64]) -> NDArray[np.float32]:
        return exact.round_to_bits(x, bits, axis=1).astype(np.float32)  # exact: so few bits fit

    mu, precision = g.mu[labels].astype(np.float64), g.precision[labels].astype(np.float64)
    mu_i, precision_i = g.mu[anchors].astype(np.float64), g.precision[anchors].astype(np.float64)
    twice = pair_products(rounded(1.0 / precision_i + mu_i * mu_i), rounded(precision), places)
    twice += pair_products(rounded(-2.0 * mu_i), rounded(mu * precision), places)
    twice += (g.log_volume + g.scaled_norm)[listed]
    twice -= g.log_volume[anchors, None] + g.mu.shape[1]
    return np.where(listed < 0, 0.0, 0.5 * twice)


def _kl_gradients(
    g: Gaussians, anchors: Labels, rows: Labels, G: sparse.csr_array
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Gradients of ``sum(G * KL(anchor ‖ label))`` by ``rows``, where G (n_anchors, n_rows) holds integers."""
    width = g.mu.shape[1]
    bits = exact.MANTISSA - 3 - max(G.shape).bit_length()
    mu, precision = g.mu[rows].astype(np.float64), g.precision[rows].astype(np.float64)
    scaled_mu = mu * precision
    mu_i, variance_i = g.mu[anchors].astype(np.float64), 1.0 / g.precision[anchors].astype(np.float64)
    to_i = sparse_times(G, exact.round_to_bits(np.hstack([precision, scaled_mu]), bits, axis=0))
    back = sparse.csr_array(G.T)
    to_j = sparse_times(back, exact.round_to_bits(np.hstack([variance_i + mu_i * mu_i, mu_i]), bits, axis=0))
    row_sums, column_sums = np.asarray(G.sum(axis=1))[:, None], np.asarray(G.sum(axis=0))[:, None]
    by_mu = column_sums * scaled_mu - precision * to_j[:, width:]
    by_log_var = 0.5 * column_sums * (1 - mu * scaled_mu) + scaled_mu * to_j[:, width:]
    by_log_var -= 0.5 * precision * to_j[:, :width]
    at = np.searchsorted(rows, anchors)
    by_mu[at] += mu_i * to_i[:, :width] - to_i[:, width:]
    by_log_var[at] += 0.5 * (variance_i * to_i[:, :width] - row_sums)
    return by_mu, by_log_var


def _js_gradients(
    g: Gaussians, anchors: Labels, listed: Labels, pulls: NDArray[np.int8], rows: Labels
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The same for the Jensen-Shannon divergence."""
    mu, precision = g.mu.astype(np.float64), g.precision.astype(np.float64)
    of_anchors = js_pull_anchors(pulls.astype(np.float64), mu, precision, anchors, listed)
    source, slot = np.nonzero(pulls)
    label = listed[source, slot]
    by_label = np.argsort(label, kind="stable")
    source, label, weight = source[by_label], label[by_label], pulls[source, slot][by_label].astype(np.float64)
    starts = np.searchsorted(label, np.append(rows, g.mu.shape[0]))
    gradients = js_pull_labels(starts, source, weight, rows, mu, precision, anchors)
    at = np.searchsorted(rows, anchors)
    for gradient, of_anchor in zip(gradients, of_anchors, strict=True):
        gradient[at] += of_anchor
    return gradients


@dataclass(frozen=True)
class BatchDescent:
    """Adam over batches of anchors, with the state and the number of steps of every label apart.

    A label moves when it is an anchor of the batch or stands on the wrong side of one. With all anchors in one batch
    this is :class:`~pysldl.embedding.adam.Descent`, except that the parameters of the lowest loss are not kept.

    Parameters
    ----------
    learning_rate, weight_decay : float
    n_steps : int
        Number of batches; with ``tol`` the largest number.
    tol, patience : float or None, int
        Stop when the mean loss of a pass over all anchors has not fallen by the fraction ``tol`` during ``patience``
        batches, and at least one pass; None takes all steps.
    batch_size : int
        Anchors at a time.
    """

    learning_rate: float
    n_steps: int
    tol: float | None
    patience: int
    batch_size: int
    weight_decay: float = 0.0

    def minimize(
        self,
        gaussians: Gaussians,
        ranking: TruncatedRanking,
        margin: float,
        rng: np.random.RandomState,
        *,
        symmetric: bool = False,
        progress: ProgressCallback | None = None,
        path: Sequence[int] = (),
    ) -> DescentResult:
        """Move ``gaussians`` in place; ``path`` asks for copies after so many steps, ascending."""
        n_labels = ranking.n_labels
        parameters = [gaussians.mu, gaussians.log_var]
        first = [np.zeros_like(p) for p in parameters]
        second = [np.zeros_like(p) for p in parameters]
        kept = [[p.copy() for p in parameters] for n in path if n == 0]
        steps = np.zeros(n_labels, dtype=np.int32)
        rate_after = self._rates()
        losses: list[float] = []
        best, since = np.inf, 0
        while len(losses) < self.n_steps:
            before = len(losses)
            order = rng.permutation(n_labels) if self.batch_size < n_labels else np.arange(n_labels)
            for start in range(0, n_labels, self.batch_size):
                if len(losses) == self.n_steps:
                    break
                anchors = order[start : start + self.batch_size]
                listed = ranking.of(anchors, rng)
                loss, rows, *gradients = ranking_gradient(gaussians, anchors, listed, margin, symmetric=symmetric)
                losses.append(loss)
                if progress is not None:
                    progress(Progress("embedding", len(losses), self.n_steps, loss))
                steps[rows] += 1
                rates = rate_after[steps[rows]]
                for p, m, v, gradient in zip(parameters, first, second, gradients, strict=True):
                    adam_update_rows(p, m, v, rows, gradient, rates, 1.0 - self.learning_rate * self.weight_decay)
                gaussians.refresh(rows)
                kept.extend([p.copy() for p in parameters] for n in path if n == len(losses))
            mean = float(np.mean(losses[before:]))
            if self.tol is not None:
                since = 0 if mean <= best * (1 - self.tol) else since + len(losses) - before
                best = min(best, mean) if since == 0 else best
                if since >= self.patience or mean == 0:
                    return DescentResult(parameters, losses, converged=True, path=kept)
        return DescentResult(parameters, losses, None if self.tol is None else False, kept)

    def _rates(self) -> NDArray[np.float64]:
        """The learning rate of a row that makes its first, second, ... step; entry 0 is not used."""
        ones = np.ones(self.n_steps)  # products one after the other, not powers, of which every library has its own
        power1, power2 = np.cumprod(BETA1 * ones), np.cumprod(BETA2 * ones)
        return np.append(0.0, self.learning_rate * np.sqrt(1 - power2) / (1 - power1))
