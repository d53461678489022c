"""How much faster is this library than the same computation written the way the authors' code does it?

Each side runs in a process of its own: fit on nine folds, rank the labels of the rows of the tenth. The ratio that
compares like with like is that of ``make_sldl("official")``, which computes what the authors' code computes: fifty
steps of the same descent, nonnegative weights, normalized votes. ``make_sldl("paper")`` solves another problem (more
steps, another loss, a regression without sign constraint), and stands beside it as a row of its own.
"""

import argparse
import json
from typing import Any

import numpy as np
from sklearn.preprocessing import normalize

from data import add_data_options, open_dataset, training_and_test_rows
from measuring import Clock, answer, measured_apart
from pysldl import make_sldl
from pysldl.datasets import make_asymmetric_multilabel
from pysldl.experiments.report.tables import Cell, Row, Table
from pysldl.metrics import evaluate, inverse_propensity
from records import add_record_option, write_rows
from stages import stages_watched

AUTHORS = "authors' way"
LIKE_FOR_LIKE = 'make_sldl("official")'
OURS = {LIKE_FOR_LIKE: "official", 'make_sldl("paper")': "paper"}
STAGES = ("graph", "embedding", "mapping", "decoder")
DEPTH = 5
AUTHORS_STEPS = 50


def measure(options: dict[str, Any]) -> dict[str, Any]:
    """One side: seconds and memory of its stages, and its metrics."""
    dataset = open_dataset(options["dataset"], options["data_dir"])
    train, test = training_and_test_rows(dataset, options["fold"])
    X, Y, X_new, Y_new = dataset.X[train], dataset.Y[train], dataset.X[test], dataset.Y[test]
    side = _authors_side if options["side"] == AUTHORS else _our_side
    _warm_up(side, options)
    clock = Clock()
    labels = side(clock, options, X, Y, X_new)
    metrics = evaluate(Y_new, labels, inverse_propensity(Y))
    return {
        "side": options["side"],
        "seconds": clock.seconds("all"),
        "peak_mb": clock.peak_mb(),
        "stages": {path.removeprefix("all/"): spent for path, spent in clock.as_json().items()},
        "metrics": {name: metrics[name] for name in ("P@1", "P@5", "PSP@5")},
    }


def _warm_up(side: Any, options: dict[str, Any]) -> None:
    """A tiny run, so that nobody's time contains the imports."""
    world = make_asymmetric_multilabel(200, 60, 30)
    side(Clock(), options | {"c_hat": 4, "k": 10, "steps": 1}, world.X, world.Y, world.X)


def _authors_side(clock: Clock, options: dict[str, Any], X: Any, Y: Any, X_new: Any) -> Any:
    from authors_code import fit_and_predict

    X, X_new, Y = (np.asarray(part.todense() if hasattr(part, "todense") else part) for part in (X, X_new, Y))
    with clock("all"):
        scores = fit_and_predict(
            clock,
            normalize(X),
            Y,
            normalize(X_new),
            n_components=options["c_hat"],
            n_neighbors=options["k"],
            steps=options["steps"],
        )
        return np.argsort(-scores, axis=1, kind="stable")[:, :DEPTH]


def _our_side(clock: Clock, options: dict[str, Any], X: Any, Y: Any, X_new: Any) -> Any:
    classifier = make_sldl(
        OURS[options["side"]],
        calibrate=False,
        embedding__n_components=options["c_hat"],
        decoder__n_neighbors=options["k"],
    )
    with stages_watched(clock, classifier), clock("all"):
        return classifier.fit(X, Y).predict_topk(X_new, k=DEPTH)[0]


def run(options: argparse.Namespace) -> list[dict[str, Any]]:
    """All sides, one after the other; the ratio of each is that of the authors' time to its own."""
    settings = {key: getattr(options, key) for key in ("dataset", "data_dir", "fold", "c_hat", "k", "steps")}
    results = []
    for side in (*OURS, AUTHORS):
        results.append(measured_apart(__file__, settings | {"side": side}, threads=options.threads))
    authors = results[-1]
    if options.steps != AUTHORS_STEPS:
        embedding = authors["stages"]["embedding"]
        full = embedding["seconds"] * AUTHORS_STEPS / options.steps
        authors["seconds"] += full - embedding["seconds"]
        embedding["seconds"] = full
        authors["extrapolated_from_steps"] = options.steps
    for result in results:
        result["ratio"] = authors["seconds"] / result["seconds"]
    return results


def as_rows(results: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """One record for each side."""
    return [
        {
            **{key: result[key] for key in ("side", "seconds", "peak_mb")},
            "extrapolated_from_steps": result.get("extrapolated_from_steps"),
            **{f"{stage}_s": result["stages"].get(stage, {"seconds": None})["seconds"] for stage in STAGES},
            **{name: 100 * value for name, value in result["metrics"].items()},
        }
        for result in results
    ]


def as_table(results: list[dict[str, Any]], caption: str) -> Table:
    """Seconds of every stage, and what the stages lead to."""

    def cells(result: dict[str, Any]) -> tuple[Cell, ...]:
        stages = result["stages"]
        seconds = (stages[stage]["seconds"] if stage in stages else None for stage in STAGES)
        return (
            *(Cell(value) for value in seconds),
            Cell(result["seconds"]),
            Cell(result["ratio"], decimals=1),
            Cell(result["peak_mb"], decimals=0),
            *(Cell(100 * value) for value in result["metrics"].values()),
        )

    authors = results[-1]
    notes = [
        'In the library the graph is part of "embedding".',
        f"{LIKE_FOR_LIKE} computes what the authors' code computes; the other row solves another problem.",
    ]
    if "extrapolated_from_steps" in authors:
        notes.append(
            f"The authors' embedding was run for {authors['extrapolated_from_steps']} steps, as asked, and its time is "
            f"EXTRAPOLATED to {AUTHORS_STEPS}; their metrics are of the shorter training."
        )
    return Table(
        "authors-way",
        "The authors' computation, written two ways",
        caption,
        "",
        (*(f"{stage} s" for stage in STAGES), "all s", "times faster", "peak MiB", *authors["metrics"]),
        tuple(Row(result["side"], cells(result)) for result in results),
        notes=tuple(notes),
    )


def main() -> None:
    if answer(measure):
        return
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dataset", default="delicious", help="name or file (default delicious)")
    parser.add_argument("--fold", type=int, default=0, help="which of the ten folds is ranked (default 0)")
    parser.add_argument("--c-hat", type=int, default=128, help="width of the latent space (default 128)")
    parser.add_argument("--k", type=int, default=100, help="neighbors, both sides (default 100, the authors')")
    parser.add_argument(
        "--steps",
        type=int,
        default=AUTHORS_STEPS,
        help="of the authors' embedding (default 50, all of them); with fewer its time is extrapolated to 50",
    )
    parser.add_argument("--threads", type=int, default=2, help="of each side (default 2)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    add_record_option(parser, "authors_way.csv")
    add_data_options(parser)
    options = parser.parse_args()
    results = run(options)
    if options.record:
        settings = {key: getattr(options, key) for key in ("dataset", "fold", "c_hat", "k", "threads")}
        write_rows(options.record, [settings | row for row in as_rows(results)], (*settings, "side"))
    caption = (
        f"{options.dataset}, fold {options.fold} of ten, c_hat {options.c_hat}, k {options.k}, {options.threads} "
        "threads: seconds to fit and to rank the labels of the test rows; metrics in percent."
    )
    print(json.dumps(results, indent=2) if options.json else as_table(results, caption).to_markdown())


if __name__ == "__main__":
    main()
