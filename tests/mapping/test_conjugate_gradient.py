"""Directions that slow conjugate gradients down, and what taking them out of the way brings."""

import numpy as np
import pytest
from scipy import linalg, sparse

from pysldl.backend.linear_algebra import design_matrix
from pysldl.mapping.solvers import deflation_directions, ridge_steps

ALPHA = 0.5


@pytest.fixture(scope="module")
def texts():
    """Rows that share topics: a few dozen directions hold most of the variance."""
    rng = np.random.default_rng(0)
    topics = rng.gamma(0.1, size=(12, 300))
    X = rng.poisson(rng.dirichlet(np.full(12, 0.1), 800) @ topics * 2).astype(np.float32)
    X /= np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1e-9)
    return sparse.csr_array(X), rng.normal(size=(800, 10)).astype(np.float32)


def test_the_same_solution_in_fewer_steps(texts):
    X, Z = texts
    design = design_matrix(X)
    B = design.transposed_times(Z)
    goal = 1e-4 * np.linalg.norm(B, axis=0)
    scale = (1 / (design.column_squares() + ALPHA)).astype(np.float32)
    deflation = deflation_directions(design, ALPHA, scale, 16)
    plain, n_plain, _ = ridge_steps(design, B, ALPHA, goal, 500)
    found, n_found, _ = ridge_steps(design, B, ALPHA, goal, 500, deflation=deflation)
    exact = linalg.solve((X.T @ X).toarray() + ALPHA * np.eye(300), B, assume_a="pos")
    for W in (plain, found):
        assert np.linalg.norm(W - exact) < 1e-3 * np.linalg.norm(exact)
    assert n_found <= 0.7 * n_plain


def test_the_correction_is_the_inverse_along_its_directions(texts):
    """Along every direction the corrected operator has one and the same eigenvalue, the smallest of theirs."""
    X, _ = texts
    design = design_matrix(X.astype(np.float64))
    scale = 1 / (design.column_squares() + ALPHA)
    leading = deflation_directions(design, ALPHA, scale, 4)
    A = (X.T @ X).toarray().astype(np.float64) + ALPHA * np.eye(300)
    P = np.diag(scale) + leading.V @ (leading.gain * leading.V.T)
    assert linalg.eigvalsh(P).min() > 0
    before = linalg.eigvals(np.diag(scale) @ A).real
    after = linalg.eigvals(P @ A).real
    assert after.max() < 0.6 * before.max()
    assert after.min() == pytest.approx(before.min(), rel=1e-2)
