"""What does `accurate` gain where labels are few, and at what cost? Beside it, what it did up to 1,000 labels before.

"votes and read-out" scores every label by neighbors in codes and features and by a linear read-out, without a ranker
and without trees, whatever the number of features; "C = 1" is `accurate` without the choice of the penalty. Everything
is chosen on training rows. Sets without a split are measured on folds of the ten-fold rule (shuffled, seed 0).
"""

import argparse
import json
from time import process_time
from typing import Any

import numpy as np

from data import add_data_options, open_dataset, text_features, with_test_rows
from pysldl import evaluate, make_sldl
from pysldl.metrics import inverse_propensity
from records import add_record_option, write_rows

EIGHT = ("P@1", "P@3", "P@5", "nDCG@3", "nDCG@5", "PSP@1", "PSP@3", "PSP@5")
VARIANTS: dict[str, dict[str, Any]] = {
    "accurate": {},
    "C = 1": {"ranker__large__C": 1.0},
    "votes and read-out": {"ranker": None, "reranker": None, "decoder__most_features": 10**9},
}
SETS = ("bibtex-xc-split", "cooking-stackexchange", "stackex-chess", "stackex-philosophy", "cal500")


def measure(name: str, variant: str, fold: int, data_dir: str | None) -> dict[str, Any]:
    """Metrics on the test rows, their mean, and processor seconds."""
    dataset = text_features(with_test_rows(open_dataset(name, data_dir), fold))
    train, test = dataset.split("train"), dataset.split("test")
    some = train.subset(range(min(500, train.n_samples)))
    make_sldl("accurate", **VARIANTS[variant]).fit(some.X, some.Y).predict_topk(some.X[:50])  # loops are compiled
    model = make_sldl("accurate", **VARIANTS[variant])
    started = process_time()
    model.fit(train.X, train.Y)
    fitted = process_time()
    labels, _ = model.predict_topk(test.X, 5)
    found = evaluate(test.Y, labels, inverse_propensity(train.Y))
    seconds = {"fit_cpu_s": round(fitted - started, 2), "predict_cpu_s": round(process_time() - fitted, 2)}
    metrics = {metric: round(100 * found[metric], 3) for metric in EIGHT}
    mean = {"mean": round(float(np.mean(list(metrics.values()))), 3)}
    chosen = {"C": getattr(model.ranker_, "C_", None)}
    return {"data": name, "fold": fold, "variant": variant} | metrics | mean | seconds | chosen


def main() -> None:
    """Print, and record, one line for every data set, fold and variant."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", nargs="+", default=list(SETS), help="names or data files")
    parser.add_argument("--variants", nargs="+", choices=VARIANTS, default=list(VARIANTS))
    parser.add_argument("--folds", nargs="+", type=int, default=[0], help="of sets without a split (default 0)")
    add_data_options(parser)
    add_record_option(parser, "few_labels.csv")
    options = parser.parse_args()
    for name in options.data:
        for fold in options.folds:
            for variant in options.variants:
                row = measure(name, variant, fold, options.data_dir)
                print(json.dumps(row), flush=True)
                if options.record:
                    write_rows(options.record, [row], ("data", "fold", "variant"))


if __name__ == "__main__":
    main()
