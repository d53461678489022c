"""Divergences between diagonal Gaussians and their gradients, with the same bits on every machine.

Of all pairs of labels at once, of the labels listed for some anchors, and of chosen pairs. Gaussians have means ``mu``
and log-variances ``log_var``, both (n_labels, n_components); the logarithm keeps variances positive by construction.
The backward functions take ``G``, the derivative of some loss with respect to the divergences, and return its
derivatives with respect to ``mu`` and ``log_var``. Nothing of size n_labels x n_labels x n_components is ever formed.

A divergence is a small difference of large sums, and a descent of many steps makes small differences grow. So all sums
here are exact sums of rounded terms (:mod:`pysldl.backend.exact`): they do not depend on the processor, on the number
of threads or on the order in which they are added up. For the gradients this holds as long as the entries of ``G`` are
small integers, which those of the ranking loss are. Arrays of all pairs may lie on a device.
"""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from pysldl.backend import exact
from pysldl.backend.dispatch import primitive, to_device, to_host
from pysldl.backend.exact import TERM_BITS, listed_products, round_to_bits
from pysldl.backend.linear_algebra import sparse_times

SINGLE_BITS = 23  # that a number in single precision holds, whatever its sign
ROWS_AT_ONCE = 1 << 14
VALUES_AT_ONCE = 1 << 18

Array = NDArray[np.float64]
Labels = NDArray[np.integer]


@dataclass
class Gaussians:
    """Means of diagonal Gaussians, and what divergences and their gradients need of their variances.

    ``mu`` and ``precision``, the inverse variances, have the shape (n_labels, n_components); they are in double
    precision or, while a large embedding is trained, in single precision to save memory. ``log_volume`` and
    ``scaled_norm`` are the sums over components of the log-variances and of ``mu² / variance``. ``variance`` is ``1 /
    precision`` if not given.
    """

    mu: Any
    precision: Any
    log_volume: Any
    scaled_norm: Any
    variance: Any = None

    @classmethod
    def of(cls, mu: NDArray[np.floating], log_var: NDArray[np.floating]) -> Self:
        """All terms in double precision, on the device in use."""
        mean, spread = np.asarray(mu, dtype=np.float64), np.asarray(log_var, dtype=np.float64)
        # The exponential on the processor: compilers for GPUs fuse a multiplication and an addition into one rounding.
        mean, variance, spread = to_device(mean), to_device(exact.exp(spread)), to_device(spread)
        precision = 1.0 / variance
        return cls(
            mean,
            precision,
            round_to_bits(spread, TERM_BITS, axis=1).sum(axis=1),
            round_to_bits(mean * (mean * precision), TERM_BITS, axis=1).sum(axis=1),
            variance,
        )

    @classmethod
    def empty_like(cls, mu: NDArray[np.floating]) -> Self:
        """Gaussians with these means, shared and not copied, of which every row is to be refreshed."""
        return cls(mu, np.empty_like(mu), np.empty(len(mu)), np.empty(len(mu)))

    def refresh(self, log_var: NDArray[np.floating], rows: Labels) -> None:
        """Bring what is derived up to date after ``rows`` of the means and log-variances moved."""
        mu, spread = self.mu[rows].astype(np.float64), log_var[rows].astype(np.float64)
        self.precision[rows] = exact.exp(-spread)
        precision = self.precision[rows].astype(np.float64)
        self.log_volume[rows] = round_to_bits(spread, TERM_BITS, axis=1).sum(axis=1)
        self.scaled_norm[rows] = round_to_bits(mu * mu * precision, TERM_BITS, axis=1).sum(axis=1)

    def __getitem__(self, rows: Labels) -> Self:
        """Some of the Gaussians, in double precision."""
        precision = self.precision[rows].astype(np.float64)
        mu, variance = self.mu[rows].astype(np.float64), 1.0 / precision
        return type(self)(mu, precision, self.log_volume[rows], self.scaled_norm[rows], variance)

    @property
    def scaled_mu(self) -> Any:
        """``mu / variance``."""
        return self.mu * self.precision

    @property
    def second_moment(self) -> Any:
        """``variance + mu²``."""
        return self.variance + self.mu * self.mu


def kl_divergence(mu: NDArray[np.floating], log_var: NDArray[np.floating]) -> Array:
    """Compute KL(N_i ‖ N_j) for all i and j (Eq. 8), as matrix products; entry [i, j] is KL(N_i ‖ N_j).

    Written out, 2 KL is ``sum_k log v_j - log v_i - 1 + (v_i + mu_i²)/v_j - 2 mu_i mu_j/v_j + mu_j²/v_j``: each term is
    a product of something of i with something of j.

    Examples
    --------
    A narrow Gaussian lies inside a wide one, not the other way round:

    >>> mu, log_var = np.zeros((2, 1)), np.log([[1.0], [9.0]])
    >>> kl_divergence(mu, log_var).round(2)
    array([[0.  , 0.65],
           [2.9 , 0.  ]])
    """
    return to_host(kl_of_all(Gaussians.of(mu, log_var), slices=2))


