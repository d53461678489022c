"""Measured means of the comparing methods beside the published ones, from results folders of `sldl reproduce`.

Prints the table of docs/baselines.md: in brackets the distance from the published mean in published standard
deviations. Below it, what lies more than two below, and what has fewer folds than the others. Of a fold that several
folders hold, the last one counts.
"""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean

from pysldl.baselines import BASELINES, RECONSTRUCTIONS
from pysldl.experiments.journal import Record, read_journal
from pysldl.experiments.outputs import unseen_as_in_the_paper
from pysldl.experiments.results import Summary, read_summaries

METRICS = ("P@1", "P@5", "PSP@5")
METHODS = (*BASELINES, "prior", "knn", "ovr", "ridge")
DATASETS = (
    "cal500",
    "stackex-coffee",
    "stackex-chess",
    "stackex-philosophy",
    "stackex-chemistry",
    "stackex-cs",
    "stackex-cooking",
    "corel16k-s1",
    "corel16k-s2",
    "corel16k-s3",
    "delicious",
)
FAR_BELOW = -2.0

Results = dict[tuple[str, str], dict[int, Record]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", nargs="+", type=Path, help="of `sldl reproduce --out`")
    parser.add_argument("--published", type=Path, required=True, help="columns metric, dataset, method, mean, std")
    parser.add_argument("--folds", type=int, default=10, help="of a complete row")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    results = read_results(options.folders)
    published = read_summaries(options.published)
    rows = [row_of(*key, list(results[key].values()), published) for key in ordered(results)]
    if options.json:
        print(json.dumps(rows))
        return
    print(table(rows))
    print()
    for row in rows:
        for metric in METRICS:
            distance = row[metric]["deviations"]
            if distance is not None and distance < FAR_BELOW:
                print(f"{row['dataset']}, {row['method']}, {metric}: {distance:+.1f} deviations")
        if row["folds"] < options.folds:
            print(f"{row['dataset']}, {row['method']}: {row['folds']} of {options.folds} folds")


def read_results(folders: Sequence[Path]) -> Results:
    """Records by data set and method, and in them by fold."""
    results: Results = {}
    for folder in folders:
        for journal in sorted(folder.glob("records/*/fold-*.jsonl")):
            for record in read_journal(journal)[0]:
                results.setdefault((record.dataset, record.method), {})[record.fold] = record
    return results


def plain(method: str) -> str:
    """The name of a method without the settings of a variant."""
    return method.partition(":")[0]


def ordered(results: Results) -> list[tuple[str, str]]:
    """Keys in the order of the page; what it does not know comes last."""

    def place(names: Sequence[str], name: str) -> tuple[int, str]:
        return (names.index(plain(name)) if plain(name) in names else len(names), name)

    return sorted(results, key=lambda key: (place(DATASETS, key[0]), place(METHODS, key[1])))


def row_of(dataset: str, method: str, records: list[Record], published: Sequence[Summary]) -> dict:
    """One row: folds, seconds to fit one, and of every metric the mean, the published mean and the distance."""
    unseen = unseen_as_in_the_paper(dataset)
    row = {
        "dataset": dataset,
        "method": method,
        "reconstruction": plain(method) in RECONSTRUCTIONS,
        "folds": len(records),
        "fit_seconds": fmean(record.fit_seconds for record in records),
    }
    theirs = {found.metric: found for found in published if (found.dataset, found.method) == (dataset, plain(method))}
    for metric in METRICS:
        mean, there = 100.0 * fmean(record.test[unseen][metric] for record in records), theirs.get(metric)
        distance = (mean - there.mean) / there.std if there and there.std else None
        row[metric] = {"mean": mean, "published": there.mean if there else None, "deviations": distance}
    return row


def table(rows: Sequence[dict]) -> str:
    """The rows as Markdown."""
    lines = ["| data set | method | folds | P@1: measured / published | P@5 | PSP@5 | fit s |", "| --- " * 7 + "|"]
    for row in rows:
        name = row["method"] + (" (reconstruction)" if row["reconstruction"] else "")
        cells = [_cell(**row[metric]) for metric in METRICS]
        lines.append(f"| {row['dataset']} | {name} | {row['folds']} | {' | '.join(cells)} | {row['fit_seconds']:.1f} |")
    return "\n".join(lines)


def _cell(mean: float, published: float | None, deviations: float | None) -> str:
    beside = "" if published is None else f" / {published:.2f}"
    return f"{mean:.2f}{beside}" + ("" if deviations is None else f" ({deviations:+.1f})")


if __name__ == "__main__":
    main()
