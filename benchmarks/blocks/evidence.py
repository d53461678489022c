"""What the documents are made from: records of benchmarks, exports of `sldl reproduce`, and the paper's figures.

A record that was measured again is preferred to one in ``results/earlier``, and every block says which it used.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, wraps
from pathlib import Path
from typing import Any

from blocks.text import NOT_RECORDED
from pysldl.datasets.files import csv_rows
from pysldl.experiments.run.archive import Archive
from pysldl.experiments.run.protocol import Protocol
from pysldl.experiments.stats.results import FoldRecord, Measurements, Selection, Summary, read_published
from records import RESULTS, read_rows

__all__ = [
    "BASELINES",
    "CONTROLS",
    "DATASETS",
    "EARLIER",
    "METRICS",
    "PAPER_METHODS",
    "REFERENCE",
    "Evidence",
    "Mean",
    "Rows",
    "from_record",
]

REFERENCE = "SLDL"
BASELINES = ("SLEEC", "DXML", "FL", "CB", "DB", "PACA", "FLEM", "DELA", "CLIF", "KD-TEA", "AdaC2")
PAPER_METHODS = (*BASELINES, REFERENCE)
CONTROLS = ("prior", "knn", "ovr", "ridge")
METRICS = ("P@1", "P@3", "P@5", "nDCG@3", "nDCG@5", "PSP@1", "PSP@5", "PSnDCG@5")
DATASETS = (
    "cal500",
    "corel16k-s1",
    "corel16k-s2",
    "corel16k-s3",
    "delicious",
    "stackex-chemistry",
    "stackex-chess",
    "stackex-coffee",
    "stackex-cooking",
    "stackex-cs",
    "stackex-philosophy",
)
EARLIER = "†"  # beside a figure that was measured before records were kept
ABLATION_RUN = "ablation"


@dataclass(frozen=True)
class Rows:
    """Rows of one record.

    Parameters
    ----------
    rows : list of dict
    name : str
        Of its file, below ``results/``.
    earlier : bool
        Measured before records were kept.
    """

    rows: list[dict[str, Any]]
    name: str
    earlier: bool

    def __bool__(self) -> bool:
        return bool(self.rows)

    def where(self, **wanted: Any) -> list[dict[str, Any]]:
        """The rows with these values."""
        return [row for row in self.rows if all(row.get(key) == value for key, value in wanted.items())]

    @property
    def source(self) -> str:
        """A sentence that says where the figures come from."""
        return source(self.rows, f"results/{self.name}", self.earlier)


def source(rows: Sequence[dict[str, Any]], place: str, earlier: bool = False) -> str:
    """A sentence that says where figures come from, when they were measured and on what."""
    if earlier:
        return f"*Measured before records were kept (`{place}`): versions, processor and single runs are not known.*"
    dates = sorted({row["date"] for row in rows if row.get("date")})
    when = " to ".join(dict.fromkeys((dates[0], dates[-1]))) if dates else "at an unknown date"
    machines = dict.fromkeys(f"{row['processor']}, {row['cores']} cores" for row in rows if row.get("processor"))
    on = f" on {' and on '.join(machines)}" if machines else ""
    return f"*Measured {when}{on} (`{place}`).*"


def from_record(name: str) -> Callable[[Callable[[Rows], str]], Callable[["Evidence"], str]]:
    """Make a block of a function from the rows of a record to Markdown; a sentence on their source follows it."""

    def block_of(show: Callable[[Rows], str]) -> Callable[["Evidence"], str]:
        @wraps(show)
        def block(evidence: Evidence) -> str:
            found = evidence.rows(name)
            return f"{show(found)}\n\n{found.source}" if found else NOT_RECORDED

        return block

    return block_of


@dataclass(frozen=True)
class Mean:
    """A mean over folds in percent; ``std`` is None where it is not known."""

    mean: float
    std: float | None
    n_folds: int
    earlier: bool = False


@dataclass
class Evidence:
    """All records below a folder, read when they are asked for."""

    folder: Path = RESULTS
    _archives: dict[str, Archive] = field(default_factory=dict)
    _exports: dict[tuple[str, Selection], Measurements] = field(default_factory=dict)

    def rows(self, name: str) -> Rows:
        """A record by its name, such as ``"peers"``: the present one, else the earlier one, else no rows."""
        fresh = read_rows(self.folder / f"{name}.csv")
        if fresh:
            return Rows(fresh, f"{name}.csv", False)
        return Rows(read_rows(self.folder / "earlier" / f"{name}.csv"), f"earlier/{name}.csv", True)

    def earlier(self, name: str) -> Rows:
        """A record from before records were kept."""
        return Rows(read_rows(self.folder / "earlier" / f"{name}.csv"), f"earlier/{name}.csv", True)

    @cached_property
    def published(self) -> list[Summary]:
        """The paper's tables, of the data sets at hand."""
        return list(read_published(self.folder / "published.csv").results)

    @cached_property
    def published_ablation(self) -> list[Summary]:
        return list(read_published(self.folder / "published.csv").ablation)

    @cached_property
    def published_means(self) -> dict[tuple[str, str, str], Summary]:
        """By data set, method and metric."""
        return {(row.dataset, row.method, row.metric): row for row in self.published}

    @cached_property
    def export_names(self) -> list[str]:
        """Exports of `sldl reproduce` over the grid of the paper: all folders below reproduction/ but the ablation."""
        found = sorted(path.parent.name for path in (self.folder / "reproduction").glob("*/settings.json"))
        return [name for name in found if name != ABLATION_RUN]

    def export(self, name: str, selection: Selection = "nested") -> Measurements | None:
        """Results of an export, or None where there is none."""
        archive = self._archive(name)
        if archive is not None and (name, selection) not in self._exports:
            self._exports[name, selection] = archive.measurements(selection)
        return self._exports.get((name, selection))

    def protocol(self, name: str) -> Protocol | None:
        """The protocol of an export, or None where there is none."""
        archive = self._archive(name)
        return None if archive is None else archive.protocol

    def _archive(self, name: str) -> Archive | None:
        folder = self.folder / "reproduction" / name
        if name not in self._archives and (folder / "settings.json").is_file():
            self._archives[name] = Archive.read(folder)
        return self._archives.get(name)

    @cached_property
    def ablation_run(self) -> str:
        """The export that holds the ablation: its own, at one width, or that over the whole grid."""
        if self.export(ABLATION_RUN) is None and self.export("paper") is not None:
            titles = {row.method for row in self.export("paper").summaries}
            return "paper" if "w/o AC" in titles else ABLATION_RUN
        return ABLATION_RUN

    def fold_records(self) -> list[FoldRecord]:
        """Fold records of all exports over the grid; of a method and data set in several, the first has them."""
        found: dict[tuple[str, str], list[FoldRecord]] = {}
        for name in self.export_names:
            export = self.export(name)
            of_export: dict[tuple[str, str], list[FoldRecord]] = {}
            for record in export.records:
                of_export.setdefault((record.dataset, record.method), []).append(record)
            for key, records in of_export.items():
                if len(records) == export.n_folds:
                    found.setdefault(key, records)
        return [record for records in found.values() for record in records]

    def export_source(self, *names: str) -> str:
        """Where the figures of exports come from."""
        kept = [name for name in names if self.export(name) is not None]
        rows = []
        for name in kept:
            rows += [cells for _, cells in csv_rows(self.folder / "reproduction" / name / "runs.csv")]
        return source(rows, "`, `".join(f"results/reproduction/{name}" for name in kept))

    @cached_property
    def means(self) -> dict[tuple[str, str, str], Mean]:
        """Measured means by data set, method and metric; earlier ones only where there is nothing else."""
        found: dict[tuple[str, str, str], Mean] = {}
        for name in ("reproduction", "baselines", "accurate"):
            for row in self.earlier(name).rows:
                for metric in METRICS:
                    if row.get(metric) is not None:
                        key = (row["dataset"], row["method"], metric)
                        found[key] = Mean(float(row[metric]), None, int(row["folds"]), earlier=True)
        for name in reversed(self.export_names):
            export = self.export(name)
            whole = {(row.dataset, row.method) for row in export.summaries}
            for key in [key for key in found if key[:2] in whole]:
                del found[key]  # a row is of one time, not of two
            for row in export.summaries:
                found[row.dataset, row.method, row.metric] = Mean(row.mean, row.std, row.n_folds or 0)
        return found

    @cached_property
    def fit_seconds(self) -> dict[tuple[str, str], tuple[float, bool]]:
        """Mean seconds to fit a fold with the chosen configuration, by data set and method; whether earlier."""
        found = {(row["dataset"], row["method"]): (float(row["fit_s"]), True) for row in self.earlier("baselines").rows}
        by_key: dict[tuple[str, str], list[float]] = {}
        for record in self.fold_records():
            by_key.setdefault((record.dataset, record.method), []).append(record.fit_seconds)
        return found | {key: (sum(values) / len(values), False) for key, values in by_key.items()}

    def marked(self, mean: Mean | None, decimals: int = 2, with_std: bool = False) -> str:
        """A mean as text, with a mark where it was measured before records were kept."""
        if mean is None:
            return "–"
        beside = f" ± {mean.std:.{decimals}f}" if with_std and mean.std is not None else ""
        return f"{mean.mean:.{decimals}f}{beside}{EARLIER if mean.earlier else ''}"