def kl_of_all(g: Gaussians, *, slices: int = 1) -> Any:
    """KL(N_i ‖ N_j) for all i and j.

    One slice takes a third of the time of two and gives about the accuracy of single precision, which is enough for a
    step of a descent; see :func:`~pysldl.backend.exact.matmul_exact`.
    """
    divergence = half_cross_terms(g, slices=slices)
    divergence += kl_offset(g)
    divergence -= 0.5 * (g.log_volume[:, None] + g.mu.shape[1])
    return divergence


def half_cross_terms(g: Gaussians, *, slices: int = 1, out: Any = None) -> Any:
    """The part of KL(N_i ‖ N_j) that depends on i and j together, of shape (n_labels, n_labels).

    With :func:`kl_offset` of j added, it orders the labels of every anchor as the divergence does.
    """
    moment = g.second_moment
    # A power of two brings both halves to one scale, so that one rounding serves both.
    balance = exact.power_of_two(moment) / exact.power_of_two(2.0 * g.mu)
    left = exact.hstack(0.5 * moment, -balance * g.mu)
    right = exact.hstack(g.precision, g.scaled_mu / balance)
    return exact.matmul_exact(left, right.T, slices=slices, out=out)


def kl_offset(g: Gaussians) -> Any:
    """The part of KL(N_i ‖ N_j) that depends on j alone, of shape (n_labels,)."""
    return 0.5 * (g.log_volume + g.scaled_norm)


def kl_backward(G: Any, g: Gaussians) -> tuple[Any, Any]:
    """Gradients of ``sum(G * KL(N_i ‖ N_j))`` over all pairs, each (n_labels, n_components)."""
    n_labels, n_components = g.mu.shape
    scaled_mu = g.scaled_mu
    # Entries of G are integers of two bits, at most: the rest of the mantissa is left for the other factor.
    bits = exact.MANTISSA - 3 - n_labels.bit_length()
    to_i = exact.multiply(G, round_to_bits(exact.hstack(g.precision, scaled_mu), bits, axis=0))
    to_j = exact.multiply(G.T, round_to_bits(exact.hstack(g.second_moment, g.mu), bits, axis=0))
    by_precision_i, by_scaled_mu_i = to_i[:, :n_components], to_i[:, n_components:]
    by_second_moment_j, by_mu_j = to_j[:, :n_components], to_j[:, n_components:]
    row_sums, column_sums = G.sum(axis=1)[:, None], G.sum(axis=0)[:, None]

    grad_mu = g.mu * by_precision_i - by_scaled_mu_i
    grad_mu += column_sums * scaled_mu - g.precision * by_mu_j
    grad_log_var = 0.5 * (g.variance * by_precision_i - row_sums + column_sums * (1 - g.mu * scaled_mu))
    grad_log_var += scaled_mu * by_mu_j - 0.5 * g.precision * by_second_moment_j
    return grad_mu, grad_log_var


def kl_of_listed(g: Gaussians, anchors: Labels, listed: Labels) -> Array:
    """Compute KL(anchor ‖ label) for the labels ``listed`` (n_anchors, n_listed) per anchor; 0 beside a label of -1.

    Each is two exact sums of products.
    """
    labels, places = np.unique(listed, return_inverse=True)
    n_none = int(labels[0] < 0)
    labels, places = labels[n_none:], (places.reshape(listed.shape) - n_none).astype(np.int32)
    bits = min(exact.product_bits(g.mu.shape[1]), SINGLE_BITS)

    def rounded(x: Array) -> NDArray[np.float32]:
        return round_to_bits(x, bits, axis=1).astype(np.float32)  # exact: so few bits fit

    of_i, of_j = g[anchors], g[labels]
    twice = listed_products(rounded(of_i.second_moment), rounded(of_j.precision), places)
    twice += listed_products(rounded(-2.0 * of_i.mu), rounded(of_j.scaled_mu), places)
    twice += (g.log_volume + g.scaled_norm)[listed]
    twice -= g.log_volume[anchors, None] + g.mu.shape[1]
    return np.where(listed < 0, 0.0, 0.5 * twice)


