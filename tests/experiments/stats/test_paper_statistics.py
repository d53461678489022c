"""Fed with the paper's printed means, the statistics return the paper's own figures."""

import csv
from pathlib import Path

import numpy as np
import pytest

from pysldl.experiments.stats.results import Summary, scores_by_metric
from pysldl.experiments.stats.significance import Comparison, RankTest, compare_summaries, rank_test


def table(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def tests_by_metric(paper_rows: list[Summary]) -> dict[str, RankTest]:
    return {metric: rank_test(scores) for metric, scores in scores_by_metric(paper_rows).items()}


@pytest.fixture(scope="module")
def comparisons(paper_rows: list[Summary], tests_by_metric: dict[str, RankTest]) -> list[Comparison]:
    return [c for metric in tests_by_metric for c in compare_summaries(paper_rows, metric, "SLDL", n_folds=10)]


def test_friedman_statistics_to_four_decimals(paper_dir: Path, tests_by_metric: dict[str, RankTest]) -> None:
    printed = table(paper_dir / "friedman.csv")
    assert len(printed) == 8
    for row in printed:
        test = tests_by_metric[row["metric"]]
        assert f"{test.friedman:.4f}" == row["F_F"]
        assert f"{test.critical_value:.4f}" == row["critical_value_0.05"] == "1.8513"
        assert test.rejects_equality


def test_average_ranks_to_two_decimals(paper_dir: Path, tests_by_metric: dict[str, RankTest]) -> None:
    printed = table(paper_dir / "average_ranks.csv")
    assert len(printed) == 96
    for row in printed:
        rank = tests_by_metric[row["metric"]].average_ranks[row["method"]]
        assert f"{rank:.2f}" == row["average_rank"], row


def test_critical_difference(tests_by_metric: dict[str, RankTest]) -> None:
    for test in tests_by_metric.values():
        assert (test.n_datasets, len(test.average_ranks)) == (15, 12)
        assert f"{test.critical_difference:.4f}" == "4.3025"


def test_sldl_is_first_or_second_in_111_of_120(paper_rows: list[Summary]) -> None:
    first_or_second = total = 0
    for scores in scores_by_metric(paper_rows).values():
        own = scores.values[:, [scores.methods.index("SLDL")]]
        ranks = 1 + np.sum(scores.values > own, axis=1)
        first_or_second += int(np.sum(ranks <= 2))
        total += len(ranks)
    assert (first_or_second, total) == (111, 120)


def test_1272_of_1320_comparisons_are_marked(paper_dir: Path, comparisons: list[Comparison]) -> None:
    """The paper marks exactly the comparisons in which SLDL's printed mean is the higher one."""
    printed = {
        (row["metric"], row["dataset"], row["method"]): row["sldl_significantly_better"] == "1"
        for row in table(paper_dir / "results.csv")
        if row["method"] != "SLDL"
    }
    higher = {(c.metric, c.dataset, c.method): c.difference > 0 for c in comparisons}
    assert higher == printed
    assert (sum(higher.values()), len(higher)) == (1272, 1320)


def test_printed_deviations_support_1105_of_the_marks(comparisons: list[Comparison]) -> None:
    """From the printed means and deviations (ten folds, unpaired) fewer marks follow, and none beyond the paper's."""
    significant = [c for c in comparisons if c.reference_better()]
    assert all(c.difference > 0 for c in significant)
    assert len(significant) == 1105
