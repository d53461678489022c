"""How does the number of steps of the label embedding act on accuracy? Measured on validation rows.

In every fold one fifth of the training rows is set aside. The Gaussians are fitted to the labels of the other rows, in
one descent that is looked at after each number of steps (``fit_path``). Features are mapped to each of these
embeddings, and the labels of the rows set aside are ranked. Test rows play no part. 0 steps are random codes. A fold
that is in the record already is not run again.

    python benchmarks/steps.py --record
"""

import argparse
import json
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from data import add_data_options, open_as_in_experiments, training_and_test_rows
from online import FixedEmbedding
from pysldl import SLDLClassifier
from pysldl.datasets import Dataset
from pysldl.decoding import NeighborDecoder
from pysldl.embedding import GaussianLabelEmbedding, RandomLabelEmbedding
from pysldl.exceptions import SLDLWarning
from pysldl.metrics import evaluate, inverse_propensity
from records import add_record_option, read_rows, write_rows

DATASETS = ("stackex-philosophy", "stackex-chess", "corel16k-s1")
WIDTHS = (32, 128)
STEPS = (0, 30, 100, 300, 1000, 3000, 8000)
METRICS = ("P@1", "P@5", "nDCG@5", "PSP@1", "PSP@5")
N_NEIGHBORS = 30
KEY = ("dataset", "fold", "c_hat", "cooccurrence", "n_steps")


def measure(
    dataset: Dataset, fold: int, c_hat: int, cooccurrence: str, steps: Sequence[int]
) -> Iterator[dict[str, Any]]:
    """Metrics on the validation rows of one fold, in percent, for every number of steps."""
    rows, _ = training_and_test_rows(dataset, fold)
    shuffled = np.random.default_rng(fold).permutation(rows)
    n_validation = len(rows) // 5
    validation, inner = np.sort(shuffled[:n_validation]), np.sort(shuffled[n_validation:])
    X, Y = dataset.X[inner], dataset.Y[inner]
    weights = inverse_propensity(Y)
    trained = sorted(n for n in steps if n)
    path = GaussianLabelEmbedding(c_hat, cooccurrence=cooccurrence, random_state=fold).fit_path(Y, n_steps=trained)
    embeddings = dict(zip(trained, path, strict=True))
    if 0 in steps:
        embeddings[0] = RandomLabelEmbedding(c_hat, random_state=fold).fit(Y)
    for n_steps in sorted(embeddings):
        classifier = SLDLClassifier(
            FixedEmbedding(embeddings[n_steps].components_), decoder=NeighborDecoder(N_NEIGHBORS), calibrate=False
        ).fit(X, Y)
        found = evaluate(dataset.Y[validation], classifier.predict_topk(dataset.X[validation], k=5)[0], weights)
        yield {
            "dataset": dataset.name,
            "fold": fold,
            "c_hat": c_hat,
            "cooccurrence": cooccurrence,
            "n_steps": n_steps,
            "loss": embeddings[n_steps].losses_[-1] if n_steps else None,
            **{metric: 100 * float(found[metric]) for metric in METRICS},
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--datasets", nargs="+", default=list(DATASETS), help="names or files")
    parser.add_argument("--c-hats", type=int, nargs="+", default=list(WIDTHS), help="widths (default 32 and 128)")
    parser.add_argument("--steps", type=int, nargs="+", default=list(STEPS), help="numbers of steps, 0: random")
    parser.add_argument("--folds", type=int, default=3, help="the first so many of the ten folds (default 3)")
    parser.add_argument("--cooccurrence", nargs="+", default=["binary"], choices=("binary", "count"))
    add_record_option(parser, "steps.csv")
    add_data_options(parser)
    options = parser.parse_args()
    known = {tuple(row[name] for name in KEY) for row in read_rows(options.record)} if options.record else set()
    for name in options.datasets:
        dataset = open_as_in_experiments(name, options.data_dir)
        for fold in range(options.folds):
            for c_hat in options.c_hats:
                for cooccurrence in options.cooccurrence:
                    wanted = {(dataset.name, fold, c_hat, cooccurrence, n_steps) for n_steps in options.steps}
                    if wanted <= known:
                        continue
                    with warnings.catch_warnings():
                        warnings.simplefilter("ignore", SLDLWarning)  # labels that no inner row carries
                        rows = list(measure(dataset, fold, c_hat, cooccurrence, options.steps))
                    print(*map(json.dumps, rows), sep="\n", flush=True)
                    if options.record:
                        write_rows(options.record, rows, KEY)


if __name__ == "__main__":
    main()