def kl_backward_listed(g: Gaussians, anchors: Labels, rows: Labels, G: sparse.csr_array) -> tuple[Array, Array]:
    """Gradients of ``sum(G * KL(anchor ‖ label))`` by the labels ``rows``, which include the anchors.

    ``G``, of shape (n_anchors, n_rows), holds integers; each gradient is (n_rows, n_components).
    """
    width = g.mu.shape[1]
    bits = exact.MANTISSA - 3 - max(G.shape).bit_length()
    of_i, of_j = g[anchors], g[rows]
    mu, precision, scaled_mu = of_j.mu, of_j.precision, of_j.scaled_mu
    to_i = sparse_times(G, round_to_bits(np.hstack([precision, scaled_mu]), bits, axis=0))
    back = sparse.csr_array(G.T)
    to_j = sparse_times(back, round_to_bits(np.hstack([of_i.second_moment, of_i.mu]), bits, axis=0))
    row_sums, column_sums = np.asarray(G.sum(axis=1))[:, None], np.asarray(G.sum(axis=0))[:, None]
    by_mu = column_sums * scaled_mu - precision * to_j[:, width:]
    by_log_var = 0.5 * column_sums * (1 - mu * scaled_mu) + scaled_mu * to_j[:, width:]
    by_log_var -= 0.5 * precision * to_j[:, :width]
    at = np.searchsorted(rows, anchors)
    by_mu[at] += of_i.mu * to_i[:, :width] - to_i[:, width:]
    by_log_var[at] += 0.5 * (of_i.variance * to_i[:, :width] - row_sums)
    return by_mu, by_log_var


