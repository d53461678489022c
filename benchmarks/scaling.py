"""Does the cost follow the rows and their nonzeros, or the number of labels? From a thousand labels to a million.

Synthetic rows: features and assignments stay as many as they are while the labels grow. Each number of labels runs in
a process of its own and, once finished, is a JSON file in the results folder; what has its file is not run again.
"""

import argparse
import json
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from measuring import Clock, WorkerError, answer, measured_apart
from pysldl import SLDLClassifier
from pysldl._utils.files import slug, write_atomically
from pysldl.estimator.size_dispatch import ProblemSize, for_size
from pysldl.experiments.report.tables import Cell, Row, Table, write_table
from pysldl.metrics import evaluate
from records import add_record_option, write_rows
from specification import check_preset, read_preset
from stages import stages_watched

# Beside the presets, the way through the latent space: sparse label graph, ridge regression, votes of neighbors.
PIPELINES = {
    "latent": "paper(embedding=GaussianLabelEmbedding(128, cooccurrence='count', graph='sparse'), "
    "mapping=RidgeMapping(early_stopping=True))"
}
MEMORY_LIMIT_MB = 12e9 / 2**20
MOST_GROWTH = 1.3
NOTHING_RAN = 2e-4  # seconds: to ask a stage that is not used is no work that could grow

LABELS_PER_ROW = 5
TERMS_PER_ROW = 40
OWN_TERMS = 0.7
WARM_UP_ROWS = 500


def zipf_rows(
    n_rows: int, n_features: int, n_labels: int, exponent: float, seed: int
) -> tuple[sparse.csr_array, sparse.csr_array]:
    """Rows with five labels and forty terms each, whatever the number of labels.

    Labels are drawn by Zipf's law: the j-th label with a probability proportional to ``1 / j ** exponent``. A row has
    one term in each of forty equal ranges of features: either a term that belongs to one of its labels or, three times
    in ten, any.

    Returns
    -------
    X : csr_array of shape (n_rows, n_features), float32
    Y : csr_array of shape (n_rows, n_labels), float32
    """
    rng = np.random.default_rng(seed)
    labels = _distinct_labels(rng, n_rows, n_labels, exponent)
    width = n_features // TERMS_PER_ROW
    source = labels[:, np.arange(TERMS_PER_ROW) % LABELS_PER_ROW]
    own = _hashed(source, np.arange(TERMS_PER_ROW)) % width
    terms = np.where(rng.random(own.shape) < OWN_TERMS, own, rng.integers(0, width, own.shape))
    terms += width * np.arange(TERMS_PER_ROW)
    weights = rng.random(terms.shape, dtype=np.float32) + np.float32(0.5)
    return _rows(terms, weights, n_features), _rows(
        np.sort(labels, axis=1), np.ones(labels.shape, np.float32), n_labels
    )


def _distinct_labels(rng: np.random.Generator, n_rows: int, n_labels: int, exponent: float) -> NDArray[np.int64]:
    """Five different labels a row: rows in which one came twice are drawn again."""
    cumulative = np.cumsum(np.arange(1, n_labels + 1, dtype=np.float64) ** -exponent)
    labels = np.zeros((n_rows, LABELS_PER_ROW), dtype=np.int64)
    again = np.arange(n_rows)
    while again.size:
        drawn = rng.random((again.size, LABELS_PER_ROW)) * cumulative[-1]
        labels[again] = np.searchsorted(cumulative, drawn, side="right")
        again = again[(np.diff(np.sort(labels[again], axis=1), axis=1) == 0).any(axis=1)]
    return labels


def _hashed(labels: NDArray[np.int64], place: NDArray[np.int64]) -> NDArray[np.int64]:
    """A fixed number, as good as random, for each label and place."""
    mixed = (labels * 2654435761 + place * 40503) & 0xFFFFFFFF
    mixed = ((mixed ^ (mixed >> 15)) * 2246822519) & 0xFFFFFFFF
    return mixed ^ (mixed >> 13)


def _rows(columns: NDArray[np.int64], values: NDArray[np.float32], n_columns: int) -> sparse.csr_array:
    n_rows, per_row = columns.shape
    indptr = np.arange(0, n_rows * per_row + 1, per_row, dtype=np.int32)
    return sparse.csr_array((values.ravel(), columns.ravel().astype(np.int32), indptr), shape=(n_rows, n_columns))


def read_pipeline(name: str) -> SLDLClassifier:
    """A classifier by its name here, or as :func:`~specification.read_preset` takes it."""
    return read_preset(PIPELINES.get(name, name))


