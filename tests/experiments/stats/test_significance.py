"""The statistics: against scipy where it has the test, and on cases that can be counted by hand."""

import numpy as np
import pytest
from fold_records import make_record
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import stats

from pysldl.exceptions import DataError
from pysldl.experiments.stats.results import FoldRecord, Scores, Summary
from pysldl.experiments.stats.significance import (
    compare_folds,
    compare_summaries,
    critical_difference,
    friedman_statistic,
    indistinguishable_groups,
    mean_ranks,
    paired_p_value,
    rank_test,
    unpaired_p_value,
)

folds = hnp.arrays(np.float64, 10, elements=st.integers(0, 10_000).map(lambda i: i / 100))


@given(folds, folds)
def test_paired_test_is_scipys(first: np.ndarray, second: np.ndarray) -> None:
    if np.ptp(first - second) < 1e-6:
        return  # scipy warns of lost precision there; the next test says what we do
    assert paired_p_value(first, second) == pytest.approx(stats.ttest_rel(first, second).pvalue, rel=1e-6)


def test_constant_differences() -> None:
    assert paired_p_value([1, 2, 3], [1, 2, 3]) == 1
    assert paired_p_value([2, 3, 4], [1, 2, 3]) == 0
    assert unpaired_p_value(1, 0, 1, 0) == 1


def test_unpaired_test_is_scipys() -> None:
    expected = stats.ttest_ind_from_stats(60, 2, 10, 58, 3, 10).pvalue
    assert unpaired_p_value(60, 2, 58, 3, 10) == pytest.approx(expected)


def test_t_tests_need_two_folds() -> None:
    with pytest.raises(DataError, match="at least two folds"):
        paired_p_value([1], [2])
    with pytest.raises(DataError, match="at least two folds"):
        unpaired_p_value(1, 1, 2, 1, 1)


@given(hnp.arrays(np.float64, (6, 4), elements=st.floats(0, 100), unique=True))
def test_friedman_agrees_with_scipys_chi_square(values: np.ndarray) -> None:
    n, k = values.shape
    chi2 = stats.friedmanchisquare(*values.T).statistic
    if chi2 > n * (k - 1) - 1e-6:
        assert friedman_statistic(values) > 1e6
    else:
        assert friedman_statistic(values) == pytest.approx((n - 1) * chi2 / (n * (k - 1) - chi2), abs=1e-9)


def test_friedman_at_its_ends() -> None:
    same_order = np.tile([3.0, 2.0, 1.0], (7, 1))
    assert friedman_statistic(same_order) == np.inf
    assert friedman_statistic(np.ones((7, 3))) == 0


def test_nemenyi_difference_is_demsars() -> None:
    """Demšar's Table 5 gives q(0.05) = 2.569 for four methods; his example is on 14 data sets."""
    assert critical_difference(14, 4) == pytest.approx(2.569 * np.sqrt(4 * 5 / (6 * 14)), abs=1e-3)


def test_rank_test_names_its_methods() -> None:
    values = np.array([[70.0, 70.0, 60.0], [50.0, 40.0, 30.0]])
    test = rank_test(Scores("P@1", ("x", "y"), ("A", "B", "C"), values))
    assert test.average_ranks == {"A": 1.0, "B": 1.5, "C": 3.0}
    assert test.mid_ranks == {"A": 1.25, "B": 1.75, "C": 3.0}
    with pytest.raises(DataError, match="alpha is 5"):
        rank_test(Scores("P@1", ("x", "y"), ("A", "B", "C"), values), alpha=5)


@given(st.lists(st.floats(1, 12), min_size=1, max_size=12), st.floats(0.1, 12))
def test_groups_are_exactly_the_close_pairs(ranks: list[float], difference: float) -> None:
    named = {f"m{i}": rank for i, rank in enumerate(ranks)}
    groups = indistinguishable_groups(named, difference)
    joined = {frozenset((a, b)) for group in groups for a in group for b in group if a != b}
    close = {frozenset((a, b)) for a in named for b in named if a != b and abs(named[a] - named[b]) < difference}
    assert joined == close
    assert not any(set(a) < set(b) for a in groups for b in groups)


def test_comparison_over_folds_is_paired(records: list[FoldRecord]) -> None:
    found = {(c.dataset, c.method): c for c in compare_folds(records, "P@1", "SLDL")}
    assert len(found) == 6
    for dataset in ("birds", "emotions", "a|b_c"):
        against_random, against_ablation = found[dataset, "random"], found[dataset, "w/o AC"]
        assert against_random.test == "paired"
        assert against_random.difference == pytest.approx(10, abs=1)
        assert against_random.reference_better() and not against_random.reference_worse()
        assert abs(against_ablation.difference) < 1
    swapped = {(c.dataset, c.method): c for c in compare_folds(records, "P@1", "random")}
    assert swapped["birds", "SLDL"].reference_worse()


def test_other_folds_cannot_be_paired() -> None:
    made = [make_record("birds", m, fold, 0.5) for m in ("A", "SLDL") for fold in range(3)]
    with pytest.raises(DataError, match=r"birds: A and SLDL cannot be paired.* folds 2"):
        compare_folds(made[:-1], "P@1", "SLDL")


def test_summaries_without_deviation_or_reference_are_left_out() -> None:
    rows = [
        Summary("P@1", "x", "SLDL", 60, 1),
        Summary("P@1", "x", "A", 50, 1),
        Summary("P@1", "x", "B", 50),
        Summary("P@1", "y", "A", 50, 1),
    ]
    found = compare_summaries(rows, "P@1", "SLDL")
    assert [(c.dataset, c.method, c.test) for c in found] == [("x", "A", "unpaired")]
    assert found[0].reference_better()


def test_ranks_use_every_row() -> None:
    scores = Scores("P@1", ("x", "y", "z"), ("A", "B"), np.array([[1.0, 2.0], [2.0, 1.0], [5.0, 1.0]]))
    assert mean_ranks(scores) == pytest.approx({"A": 4 / 3, "B": 5 / 3})