def kl_of_pairs(mu: NDArray[np.floating], log_var: NDArray[np.floating], source: Labels, target: Labels) -> Array:
    """Compute KL(N_source ‖ N_target) for chosen pairs of labels; returns float64 of shape (n_pairs,)."""
    found = np.empty(len(source))
    step = max(1, (ROWS_AT_ONCE * 128) // max(mu.shape[1], 1))
    for start in range(0, len(source), step):
        i, j = source[start : start + step], target[start : start + step]
        difference = mu[i].astype(np.float64) - mu[j]
        log_ratio = log_var[i].astype(np.float64) - log_var[j]
        precision = exact.exp(-log_var[j].astype(np.float64))
        terms = exact.exp(log_ratio) + difference * difference * precision - log_ratio - 1.0
        found[start : start + step] = 0.5 * round_to_bits(terms, TERM_BITS, axis=1).sum(axis=1)
    return found


def js_of_all(g: Gaussians) -> Array:
    """Compute the Jensen-Shannon divergence of all pairs, the mixture replaced by the Gaussian of equal moments.

    The mixture of two Gaussians is not Gaussian and its divergence has no closed form. With
    ``m = (v_i + v_j)/2 + (mu_i - mu_j)²/4``, the mixture's variance, the two KL terms to that Gaussian collapse to
    ``sum_k (log m - (log v_i + log v_j)/2)/2``: zero for equal Gaussians, and symmetric, which is what the ablation
    "without asymmetric correlation" asks for. It has no form on a device.
    """
    half_log_volume = 0.5 * to_host(g.log_volume)
    total = log_mixture_volumes(to_host(g.mu), to_host(g.variance))
    total -= half_log_volume
    total -= half_log_volume[:, None]
    total *= 0.5
    return total


def js_backward(G: Array, g: Gaussians) -> tuple[Array, Array]:
    """Gradients of ``sum(G * js_of_all(g))``, each (n_labels, n_components)."""
    S, variance = np.asarray(G + G.T, dtype=np.float64), to_host(g.variance)
    by_mu, by_variance = mixture_pulls(S, to_host(g.mu), variance)
    return 0.25 * by_mu, 0.25 * (variance * by_variance - S.sum(axis=1)[:, None])


def js_of_listed(g: Gaussians, anchors: Labels, listed: Labels) -> Array:
    """Jensen-Shannon divergences of each anchor to the labels listed for it; as :func:`kl_of_listed`."""
    mu, precision = g.mu.astype(np.float64), g.precision.astype(np.float64)
    found = np.zeros(listed.shape)
    for rows in _blocks(len(anchors), listed.shape[1] * mu.shape[1]):
        own, others = anchors[rows, None], listed[rows]
        mixture = 0.5 / precision[own] + 0.5 / precision[others] + 0.25 * (mu[own] - mu[others]) ** 2
        twice = exact.log(mixture).sum(axis=-1) - 0.5 * (g.log_volume[own] + g.log_volume[others])
        found[rows] = np.where(others < 0, 0.0, 0.5 * twice)
    return found


def js_backward_listed(
    g: Gaussians, anchors: Labels, listed: Labels, pulls: NDArray[np.int8], rows: Labels
) -> tuple[Array, Array]:
    """Gradients of ``sum(pulls * js_of_listed(g, anchors, listed))`` by the labels ``rows``, anchors included."""
    mu, precision = g.mu.astype(np.float64), g.precision.astype(np.float64)
    of_anchors = _js_pull_anchors(pulls.astype(np.float64), mu, precision, anchors, listed)
    source, slot = np.nonzero(pulls)
    label = listed[source, slot]
    by_label = np.argsort(label, kind="stable")
    source, label, weight = source[by_label], label[by_label], pulls[source, slot][by_label].astype(np.float64)
    gradients = _js_pull_labels(np.searchsorted(rows, label), source, weight, rows, mu, precision, anchors)
    at = np.searchsorted(rows, anchors)
    for gradient, of_anchor in zip(gradients, of_anchors, strict=True):
        gradient[at] += of_anchor
    return gradients


def _js_pull_anchors(G: Array, mu: Array, precision: Array, anchors: Labels, listed: Labels) -> tuple[Array, Array]:
    """The gradients by the anchors, each (n_anchors, n_components)."""
    by_mu = np.zeros((len(anchors), mu.shape[1]))
    by_log_var = np.zeros_like(by_mu)
    for rows in _blocks(len(anchors), listed.shape[1] * mu.shape[1]):
        own, others, pull = anchors[rows, None], listed[rows], G[rows][:, :, None]
        difference = mu[own] - mu[others]
        over = 0.25 * pull / (0.5 / precision[own] + 0.5 / precision[others] + 0.25 * difference**2)
        by_mu[rows] = (over * difference).sum(axis=1)
        by_log_var[rows] = (over / precision[own] - 0.25 * pull).sum(axis=1)
    return by_mu, by_log_var


def _js_pull_labels(
    row_of: Labels, sources: Labels, G: Array, labels: Labels, mu: Array, precision: Array, anchors: Labels
) -> tuple[Array, Array]:
    """The gradients by ``labels``, each (n_labels, n_components): pair p ends in ``labels[row_of[p]]``."""
    mu_from, variance_from = mu[anchors], 1 / precision[anchors]
    by_mu = np.zeros((len(labels), mu.shape[1]))
    by_log_var = np.zeros_like(by_mu)
    for pairs in _blocks(len(sources), mu.shape[1]):
        row, pull = row_of[pairs], G[pairs, None]
        v_i, p_j = variance_from[sources[pairs]], precision[labels[row]]
        difference = mu_from[sources[pairs]] - mu[labels[row]]
        over = 0.25 * pull / (0.5 * v_i + 0.5 / p_j + 0.25 * difference**2)
        np.add.at(by_mu, row, -over * difference)
        np.add.at(by_log_var, row, over / p_j - 0.25 * pull)
    return by_mu, by_log_var


def _blocks(n_rows: int, row_size: int) -> list[slice]:
    step = max(1, VALUES_AT_ONCE // max(row_size, 1))
    return [slice(start, start + step) for start in range(0, n_rows, step)]


@primitive(numba=True)
def log_mixture_volumes(mu: Array, variance: Array) -> Array:
    """``sum_k log m_ijk`` for all pairs, (n_labels, n_labels): the large part of divergences, which nearly cancels."""
    total = np.zeros((len(mu), len(mu)))
    for mu_k, var_k in zip(mu.T, variance.T, strict=True):
        total += exact.log(_mixture_variance(mu_k, var_k))
    return total


@primitive(numba=True)
def mixture_pulls(S: Array, mu: Array, variance: Array) -> tuple[Array, Array]:
    """``sum_j S_ij (mu_i - mu_j)/m_ijk`` and ``sum_j S_ij/m_ijk``, each (n_labels, n_components); S is symmetric."""
    by_mu, by_variance = np.empty_like(mu), np.empty_like(mu)
    for k, (mu_k, var_k) in enumerate(zip(mu.T, variance.T, strict=True)):
        T = S / _mixture_variance(mu_k, var_k)
        by_variance[:, k] = T.sum(axis=1)
        by_mu[:, k] = mu_k * by_variance[:, k] - T @ mu_k
    return by_mu, by_variance


def _mixture_variance(mu_k: Array, var_k: Array) -> Array:
    """Variance along one axis of the equal mixture of labels i and j, (n_labels, n_labels)."""
    mixture = np.subtract.outer(0.5 * mu_k, 0.5 * mu_k)
    mixture *= mixture
    mixture += 0.5 * var_k
    mixture += 0.5 * var_k[:, None]
    return mixture
