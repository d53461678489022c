"""Puts the measured tables of results folders of `sldl reproduce` into docs/reproduction.md, between its markers.

A table starts at `<!-- measured: NAME -->` and ends at `<!-- end -->`. Without --write the tables are printed.
"""

import argparse
import json
import re
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from statistics import fmean

from pysldl.experiments.methods import ABLATION, REFERENCE, find_methods
from pysldl.experiments.outputs import Results, collect, unseen_as_in_the_paper
from pysldl.experiments.protocol import Protocol
from pysldl.experiments.published import agreements, read_published
from pysldl.experiments.results import Selection, Summary
from pysldl.experiments.run_folder import RunFolder
from pysldl.experiments.runner import Run
from pysldl.experiments.scoring import PAPER_METRICS
from pysldl.experiments.significance import compare_folds

METRICS = ("P@5", "PSP@5")
ALPHA = 0.05
BLOCK = "<!-- measured: {name} -->\n{text}\n<!-- end -->"


def open_run(folder: Path) -> Run:
    """The finished run in a results folder."""
    stored = json.loads((folder / "run.json").read_text(encoding="utf-8"))
    if stored["protocol"].keys() != Protocol().as_json().keys():
        raise SystemExit(f"{folder} holds results of another version of the protocol: run `sldl reproduce` again.")
    settings = {key: tuple(value) if isinstance(value, list) else value for key, value in stored["protocol"].items()}
    protocol = Protocol(**settings)
    datasets = sorted(path.name for path in (folder / "records").iterdir() if path.is_dir())
    methods = find_methods(stored["methods"])
    return Run(RunFolder(folder, protocol), datasets, methods, tuple(range(protocol.n_folds)), [])


def chosen(run: Run, selection: Selection = "nested") -> Results:
    """One configuration a fold, unseen labels treated as in the paper."""
    return collect(run, selection, unseen_as_in_the_paper)


def settings_text(run: Run) -> str:
    """The grid and the parts of the rows, in one sentence."""
    protocol = run.folder.protocol
    grid = f"c_hat in {_listed(protocol.c_hats)}, k in {_listed(protocol.ks)}"
    rows = f"as many tenths of the training rows as hold {protocol.validation_rows} rows"
    return f"{protocol.n_folds} folds; {grid}, chosen in each fold on {rows}."


def agreement_text(results: Results, published: Sequence[Summary]) -> str:
    """Means of the reference, and their distances from the published ones in published deviations."""
    of_reference = [row for row in results.summaries if row.method == REFERENCE]
    found = {(row.dataset, row.metric): row for row in agreements(published, of_reference, REFERENCE)}
    rows = []
    for dataset in dict.fromkeys(dataset for dataset, _ in found):
        cells = (found[dataset, metric] for metric in PAPER_METRICS)
        rows.append([dataset, *(f"{cell.measured:.2f} ({cell.deviations:+.1f})" for cell in cells)])
    return _table(["data set", *PAPER_METRICS], rows)


def selections_text(run: Run, published: Sequence[Summary]) -> str:
    """Average and lowest distance of every method, for both ways of choosing."""
    titles = [method.title for method in run.methods]
    rows = []
    for selection in ("nested", "as-published"):
        found = agreements(published, chosen(run, selection).summaries, REFERENCE)
        cells = []
        for title in titles:
            distances = [a.deviations for a in found if a.method == title]
            cells.append(f"{fmean(distances):+.2f} ({min(distances):+.2f})" if distances else "-")
        rows.append([selection, *cells])
    return _table(["selection", *titles], rows)


def differences_text(results: Results) -> str:
    """The reference's mean and what it is ahead of every variant, with a star where the paired t-test says so."""
    means = {(row.dataset, row.metric, row.method): row.mean for row in results.summaries}
    finished = {(dataset, method) for dataset, _, method in means}
    records = [record for record in results.measurements.records if (record.dataset, record.method) in finished]
    variants = [title for title in ABLATION if any(method == title for _, method in finished)]
    datasets = sorted(dataset for dataset, method in finished if method == REFERENCE)
    header, rows, tally = ["data set"], [[dataset] for dataset in datasets], ["significantly ahead / behind"]
    for metric in METRICS:
        tests = {(test.dataset, test.method): test for test in compare_folds(records, metric, REFERENCE)}
        header.append(f"{metric}: {REFERENCE}")
        tally.append("")
        for row in rows:
            row.append(f"{means[row[0], metric, REFERENCE]:.2f}")
        for variant in variants:
            of_variant = [tests.get((dataset, variant)) for dataset in datasets]
            for row, test in zip(rows, of_variant, strict=True):
                row.append("-" if test is None else f"{test.difference:+.2f}{'*' if test.p_value < ALPHA else ''}")
            ahead = sum(test is not None and test.reference_better(ALPHA) for test in of_variant)
            behind = sum(test is not None and test.reference_worse(ALPHA) for test in of_variant)
            header.append(f"ahead of {variant}")
            tally.append(f"{ahead} / {behind}")
    return _table(header, [*rows, tally])


def fill(text: str, blocks: dict[str, str]) -> str:
    """The page with every block put at its marker; a marker that the page lacks is an error."""
    for name, block in blocks.items():
        pattern = re.compile(rf"<!-- measured: {re.escape(name)} -->\n.*?\n<!-- end -->", re.DOTALL)
        if len(pattern.findall(text)) != 1:
            raise SystemExit(f"the page needs one marker <!-- measured: {name} --> with an <!-- end --> after it.")
        before, after = pattern.split(text)
        text = before + BLOCK.format(name=name, text=block) + after
    return text


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _listed(values: Sequence[int]) -> str:
    steps = {after - before for before, after in pairwise(values)}
    if len(values) > 3 and len(steps) == 1:
        return f"{values[0]}, {values[1]}, ..., {values[-1]}"
    return ", ".join(map(str, values))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--paper", type=Path, help="results folder of SLDL and its controls over the full grid")
    parser.add_argument("--ablation", type=Path, help="results folder of the ablation")
    parser.add_argument("--published", type=Path, help="the paper's results.csv; needed with --paper")
    parser.add_argument("--write", type=Path, metavar="PAGE", help="the page to put the tables into")
    options = parser.parse_args()
    blocks = {}
    if options.paper:
        if options.published is None:
            parser.error("--paper needs --published")
        run, published = open_run(options.paper), read_published(options.published).results
        results = chosen(run)
        blocks["settings"] = settings_text(run)
        blocks["agreement"] = agreement_text(results, published)
        blocks["selections"] = selections_text(run, published)
        blocks["controls"] = differences_text(results)
    if options.ablation:
        run = open_run(options.ablation)
        blocks["ablation-settings"] = settings_text(run)
        blocks["ablation"] = differences_text(chosen(run))
    if options.write:
        page = options.write.read_text(encoding="utf-8")
        options.write.write_text(fill(page, blocks), encoding="utf-8")
    else:
        print("\n\n".join(BLOCK.format(name=name, text=text) for name, text in blocks.items()))


if __name__ == "__main__":
    main()
