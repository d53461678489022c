"""Does training the label embedding pay? Trained Gaussians against random codes of the same width, ten folds."""

import argparse
import json
from typing import Any, Literal

import numpy as np

from data import add_data_options, open_dataset, training_and_test_rows
from pysldl import SLDLClassifier
from pysldl.datasets import Dataset
from pysldl.decoding import NeighborDecoder
from pysldl.embedding import GaussianLabelEmbedding, RandomLabelEmbedding
from pysldl.experiments.report.tables import Cell, Row, Table
from pysldl.experiments.stats.significance import paired_p_value
from pysldl.metrics import evaluate, inverse_propensity
from records import add_record_option, write_rows

METRICS = ("P@1", "P@5", "nDCG@5", "PSP@1", "PSP@5")


def measure(
    dataset: Dataset, n_components: int, n_neighbors: int, n_folds: int, graph: Literal["auto", "dense", "sparse"]
) -> dict[str, dict[str, list[float]]]:
    """``{embedding: {metric: [per cent of each fold]}}``."""
    found: dict[str, dict[str, list[float]]] = {}
    for fold in range(n_folds):
        train, test = training_and_test_rows(dataset, fold)
        weights = inverse_propensity(dataset.Y[train])
        for name, embedding in (
            ("trained", GaussianLabelEmbedding(n_components, cooccurrence="count", graph=graph)),
            ("random", RandomLabelEmbedding(n_components)),
        ):
            classifier = SLDLClassifier(
                embedding, decoder=NeighborDecoder(n_neighbors), calibrate=False, random_state=fold
            ).fit(dataset.X[train], dataset.Y[train])
            scores = evaluate(dataset.Y[test], classifier.predict_topk(dataset.X[test], k=5)[0], weights)
            for metric in METRICS:
                found.setdefault(name, {}).setdefault(metric, []).append(100 * scores[metric])
    return found


def as_rows(found: dict[str, dict[str, list[float]]]) -> list[dict[str, Any]]:
    """One row for each embedding and fold."""
    return [
        {"embedding": embedding, "fold": fold, **{metric: values[fold] for metric, values in by_metric.items()}}
        for embedding, by_metric in found.items()
        for fold in range(len(by_metric["P@1"]))
    ]


def as_table(dataset: str, found: dict[str, dict[str, list[float]]], caption: str) -> Table:
    """Means, the difference, and the p-value of a t-test paired over the folds."""

    def cells(metric: str) -> tuple[Cell, ...]:
        trained, random = found["trained"][metric], found["random"][metric]
        difference = np.subtract(trained, random)
        return (
            Cell(float(np.mean(random))),
            Cell(float(np.mean(trained))),
            Cell(difference.mean(), std=difference.std(ddof=1), signed=True),
            Cell(paired_p_value(trained, random), decimals=5),
        )

    return Table(
        "trained-vs-random",
        dataset,
        caption,
        "metric",
        ("random", "trained", "difference", "p"),
        tuple(Row(metric, cells(metric)) for metric in METRICS),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--datasets", nargs="+", default=["stackex-cs", "stackex-philosophy"], help="names or files")
    parser.add_argument("--c-hat", type=int, default=32, help="width of the codes (default 32)")
    parser.add_argument("--k", type=int, default=30, help="neighbors (default 30)")
    parser.add_argument(
        "--graph",
        default="auto",
        choices=("auto", "dense", "sparse"),
        help="train on whole or truncated rankings",
    )
    parser.add_argument("--folds", type=int, default=10, help="how many of the ten folds (default 10)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    add_record_option(parser, "trained_vs_random.csv")
    add_data_options(parser)
    options = parser.parse_args()
    results: dict[str, Any] = {}
    for name in options.datasets:
        dataset = open_dataset(name, options.data_dir)
        results[dataset.name] = measure(dataset, options.c_hat, options.k, options.folds, options.graph)
        if options.record:
            settings = {"dataset": dataset.name, "c_hat": options.c_hat, "k": options.k, "graph": options.graph}
            rows = [settings | row for row in as_rows(results[dataset.name])]
            write_rows(options.record, rows, (*settings, "embedding", "fold"))
        if not options.json:
            caption = (
                f"Width {options.c_hat}, {options.k} neighbors, {options.folds} of ten folds, graph {options.graph}; "
                "per cent."
            )
            print(as_table(dataset.name, results[dataset.name], caption).to_markdown())
    if options.json:
        print(json.dumps(results, indent=2))


if __name__ == "__main__":
    main()
