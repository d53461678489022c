"""Sums and functions with the same bits everywhere."""

import numpy as np
import pytest

from pysldl.backend.exact import exp, log, matmul_exact, product_bits, round_to_bits
from pysldl.embedding import GaussianLabelEmbedding

RNG = np.random.default_rng(0)


def test_exp_and_log_are_those_of_the_textbook():
    x = RNG.uniform(-300, 300, 5000)
    np.testing.assert_allclose(exp(x), np.exp(x), rtol=1e-15)
    np.testing.assert_allclose(log(np.exp(x)), x, rtol=1e-14, atol=1e-15)
    assert exp(0.0) == 1.0 and log(1.0) == 0.0


def test_compiled_and_plain_exponentials_have_the_same_bits(monkeypatch):
    pytest.importorskip("numba")
    x = RNG.normal(scale=5.0, size=(300, 70))
    compiled = exp(x)
    monkeypatch.setattr("pysldl.backend.dispatch.has_numba", lambda: False)
    assert (compiled == exp(x)).all()


@pytest.mark.parametrize("bits", [1, 10, 22, 45])
def test_rounding_keeps_so_many_bits_of_the_largest(bits):
    x = RNG.normal(size=(6, 40)) * 10.0 ** RNG.integers(-8, 8, (6, 1))
    rounded = round_to_bits(x, bits, axis=1)
    spacing = 2.0 ** (np.ceil(np.log2(np.abs(x).max(axis=1, keepdims=True))) - bits)
    assert (rounded / spacing == np.rint(rounded / spacing)).all()
    assert (np.abs(rounded - x) <= spacing / 2).all()


def test_zeros_and_nothing_can_be_rounded():
    assert (round_to_bits(np.zeros((2, 3)), 20, axis=1) == 0).all()
    assert round_to_bits(np.zeros((2, 0)), 20, axis=1).shape == (2, 0)


@pytest.mark.parametrize("n_terms", [1, 7, 256, 1000])
def test_sums_of_rounded_products_are_the_same_in_every_order(n_terms):
    bits = product_bits(n_terms)
    a, b = (round_to_bits(x, bits) for x in RNG.normal(size=(2, n_terms)))
    forward = 0.0
    for product in a * b:
        forward += product
    backward = 0.0
    for product in (a * b)[::-1]:
        backward += product
    assert forward == backward == (a * b).sum() == a @ b


def test_two_slices_are_close_to_double_precision():
    A, B = RNG.normal(size=(30, 256)), RNG.normal(size=(256, 20))
    np.testing.assert_allclose(matmul_exact(A, B, slices=2), A @ B, atol=1e-10)
    np.testing.assert_allclose(matmul_exact(A, B), A @ B, atol=1e-4)
    order = RNG.permutation(256)
    assert (matmul_exact(A, B) == matmul_exact(A[:, order], B[order])).all()


@pytest.mark.parametrize("graph", ["dense", "sparse"])
def test_gaussians_have_the_same_bits_without_a_compiler(graph, monkeypatch):
    Y = (RNG.random((80, 30)) < 0.15).astype(float)
    embedding = GaussianLabelEmbedding(12, graph=graph, n_walk_labels=8, n_negatives=4, n_steps=15, random_state=0)
    compiled = embedding.fit(Y)
    means, spread = compiled.components_.copy(), compiled.log_variances_.copy()
    monkeypatch.setattr("pysldl.backend.dispatch.has_numba", lambda: False)
    plain = embedding.fit(Y)
    assert (plain.components_ == means).all() and (plain.log_variances_ == spread).all()


@pytest.mark.parametrize("graph", ["dense", "sparse"])
def test_a_path_holds_the_fits_with_each_number_of_steps(graph):
    Y = (RNG.random((60, 20)) < 0.2).astype(float)
    embedding = GaussianLabelEmbedding(6, graph=graph, n_walk_labels=6, n_negatives=3, batch_size=8, random_state=0)
    for number, found in zip((0, 5, 40), embedding.fit_path(Y, (0, 5, 40)), strict=True):
        alone = GaussianLabelEmbedding(
            6, graph=graph, n_walk_labels=6, n_negatives=3, batch_size=8, n_steps=number, random_state=0
        )
        assert (alone.fit(Y).components_ == found.components_).all()
        assert found.n_steps == number and found.losses_ == alone.losses_