def measure(options: dict[str, Any]) -> dict[str, Any]:
    """One number of labels: seconds and memory of every stage of fit and of prediction."""
    n_rows, n_test = options["rows"], options["test_rows"]
    X, Y = zipf_rows(n_rows + n_test, options["features"], options["labels"], options["exponent"], seed=0)
    X, X_test, Y, Y_test = X[:n_rows], X[n_rows:], Y[:n_rows], Y[n_rows:]
    clock = Clock()
    with clock("warm-up"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        few = slice(0, WARM_UP_ROWS)
        for_size(read_pipeline(options["preset"]), ProblemSize.of(X, Y)).fit(X[few], Y[few]).predict_topk(
            X_test[few], k=5
        )
    classifier = for_size(read_pipeline(options["preset"]), ProblemSize.of(X, Y))
    with stages_watched(clock, classifier):
        with clock("fit"):
            classifier.fit(X, Y)
        with clock("predict"):
            labels, _ = classifier.predict_topk(X_test, k=5)
    return {
        "n_labels": options["labels"],
        "n_labels_seen": int(np.unique(Y.indices).size),
        "n_rows": n_rows,
        "n_assignments": int(Y.nnz),
        "n_nonzeros": int(X.nnz),
        "fit_s": clock.seconds("fit"),
        "predict_s": clock.seconds("predict"),
        "peak_mb": clock.peak_mb(),
        "warm_up_s": clock.seconds("warm-up"),
        "stages": {path: spent for path, spent in clock.as_json().items() if path != "warm-up"},
        "P@1": evaluate(Y_test, labels)["P@1"],
    }


def as_row(run: dict[str, Any]) -> dict[str, Any]:
    """A run as one record: seconds of the stages of fit, of the prediction, and of decoding in both."""
    stages = {
        f"fit_{stage}_s": run["stages"].get(f"fit/{stage}", {"seconds": None})["seconds"]
        for stage in ("embedding", "mapping", "decoder", "ranker")
    }
    kept = (
        "n_labels",
        "n_labels_seen",
        "n_assignments",
        "n_nonzeros",
        "fit_s",
        "predict_s",
        "peak_mb",
        "warm_up_s",
    )
    return {
        **{key: run[key] for key in kept},
        **stages,
        "decoding_s": _seconds_of(run, ("decoder", "ranker")),
        "P@1": 100 * run["P@1"],
    }


def as_table(runs: list[dict[str, Any]], caption: str, failures: list[str]) -> Table:
    """A row a number of labels: seconds and peak memory of every stage, and how the seconds grew."""
    stages = list(dict.fromkeys(stage for run in runs for stage in run["stages"]))

    def cells(run: dict[str, Any]) -> tuple[Cell, ...]:
        spent = [run["stages"].get(stage) for stage in stages]
        return (
            Cell(f"{run['n_labels_seen']:,}"),
            *(Cell(s and f"{s['seconds']:.2f} s, {s['peak_mb']:.0f} MiB") for s in spent),
            Cell(run["fit_s"]),
            Cell(run["predict_s"]),
            Cell(run["peak_mb"], decimals=0),
            Cell(100 * run["P@1"]),
        )

    return Table(
        "scaling",
        "Cost over the number of labels",
        caption,
        "labels",
        ("labels seen", *stages, "fit s", "predict s", "peak MiB", "P@1"),
        tuple(Row(f"{run['n_labels']:,}", cells(run)) for run in runs),
        footer=_growth(runs, stages),
        notes=('"fit" and "predict" without a stage: what lies between the stages.', *verdicts(runs), *failures),
    )


def verdicts(runs: list[dict[str, Any]]) -> list[str]:
    """Whether memory stays within its limit, and the growth of mapping and decoding within theirs."""
    if not runs:
        return []
    base, most = _compared(runs)
    peak = most["peak_mb"]
    lines = [
        f"Peak at {most['n_labels']:,} labels {peak * 2**20 / 1e9:.2f} GB: "
        f"{'within' if peak <= MEMORY_LIMIT_MB else 'over'} the limit of 12 GB."
    ]
    for name, stages in (("Mapping", ("mapping",)), ("Decoding", ("decoder", "ranker"))):
        before, now = (_seconds_of(run, stages) for run in (base, most))
        if most is not base and before > NOTHING_RAN:
            lines.append(
                f"{name} from {base['n_labels']:,} to {most['n_labels']:,} labels: {before:.2f} s to {now:.2f} s, "
                f"{now / before:.2f} times, {'within' if now <= MOST_GROWTH * before else 'over'} the limit of "
                f"{MOST_GROWTH}."
            )
    return lines


def _compared(runs: list[dict[str, Any]]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The run with ten thousand labels (or the fewest), and the one with the most."""
    return next((run for run in runs[:-1] if run["n_labels"] == 10_000), runs[0]), runs[-1]


def _seconds_of(run: dict[str, Any], stages: tuple[str, ...]) -> float:
    """Seconds of some stages, in fit and in prediction."""
    return sum(spent["seconds"] for path, spent in run["stages"].items() if path.rpartition("/")[2] in stages)


def _growth(runs: list[dict[str, Any]], stages: list[str]) -> tuple[Row, ...]:
    """How many times longer everything takes with the most labels than with ten thousand (or the fewest)."""
    if len(runs) < 2:
        return ()
    base, most = _compared(runs)

    def seconds(run: dict[str, Any], stage: str) -> float:
        return run["stages"].get(stage, {"seconds": 0.0})["seconds"]

    def ratio(now: float, before: float) -> Cell:
        return Cell(now / before if before > 0 else None)

    return (
        Row(
            f"{most['n_labels']:,} against {base['n_labels']:,}, times",
            (
                Cell(None),
                *(ratio(seconds(most, stage), seconds(base, stage)) for stage in stages),
                *(ratio(most[key], base[key]) for key in ("fit_s", "predict_s", "peak_mb")),
                Cell(None),
            ),
        ),
    )


def main() -> None:
    if answer(measure):
        return
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--preset",
        nargs="+",
        default=["fast", "accurate", "latent"],
        help="such as fast, or 'paper(calibrate=False)', or latent, by way of the latent space (default all three)",
    )
    parser.add_argument("--labels", type=int, nargs="+", default=[10**3, 10**4, 10**5, 10**6])
    parser.add_argument("--rows", type=int, default=200_000, help="training rows, five labels each (default 200000)")
    parser.add_argument("--test-rows", type=int, default=10_000, help="rows to predict (default 10000)")
    parser.add_argument("--features", type=int, default=40_000, help="(default 40000)")
    parser.add_argument("--exponent", type=float, default=1.0, help="of Zipf's law (default 1)")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path("build/benchmarks/scaling"), help="folder of the results")
    parser.add_argument("--json", action="store_true", help="print JSON")
    add_record_option(parser, "scaling.csv")
    options = parser.parse_args()
    for preset in options.preset:
        check_preset(parser, PIPELINES.get(preset, preset))

    found, failed = {}, False
    for preset in options.preset:
        found[preset], failures = scaled(preset, options)
        failed |= bool(failures)
        caption = (
            f"{preset}: {options.rows:,} rows with five labels and forty terms each, {options.test_rows:,} "
            f"predicted; Zipf exponent {options.exponent:g}; {options.threads} threads."
        )
        table = as_table(found[preset], caption, failures)
        if options.record:
            settings = {**_settings(preset, options), "threads": options.threads}
            rows = [settings | as_row(run) for run in found[preset]]
            write_rows(options.record, rows, (*settings, "n_labels"))
        if found[preset]:
            from pictures import draw_scaling  # not above: workers, whose memory is measured, draw nothing

            write_table(table, _folder(preset, options))
            draw_scaling(found[preset], _folder(preset, options) / "scaling")
        if not options.json:
            print(table.to_markdown(), flush=True)
    if options.json:
        print(json.dumps(found, indent=2))
    if failed:
        sys.exit(1)


def scaled(preset: str, options: argparse.Namespace) -> tuple[list[dict[str, Any]], list[str]]:
    """What was measured of a preset for every number of labels, now or before, and what failed."""
    runs, failures = [], []
    for labels in options.labels:
        path = _folder(preset, options) / f"{labels}.json"
        if not path.exists():
            print(f"{preset}: {labels:,} labels", file=sys.stderr, flush=True)
            settings = _settings(preset, options)
            try:
                run = measured_apart(__file__, settings | {"labels": labels}, threads=options.threads)
            except WorkerError as error:
                failures.append(f"{labels:,} labels: {error}")
                continue
            write_atomically(path, json.dumps(settings | run, indent=2))
        runs.append(json.loads(path.read_text()))
    return runs, failures


def _settings(preset: str, options: argparse.Namespace) -> dict[str, Any]:
    return {"preset": preset} | {key: getattr(options, key) for key in ("rows", "test_rows", "features", "exponent")}


def _folder(preset: str, options: argparse.Namespace) -> Path:
    return options.out / slug("-".join(map(str, _settings(preset, options).values())))


if __name__ == "__main__":
    main()
