"""How far do a GPU and the CPU agree? The same preset fitted on both, compared on the test rows.

    python benchmarks/gpu_agreement.py --device cuda --record

Fold 0 of ten of every data set. Reported are the share of test rows with the same five best labels, in any order, the
share with the same best label, and the largest difference of a metric, in points.
"""

import argparse
import json
import warnings
from typing import Any

import numpy as np

from data import add_data_options, open_as_in_experiments, training_and_test_rows
from gpu import device_name
from pysldl import make_sldl
from pysldl.datasets import Dataset
from pysldl.exceptions import SLDLWarning
from pysldl.metrics import evaluate, inverse_propensity
from records import add_record_option, write_rows

DATASETS = ("cal500", "stackex-chess", "stackex-philosophy", "corel16k-s1", "stackex-cs", "delicious")
PRESETS = ("paper", "blend", "fast", "accurate")
METRICS = ("P@1", "P@5", "nDCG@5", "PSP@5")


def measure(dataset: Dataset, preset: str, device: str) -> dict[str, Any]:
    """Fit on the CPU and on the device, and compare the rankings of the test rows."""
    train, test = training_and_test_rows(dataset, 0)
    X, Y = dataset.X[train], dataset.Y[train]
    weights = inverse_propensity(Y)
    best, metrics = [], []
    for place in ("cpu", device):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SLDLWarning)  # labels that no training row of the fold carries
            model = make_sldl(preset, device=place, calibrate=False, random_state=0).fit(X, Y)
        best.append(model.predict_topk(dataset.X[test], k=5)[0])
        found = evaluate(dataset.Y[test], best[-1], weights)
        metrics.append({name: 100 * float(found[name]) for name in METRICS})
    return {
        "dataset": dataset.name,
        "preset": preset,
        "n_rows": len(test),
        "same_five": float((np.sort(best[0], axis=1) == np.sort(best[1], axis=1)).all(axis=1).mean()),
        "same_first": float((best[0][:, 0] == best[1][:, 0]).mean()),
        "largest_metric_difference": max(abs(metrics[0][name] - metrics[1][name]) for name in METRICS),
        **{f"{name}_cpu": value for name, value in metrics[0].items()},
        **{f"{name}_device": value for name, value in metrics[1].items()},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("datasets", nargs="*", default=list(DATASETS))
    parser.add_argument("--presets", nargs="+", default=list(PRESETS))
    parser.add_argument("--device", default="cuda")
    add_record_option(parser, "gpu_agreement.csv")
    add_data_options(parser)
    options = parser.parse_args()
    for name in options.datasets:
        dataset = open_as_in_experiments(name, options.data_dir)
        for preset in options.presets:
            found = {**measure(dataset, preset, options.device), "device_name": device_name(options.device)}
            print(json.dumps(found), flush=True)
            if options.record:
                write_rows(options.record, [found], ("dataset", "preset", "device_name"))


if __name__ == "__main__":
    main()
