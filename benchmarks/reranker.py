"""Does a second ranking stage pay? `accurate` with and without boosted trees over its best candidates.

The trees need rows that the classifiers have not seen, and are used only if they rank those better in cross-fitting;
nothing is chosen on test rows. "one stage" is the linear ranker alone.
"""

import argparse
import json
from time import process_time
from typing import Any

from data import add_data_options, open_dataset, text_features
from pysldl import evaluate, make_sldl
from pysldl.metrics import inverse_propensity
from records import add_record_option, write_rows

METRICS = ("P@1", "P@3", "P@5", "nDCG@5", "PSP@1", "PSP@5")
VARIANTS: dict[str, dict[str, Any]] = {"one stage": {"reranker": None}, "two stages": {}}


def measure(name: str, variant: str, data_dir: str | None) -> dict[str, Any]:
    """Metrics on the test rows, and processor seconds."""
    dataset = open_dataset(name, data_dir)
    dataset = dataset.vectorize() if dataset.X is None else text_features(dataset)
    train, test = dataset.split("train"), dataset.split("test")
    some = train.subset(range(min(2000, train.n_samples)))
    make_sldl("accurate", **VARIANTS[variant]).fit(some.X, some.Y).predict_topk(some.X[:50])  # loops are compiled
    model = make_sldl("accurate", **VARIANTS[variant])
    started = process_time()
    model.fit(train.X, train.Y)
    fitted = process_time()
    labels, _ = model.predict_topk(test.X, 5)
    found = evaluate(test.Y, labels, ks=(1, 3, 5), inv_propensity=inverse_propensity(train.Y))
    seconds = {"fit_cpu_s": round(fitted - started, 2), "predict_cpu_s": round(process_time() - fitted, 2)}
    reranker = getattr(model, "reranker_", None)
    gain = {"held_out_gain": None if reranker is None else round(100 * reranker.gain_, 3)}
    return {"data": name, "variant": variant} | {m: round(100 * found[m], 3) for m in METRICS} | seconds | gain


def main() -> None:
    """Print, and record, one line for every data set and variant."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", nargs="+", default=["eurlex57k", "tibkat"], help="catalog names or data files")
    parser.add_argument("--variants", nargs="+", choices=VARIANTS, default=list(VARIANTS))
    add_data_options(parser)
    add_record_option(parser, "reranker.csv")
    options = parser.parse_args()
    for name in options.data:
        for variant in options.variants:
            row = measure(name, variant, options.data_dir)
            print(json.dumps(row), flush=True)
            if options.record:
                write_rows(options.record, [row], ("data", "variant"))


if __name__ == "__main__":
    main()
