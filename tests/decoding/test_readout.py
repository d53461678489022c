"""The linear read-out of the code."""

import numpy as np
import pytest
from scipy import sparse

from pysldl.decoding import LinearReadout


@pytest.fixture
def rows():
    rng = np.random.default_rng(0)
    return rng.normal(size=(60, 5)).astype(np.float32), sparse.csr_array((rng.random((60, 4)) < 0.3).astype(np.float32))


def test_weights_solve_the_normal_equations(rows):
    Z, Y = rows
    readout = LinearReadout(0.5).fit(Z, Y)
    unit = (Z.astype(np.float64) ** 2).sum() / len(Z)
    expected = np.linalg.solve(Z.T @ Z + 0.5 * unit * np.eye(5), Z.T @ Y.toarray())
    np.testing.assert_allclose(readout.B_, expected, atol=1e-5)


def test_the_scale_of_the_codes_does_not_matter(rows):
    Z, Y = rows
    scores = [LinearReadout().fit(scale * Z, Y).scores(scale * Z) for scale in (1.0, 100.0)]
    np.testing.assert_allclose(*scores, atol=1e-5)


def test_a_row_left_out_is_predicted_without_it(rows):
    Z, Y = rows
    readout = LinearReadout().fit(Z, Y)
    found = readout.loo_scores(Z[[7]], np.array([7]), Z, Y)[0]
    penalty = (Z.astype(np.float64) ** 2).sum() / len(Z) * np.eye(5)  # that of all rows
    others = np.delete(np.arange(60), 7)
    B = np.linalg.solve(Z[others].T @ Z[others] + penalty, Z[others].T @ Y[others].toarray())
    np.testing.assert_allclose(found, Z[7] @ B, atol=1e-4)
