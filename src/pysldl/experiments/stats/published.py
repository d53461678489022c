"""What the paper printed, read from CSV files, and whether measured means keep up with it."""

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from pysldl._utils.files import write_atomically
from pysldl.exceptions import DataError
from pysldl.experiments.report import Published
from pysldl.experiments.stats.results import Summary, read_summaries

__all__ = ["Agreement", "agreements", "read_published", "verdict", "write_comparison"]

ABLATION_FILE = "ablation_p_at_5.csv"
ABLATION_METRIC = "P@5"
LARGEST_SHORTFALL = 1.5


@dataclass(frozen=True, slots=True)
class Agreement:
    """One measured mean beside the published one of the reference method, both in per cent.

    ``deviations`` is measured minus published, in units of the published standard deviation.
    """

    dataset: str
    metric: str
    method: str
    measured: float
    measured_std: float
    published: float
    published_std: float

    @property
    def deviations(self) -> float:
        return (self.measured - self.published) / self.published_std


def read_published(path: Path) -> Published:
    """Read the paper's tables.

    Parameters
    ----------
    path : Path
        CSV file with the columns metric, dataset, method, mean and std, or the folder that holds it as
        ``results.csv``. Where ``ablation_p_at_5.csv`` (dataset, case, mean, std) lies beside it, that is read too.
    """
    results = path / "results.csv" if path.is_dir() else path
    ablation = results.parent / ABLATION_FILE
    return Published(read_summaries(results), _read_ablation(ablation) if ablation.is_file() else ())


def agreements(published: Sequence[Summary], measured: Sequence[Summary], reference: str) -> list[Agreement]:
    """Hold the measured means of every method against the published ones of the reference."""
    printed = {(row.metric, row.dataset): row for row in published if row.method == reference and row.std}
    found = []
    for row in measured:
        there = printed.get((row.metric, row.dataset))
        if there is not None and there.std:
            found.append(
                Agreement(row.dataset, row.metric, row.method, row.mean, row.std or 0.0, there.mean, there.std)
            )
    return found


def verdict(found: Sequence[Agreement]) -> tuple[bool, str]:
    """Whether no mean falls 1.5 published deviations short and the average is not below the paper's; in words."""
    if not found:
        return False, "nothing was measured that the paper printed too"
    worst = min(found, key=lambda agreement: agreement.deviations)
    average = fmean(agreement.deviations for agreement in found)
    holds = worst.deviations > -LARGEST_SHORTFALL and average >= 0
    return holds, (
        f"{len(found)} means; lowest {worst.deviations:+.2f} published deviations ({worst.metric} on {worst.dataset}; "
        f"must be above {-LARGEST_SHORTFALL}), average {average:+.3f} (must be at least 0): "
        f"{'holds' if holds else 'does not hold'}"
    )


def write_comparison(found: Sequence[Agreement], path: Path) -> Path:
    """Write measured and published means side by side, as CSV."""
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(
        ["dataset", "metric", "method", "measured", "measured_std", "published", "published_std", "deviations"]
    )
    for row in found:
        numbers = (row.measured, row.measured_std, row.published, row.published_std, row.deviations)
        writer.writerow([row.dataset, row.metric, row.method, *(f"{number:.6f}" for number in numbers)])
    return write_atomically(path, text.getvalue())


def _read_ablation(path: Path) -> list[Summary]:
    """The ablation table, which says "case" for method and leaves out the metric."""
    rows = list(csv.DictReader(io.StringIO(path.read_text(encoding="utf-8-sig"), newline="")))
    try:
        return [
            Summary(ABLATION_METRIC, row["dataset"], row["case"], float(row["mean"]), float(row["std"])) for row in rows
        ]
    except (KeyError, TypeError, ValueError) as error:
        raise DataError(f"{path}: expected the columns dataset, case, mean and std with numbers ({error}).") from error
