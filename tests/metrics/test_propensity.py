"""Inverse propensities: values worked out by hand, edges of the formula, bad input."""

import numpy as np
import pytest
from scipy.sparse import csr_array, csr_matrix

from pysldl.exceptions import DataError
from pysldl.metrics import inverse_propensity, inverse_propensity_from_counts


def test_golden_values():
    # A = 0.5, B = 3, N = 1000: C = (ln 1000 - 1) * sqrt(4) = 5.907755279 * 2 = 11.815510558
    #   N_k =  1: 1 + C / sqrt(4)  = 1 + C / 2  = 6.907755279
    #   N_k = 13: 1 + C / sqrt(16) = 1 + C / 4  = 3.953877639
    #   N_k = 97: 1 + C / sqrt(100) = 1 + C / 10 = 2.181551056
    weights = inverse_propensity_from_counts([1, 13, 97], n_samples=1000, A=0.5, B=3)
    np.testing.assert_allclose(weights, [6.907755279, 3.953877639, 2.181551056], rtol=0, atol=5e-10)


def test_a_label_that_occurs_once_weighs_the_logarithm_of_the_rows():
    # N_k = 1 cancels A and B: 1 + (ln N - 1) (B + 1)^A (1 + B)^-A = ln N
    for A, B in [(0.55, 1.5), (0.5, 0.4), (0.6, 2.6)]:
        weight = inverse_propensity_from_counts([1], 5000, A, B)
        np.testing.assert_allclose(weight, np.log(5000), rtol=1e-12)


def test_a_label_that_never_occurs_is_finite_and_the_heaviest():
    # 1 + (ln 100 - 1) * (2.5 / 1.5)^0.55 = 1 + 3.605170186 * 1.324393 = 5.774663
    weights = inverse_propensity_from_counts([0, 1, 50], 100)
    assert weights[0] == pytest.approx(5.774663, abs=2e-6)
    assert np.all(np.diff(weights) < 0)


@pytest.mark.parametrize("n_samples", [1, 2])
def test_very_few_rows_never_give_a_weight_below_one(n_samples):
    assert inverse_propensity_from_counts([0, 1], n_samples).tolist() == [1.0, 1.0]


@pytest.mark.parametrize("container", [np.asarray, csr_array, csr_matrix])
@pytest.mark.parametrize("dtype", [bool, np.int64, np.float32])
def test_indicator_and_counts_agree(container, dtype):
    Y = np.array([[1, 0, 0], [1, 1, 0], [0, 1, 0], [1, 0, 0]], dtype=dtype)
    expected = inverse_propensity_from_counts([3, 2, 0], 4, A=0.6, B=2.6)
    np.testing.assert_array_equal(inverse_propensity(container(Y), A=0.6, B=2.6), expected)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"counts": [[1, 2]]}, "shape"),
        ({"counts": []}, "shape"),
        ({"counts": [1, -1]}, "label 1 has -1"),
        ({"counts": [11]}, "between 0 and n_samples = 10"),
        ({"counts": [np.nan]}, "between 0"),
        ({"n_samples": 0}, "n_samples"),
        ({"A": -0.1}, "A must be"),
        ({"A": np.nan}, "A must be"),
        ({"B": 0.0}, "B must be"),
        ({"B": np.inf}, "B must be"),
    ],
)
def test_bad_input_is_refused(changed, message):
    arguments = {"counts": [1, 2], "n_samples": 10, "A": 0.55, "B": 1.5} | changed
    with pytest.raises(DataError, match=message):
        inverse_propensity_from_counts(**arguments)


def test_a_bad_indicator_is_refused():
    with pytest.raises(DataError, match="only 0 and 1"):
        inverse_propensity([[0, 2]])
