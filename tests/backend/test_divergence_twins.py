"""The compiled loops of the Jensen-Shannon divergence against their plain twins, and far outside the usual range."""

import numpy as np
import pytest

from pysldl.backend.divergence import Gaussians, js_backward, js_of_all, log_mixture_volumes, mixture_pulls
from pysldl.embedding import GaussianLabelEmbedding

pytest.importorskip("numba", reason="numba is not installed, so there is no compiled loop to compare")


def js_divergence(mu, log_var):
    return js_of_all(Gaussians.of(mu, log_var))


def gaussians(n_labels, n_components, dtype=np.float64, mu_scale=2.0, log_var_scale=2.0):
    rng = np.random.default_rng(n_labels)
    mu = rng.normal(0, mu_scale, (n_labels, n_components)).astype(dtype)
    return mu, rng.normal(1, log_var_scale, (n_labels, n_components)).astype(dtype)


# Sizes on both sides of what the loops take at once, and one label alone.
@pytest.mark.parametrize(("n_labels", "n_components"), [(1, 3), (7, 8), (8, 9), (21, 37)])
@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float64, 1e-12)])
def test_values_and_gradients(plain, n_labels, n_components, dtype, tolerance):
    mu, log_var = gaussians(n_labels, n_components, dtype)
    G = np.random.default_rng(0).normal(size=(n_labels, n_labels)).astype(dtype)
    fast, slow = js_divergence(mu, log_var), plain(js_divergence, mu, log_var)
    assert fast.dtype == slow.dtype == np.float64
    np.testing.assert_allclose(fast, slow, rtol=tolerance, atol=tolerance * n_components)
    terms = Gaussians.of(mu, log_var)
    for fast, slow in zip(js_backward(G, terms), plain(js_backward, G, terms), strict=True):
        assert fast.dtype == np.float64
        np.testing.assert_allclose(fast, slow, rtol=tolerance, atol=tolerance * np.abs(slow).max() + 1e-30)


@pytest.mark.parametrize(("mu_scale", "log_var"), [(1e15, 0.0), (1e-15, -69.0), (1e-3, 69.0)])
def test_a_product_of_many_axes_neither_overflows_nor_vanishes(plain, mu_scale, log_var):
    """300 factors of 1e30, or of 1e-30, are beyond every floating-point range."""
    mu, spread = gaussians(5, 300, np.float32, mu_scale, 0.1)
    variance = np.exp(spread + np.float32(log_var))
    fast, slow = log_mixture_volumes(mu, variance), plain(log_mixture_volumes, mu, variance)
    np.testing.assert_array_equal(fast, fast.T)
    assert np.isfinite(fast).all() and np.abs(fast[~np.eye(5, dtype=bool)]).min() > 10_000
    np.testing.assert_allclose(fast, slow, rtol=1e-6)


def test_a_gaussian_does_not_diverge_from_itself():
    mu, log_var = gaussians(40, 128, np.float32)
    assert np.abs(np.diag(js_divergence(mu, log_var))).max() < 1e-4


def test_gradients_do_not_ask_for_arrays_in_one_piece(plain):
    mu, log_var = gaussians(12, 10)
    S = np.random.default_rng(0).normal(size=(12, 12))
    S = np.asfortranarray(S + S.T)
    every_other = S, mu[:, ::2], np.exp(log_var)[:, ::2]
    for fast, slow in zip(mixture_pulls(*every_other), plain(mixture_pulls, *every_other), strict=True):
        np.testing.assert_allclose(fast, slow, rtol=1e-10)


def test_the_embedding_without_asymmetry_is_the_same_either_way(plain):
    Y = np.random.default_rng(0).random((60, 15)) < 0.2
    embedding = GaussianLabelEmbedding(6, divergence="js", n_steps=40, random_state=0)
    fast = embedding.fit(Y.astype(np.float32)).components_
    slow = plain(embedding.fit, Y.astype(np.float32)).components_
    np.testing.assert_allclose(fast, slow, atol=1e-3)
