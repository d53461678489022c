"""Peak memory of training the methods with label-specific features, on the training rows of one fold.

Steps do not add to the peak, so an epoch ends after some seconds. There are two of them: the held-out rows are scored
and judged after each, and the best weights are there in the second. ``predict`` is calibrated in the end. With
``--times 2`` every label is there twice, at the same number of labels at a time. Beside the peak stand the peak before
training, of Python and the data, and the trained weights.
"""

import argparse
import json
import os
import subprocess
import sys
import time
import warnings
from pathlib import Path
from typing import Any
from unittest import mock

from records import add_record_option, write_rows

METHODS = ("DELA", "PACA", "CLIF")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default="delicious")
    parser.add_argument("--data-dir", type=Path, default=os.environ.get("PYSLDL_DATA"))
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=METHODS)
    parser.add_argument("--times", nargs="+", type=int, default=[1, 2], help="copies of every label")
    parser.add_argument("--label-chunk", type=int, default=6, help="labels at a time")
    parser.add_argument("--seconds", type=float, default=20.0, help="of an epoch")
    parser.add_argument("--json", action="store_true")
    add_record_option(parser, "baseline_memory.csv")
    parser.add_argument("--apart", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.apart:
        print(json.dumps(measured(options)))
        return
    for method in options.methods:
        for times in options.times:
            # A process of its own for each: the peak of a process never falls.
            settings = ["--methods", method, "--times", str(times), "--data", options.data, "--apart"]
            settings += ["--label-chunk", str(options.label_chunk), "--seconds", str(options.seconds)]
            settings += ["--data-dir", str(options.data_dir)] if options.data_dir else []
            done = subprocess.run([sys.executable, __file__, *settings], check=True, capture_output=True, text=True)
            found = {"data": options.data, **json.loads(done.stdout)}
            if options.record:
                write_rows(options.record, [found], ("data", "method", "n_labels", "label_chunk"))
            line = "{method}, {n_labels} labels: {peak_mb:.0f} MiB, {before_mb:.0f} before, {weights_mb:.1f} of weights"
            print(json.dumps(found) if options.json else line.format(**found), flush=True)


def measured(options: argparse.Namespace) -> dict[str, Any]:
    """Train one method for a while, in this process."""
    from scipy import sparse

    from pysldl.baselines import BASELINES
    from pysldl.baselines.torch_training.dense_batches import DenseBatches
    from pysldl.datasets import load_dataset
    from pysldl.experiments.run.environment import peak_mb
    from pysldl.experiments.run.protocol import Protocol

    (method,), (times,) = options.methods, options.times
    dataset = load_dataset(options.data, options.data_dir)
    train = Protocol().fold_of_rows(dataset) != 0
    X, Y = dataset.X[train], sparse.csr_array(sparse.hstack([dataset.Y[train]] * times))
    model = BASELINES[method](device="cpu", epochs=2, label_chunk=options.label_chunk, random_state=0)
    whole_epoch, started, steps = DenseBatches.shuffled, time.perf_counter(), 0

    def some_batches(*given: Any) -> Any:
        nonlocal steps
        first = time.perf_counter()
        for batch in whole_epoch(*given):
            yield batch
            steps += 1
            if time.perf_counter() - first > options.seconds:
                return

    before = peak_mb()
    with warnings.catch_warnings(), mock.patch.object(DenseBatches, "shuffled", some_batches):
        warnings.simplefilter("ignore")
        model.fit(X, Y)
    return {
        "method": method,
        "n_rows": X.shape[0],
        "n_labels": Y.shape[1],
        "label_chunk": options.label_chunk,
        "seconds": time.perf_counter() - started,
        "steps": steps,
        "before_mb": before,
        "weights_mb": sum(weight.nbytes for weight in model.weights_.values()) / (1 << 20),
        "peak_mb": peak_mb(),
    }


if __name__ == "__main__":
    main()
