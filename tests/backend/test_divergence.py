"""Divergences against the formula one pair at a time, gradients against finite differences."""

import numpy as np
import pytest

from pysldl.backend.divergence import (
    Gaussians,
    js_backward,
    js_of_all,
    kl_backward,
    kl_divergence,
    kl_of_all,
    kl_of_pairs,
)
from pysldl.backend.label_embedding import ranking_hinge
from pysldl.embedding.label_graph import rank_labels
from pysldl.embedding.vector import squared_error


def js_divergence(mu, log_var):
    return js_of_all(Gaussians.of(mu, log_var))


@pytest.fixture
def gaussians():
    rng = np.random.default_rng(0)
    return rng.normal(size=(6, 3)), rng.normal(scale=0.5, size=(6, 3))


def kl_of_a_pair(mu_p, var_p, mu_q, var_q):
    ratio = var_p / var_q
    return -0.5 * np.sum(np.log(ratio) - ratio - (mu_p - mu_q) ** 2 / var_q + 1)


def test_kl_equals_equation_8_for_every_pair(gaussians):
    mu, log_var = gaussians
    var = np.exp(log_var)
    expected = [[kl_of_a_pair(mu[i], var[i], mu[j], var[j]) for j in range(6)] for i in range(6)]
    np.testing.assert_allclose(kl_divergence(mu, log_var), expected, atol=1e-11)


def test_chosen_pairs_are_those_of_the_matrix(gaussians):
    source, target = np.array([0, 3, 5, 2]), np.array([1, 3, 0, 4])
    found = kl_of_pairs(*gaussians, source, target)
    np.testing.assert_allclose(found, kl_divergence(*gaussians)[source, target], atol=1e-11)


def test_one_slice_is_as_accurate_as_single_precision():
    rng = np.random.default_rng(0)
    mu, log_var = rng.normal(size=(50, 128)), rng.normal(scale=0.5, size=(50, 128))
    precise = kl_divergence(mu, log_var)
    np.testing.assert_allclose(kl_of_all(Gaussians.of(mu, log_var)), precise, atol=1e-5 * np.abs(precise).max())


def test_js_equals_two_kl_to_the_gaussian_with_the_mixture_s_moments(gaussians):
    mu, log_var = gaussians
    var = np.exp(log_var)
    for i in range(6):
        for j in range(6):
            mean = (mu[i] + mu[j]) / 2
            mixture = (var[i] + var[j]) / 2 + (mu[i] - mu[j]) ** 2 / 4
            expected = 0.5 * (kl_of_a_pair(mu[i], var[i], mean, mixture) + kl_of_a_pair(mu[j], var[j], mean, mixture))
            assert js_divergence(mu, log_var)[i, j] == pytest.approx(expected, abs=1e-12)


def numerical_gradient(function, array, step=1e-4):
    gradient = np.zeros_like(array)
    for index in np.ndindex(*array.shape):
        up, down = array.copy(), array.copy()
        up[index] += step
        down[index] -= step
        gradient[index] = (function(up) - function(down)) / (2 * step)
    return gradient


@pytest.mark.parametrize(
    ("forward", "backward"), [(kl_divergence, kl_backward), (js_divergence, js_backward)], ids=["kl", "js"]
)
def test_gradients_of_a_weighted_sum(gaussians, forward, backward):
    mu, log_var = gaussians
    G = np.random.default_rng(1).normal(size=(6, 6))
    by_mu, by_log_var = backward(G, Gaussians.of(mu, log_var))
    np.testing.assert_allclose(by_mu, numerical_gradient(lambda m: np.sum(G * forward(m, log_var)), mu), atol=1e-6)
    np.testing.assert_allclose(by_log_var, numerical_gradient(lambda s: np.sum(G * forward(mu, s)), log_var), atol=1e-6)


@pytest.mark.parametrize("sign", [1, -1])
def test_gradient_of_the_whole_ranking_loss(gaussians, sign):
    mu, log_var = gaussians
    ranking = rank_labels(np.random.default_rng(2).random((6, 6)))

    def hinge(D):
        return ranking_hinge(D, ranking, 0.1, sign)

    _, G = hinge(kl_divergence(mu, log_var))
    by_mu, by_log_var = kl_backward(G, Gaussians.of(mu, log_var))
    np.testing.assert_allclose(by_mu, numerical_gradient(lambda m: hinge(kl_divergence(m, log_var))[0], mu), atol=1e-6)
    np.testing.assert_allclose(
        by_log_var, numerical_gradient(lambda s: hinge(kl_divergence(mu, s))[0], log_var), atol=1e-6
    )


def test_the_derivative_of_the_hinge_is_that_of_the_loss_in_either_memory_order():
    rng = np.random.default_rng(0)
    D = rng.random((5, 5))
    ranking = np.stack([np.delete(rng.permutation(5), 0) for _ in range(5)]).astype(np.int32)
    for layout in (np.ascontiguousarray, np.asfortranarray):
        loss, G = ranking_hinge(layout(D), ranking, 0.1)
        for i, j in np.ndindex(5, 5):
            moved = D.copy()
            moved[i, j] += 1e-6
            assert abs((ranking_hinge(layout(moved), ranking, 0.1)[0] - loss) / 1e-6 - G[i, j]) < 1e-4


def test_hinge_equals_equation_7_one_term_at_a_time(gaussians):
    D = kl_divergence(*gaussians)
    ranking = rank_labels(np.random.default_rng(3).random((6, 6)))
    expected = sum(
        max(0.0, D[i, row[j]] - D[i, row[j + 1]] + 0.1) for i, row in enumerate(ranking) for j in range(len(row) - 1)
    )
    assert ranking_hinge(D, ranking, 0.1)[0] == pytest.approx(expected)


def test_gradient_of_the_squared_error():
    rng = np.random.default_rng(4)
    E, F, target = rng.normal(size=(5, 3)), rng.normal(size=(5, 3)), rng.random((5, 5))
    _, by_source, by_target = squared_error(E, F, target)
    np.testing.assert_allclose(by_source, numerical_gradient(lambda e: squared_error(e, F, target)[0], E), atol=1e-6)
    np.testing.assert_allclose(by_target, numerical_gradient(lambda f: squared_error(E, f, target)[0], F), atol=1e-6)


def test_kl_never_forms_a_tensor_of_labels_by_labels_by_width():
    import tracemalloc

    mu = np.zeros((400, 64), dtype=np.float32)
    tracemalloc.start()
    D = kl_divergence(mu, mu)
    kl_backward(D, Gaussians.of(mu, mu))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 400 * 400 * 64 * 8 / 5
