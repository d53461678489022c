"""The statistics of Section IV: t-tests against one method, average ranks, Friedman test, Nemenyi difference.

References
----------
.. [1] J. Demšar, "Statistical Comparisons of Classifiers over Multiple Data Sets", JMLR 7, 2006.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from pysldl.exceptions import DataError
from pysldl.experiments.stats.results import FoldRecord, Scores, Summary, fold_scores


@dataclass(frozen=True, slots=True)
class Comparison:
    """The reference method against another one, on one metric and data set."""

    metric: str
    dataset: str
    method: str
    reference: str
    difference: float  # mean of the reference minus mean of the method, in percent
    p_value: float  # of the two-tailed t-test
    test: Literal["paired", "unpaired"]  # over the folds, or from means and standard deviations alone

    def reference_better(self, alpha: float = 0.05) -> bool:
        """Whether the reference is significantly better: what the paper underlines."""
        return self.difference > 0 and self.p_value < alpha

    def reference_worse(self, alpha: float = 0.05) -> bool:
        """Whether the reference is significantly worse."""
        return self.difference < 0 and self.p_value < alpha


@dataclass(frozen=True, slots=True)
class RankTest:
    """Ranks of all methods on one metric, and the tests over them."""

    metric: str
    n_datasets: int  # that the ranks are over
    alpha: float  # significance level of the two critical values
    average_ranks: dict[str, float]  # as the paper prints them: methods that tie all take the smaller rank
    mid_ranks: dict[str, float]  # as the tests need them: methods that tie share the mean of their ranks
    friedman: float  # F_F; infinite where every data set gives the same order
    critical_value: float  # F_F above it: the methods are not all alike
    critical_difference: float  # mid-ranks that differ by at least this much differ significantly (Nemenyi)

    @property
    def p_value(self) -> float:
        """Probability of an F_F this large if all methods perform alike."""
        between = len(self.mid_ranks) - 1
        return float(stats.f.sf(self.friedman, between, between * (self.n_datasets - 1)))

    def nemenyi_p_values(self, reference: str) -> dict[str, float]:
        """Probability, for each other method, of a distance from ``reference`` this large if all perform alike."""
        k = len(self.mid_ranks)
        deviation = np.sqrt(k * (k + 1) / (6 * self.n_datasets))
        distances = {m: abs(rank - self.mid_ranks[reference]) for m, rank in self.mid_ranks.items() if m != reference}
        return {
            method: float(stats.studentized_range.sf(distance / deviation * np.sqrt(2), k, np.inf))
            for method, distance in distances.items()
        }

    @property
    def rejects_equality(self) -> bool:
        """Whether the Friedman test rejects that all methods perform alike."""
        return self.friedman > self.critical_value


def paired_p_value(first: Sequence[float], second: Sequence[float]) -> float:
    """Return the p-value of the two-tailed t-test of two methods' scores, paired over the same folds.

    The training parts of a cross-validation overlap, so the test overstates how sure a difference is; it is the one
    the field uses. Unlike SciPy's it takes differences that are all equal.
    """
    differences = np.subtract(first, second, dtype=np.float64)
    n = len(differences)
    if n < 2:
        raise DataError(f"a paired t-test needs at least two folds, got {n}.")
    error = differences.std(ddof=1) / np.sqrt(n)
    return _two_tailed(float(differences.mean()), float(error), n - 1)


def unpaired_p_value(mean_1: float, std_1: float, mean_2: float, std_2: float, n_folds: int = 10) -> float:
    """Return the p-value of Student's two-tailed t-test from means and standard deviations.

    This is all that a published table allows. Scores of the same folds go up and down together, so this test finds
    less than the paired one.
    """
    if n_folds < 2:
        raise DataError(f"a t-test needs at least two folds, got {n_folds}.")
    error = np.sqrt((std_1**2 + std_2**2) / n_folds)
    return _two_tailed(mean_1 - mean_2, float(error), 2 * n_folds - 2)


def _two_tailed(difference: float, error: float, degrees: int) -> float:
    if error == 0:
        return 1.0 if difference == 0 else 0.0
    return float(2 * stats.t.sf(abs(difference) / error, degrees))


def compare_folds(records: Sequence[FoldRecord], metric: str, reference: str) -> list[Comparison]:
    """Compare every method with the reference on every data set that has it, paired over the same folds."""
    scores = fold_scores(records, metric)
    comparisons = []
    for (dataset, method), per_fold in scores.items():
        of_reference = scores.get((dataset, reference))
        if method == reference or of_reference is None:
            continue
        if per_fold.keys() != of_reference.keys():
            lacking = sorted(per_fold.keys() ^ of_reference.keys())
            raise DataError(
                f"{dataset}: {method} and {reference} cannot be paired, since only one of them has the "
                f"folds {', '.join(map(str, lacking))}. Finish the run, or leave {method} out."
            )
        ours, theirs = list(of_reference.values()), list(per_fold.values())
        difference = float(np.mean(ours) - np.mean(theirs))
        p_value = paired_p_value(ours, theirs)
        comparisons.append(Comparison(metric, dataset, method, reference, difference, p_value, "paired"))
    return comparisons


def compare_summaries(rows: Sequence[Summary], metric: str, reference: str, n_folds: int = 10) -> list[Comparison]:
    """Compare every method with the reference on every data set, from means and standard deviations.

    Rows without a standard deviation, and data sets without the reference, are left out. `n_folds` stands for rows
    that do not say how many folds they are over.
    """
    known = {(row.dataset, row.method): row for row in rows if row.metric == metric and row.std is not None}
    comparisons = []
    for (dataset, method), row in known.items():
        ours = known.get((dataset, reference))
        if method == reference or ours is None or row.std is None or ours.std is None:
            continue
        n = min(ours.n_folds or n_folds, row.n_folds or n_folds)
        p_value = unpaired_p_value(ours.mean, ours.std, row.mean, row.std, n)
        comparisons.append(Comparison(metric, dataset, method, reference, ours.mean - row.mean, p_value, "unpaired"))
    return comparisons


def mean_ranks(scores: Scores, ties: Literal["average", "min"] = "average") -> dict[str, float]:
    """Rank the methods on each data set, highest score first, and average over the data sets.

    Methods that tie share the mean of the ranks they cover (``"average"``, mid-ranks, which the tests need) or all take
    the smaller one (``"min"``, which the paper prints).

    Examples
    --------
    >>> scores = Scores("P@1", ("x", "y"), ("A", "B", "C"), np.array([[70.0, 70.0, 60.0], [50.0, 40.0, 30.0]]))
    >>> mean_ranks(scores), mean_ranks(scores, "min")
    ({'A': 1.25, 'B': 1.75, 'C': 3.0}, {'A': 1.0, 'B': 1.5, 'C': 3.0})
    """
    ranks = stats.rankdata(-scores.values, method=ties, axis=1).mean(axis=0)
    return dict(zip(scores.methods, ranks.tolist(), strict=True))


def friedman_statistic(values: NDArray[np.float64]) -> float:
    """Return F_F, the Friedman statistic in Iman and Davenport's form, from scores (n_datasets, n_methods).

    With N data sets, k methods and mean ranks R_j,
    ``chi2 = 12 N / (k (k + 1)) (sum R_j**2 - k (k + 1)**2 / 4)`` and
    ``F_F = (N - 1) chi2 / (N (k - 1) - chi2)``. Ties are not corrected for, as in the paper; SciPy's test does that.
    """
    n, k = values.shape
    totals = stats.rankdata(-values, method="average", axis=1).sum(axis=0)
    # chi2 times N k (k + 1): half-integers only, hence exact, so that full agreement gives exactly infinity.
    scaled = 12 * float(totals @ totals) - 3 * n * n * k * (k + 1) ** 2
    remainder = n * n * k * (k + 1) * (k - 1) - scaled
    return float("inf") if remainder == 0 else (n - 1) * scaled / remainder


def critical_value(n_datasets: int, n_methods: int, alpha: float = 0.05) -> float:
    """Return the value of the F distribution that F_F must exceed."""
    between = n_methods - 1
    return float(stats.f.isf(alpha, between, between * (n_datasets - 1)))


def critical_difference(n_datasets: int, n_methods: int, alpha: float = 0.05) -> float:
    """Return the Nemenyi critical difference between average ranks."""
    quantile = stats.studentized_range.ppf(1 - alpha, n_methods, np.inf) / np.sqrt(2)
    return float(quantile * np.sqrt(n_methods * (n_methods + 1) / (6 * n_datasets)))


def rank_test(scores: Scores, alpha: float = 0.05) -> RankTest:
    """Rank the methods of one metric and test the ranks at the significance level ``alpha``."""
    if not 0 < alpha < 1:
        raise DataError(f"alpha is {alpha}; a significance level lies between 0 and 1, for example 0.05.")
    n_datasets, n_methods = scores.values.shape
    return RankTest(
        scores.metric,
        n_datasets,
        alpha,
        mean_ranks(scores, "min"),
        mean_ranks(scores),
        friedman_statistic(scores.values),
        critical_value(n_datasets, n_methods, alpha),
        critical_difference(n_datasets, n_methods, alpha),
    )


def indistinguishable_groups(ranks: Mapping[str, float], difference: float) -> list[list[str]]:
    """Return the largest groups of methods whose ranks all lie within `difference`, best group first.

    Groups of one are left out: these are the bars of a critical-difference diagram.

    Examples
    --------
    >>> indistinguishable_groups({"a": 1.0, "b": 2.0, "c": 2.5, "d": 4.0}, 1.6)
    [['a', 'b', 'c'], ['c', 'd']]
    """
    ordered = sorted(ranks, key=lambda method: ranks[method])
    groups: list[list[str]] = []
    reached = 0
    for start, first in enumerate(ordered):
        group = [method for method in ordered[start:] if ranks[method] - ranks[first] < difference]
        if len(group) > 1 and start + len(group) > reached:
            groups.append(group)
            reached = start + len(group)
    return groups
