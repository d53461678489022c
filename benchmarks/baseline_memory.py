"""Peak memory of training the methods with label-specific features, on the training rows of one fold.

Steps do not add to the peak, so training is interrupted after some seconds; the held-out rows are scored after it. With
``--times 2`` every label is there twice, at the same number of labels at a time.
"""

import argparse
import json
import os
import resource
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path
from typing import Any

METHODS = ("DELA", "PACA", "CLIF")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default="delicious")
    parser.add_argument("--data-dir", type=Path, default=os.environ.get("PYSLDL_DATA"))
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=METHODS)
    parser.add_argument("--times", nargs="+", type=int, default=[1, 2], help="copies of every label")
    parser.add_argument("--label-chunk", type=int, default=6, help="labels at a time")
    parser.add_argument("--seconds", type=float, default=60.0, help="of training")
    parser.add_argument("--json", action="store_true")
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
            found = json.loads(done.stdout)
            print(
                json.dumps(found) if options.json else "{method}, {n_labels} labels: {peak_mb:.0f} MiB".format(**found)
            )


def measured(options: argparse.Namespace) -> dict[str, Any]:
    """Train one method for a while, in this process."""
    from scipy import sparse

    from pysldl.baselines import BASELINES
    from pysldl.datasets import load_dataset
    from pysldl.experiments.protocol import Protocol

    (method,), (times,) = options.methods, options.times
    dataset = load_dataset(options.data, options.data_dir)
    train = Protocol().fold_of_rows(dataset) != 0
    X, Y = dataset.X[train], sparse.csr_array(sparse.hstack([dataset.Y[train]] * times))
    model = BASELINES[method](device="cpu", epochs=1, label_chunk=options.label_chunk)
    objective = model._objective

    def timed(*given: Any) -> Any:
        signal.setitimer(signal.ITIMER_REAL, options.seconds)
        return objective(*given)

    model._objective = timed
    signal.signal(signal.SIGALRM, signal.default_int_handler)
    started = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X, Y)
    signal.setitimer(signal.ITIMER_REAL, 0.0)
    return {
        "method": method,
        "n_rows": X.shape[0],
        "n_labels": Y.shape[1],
        "label_chunk": options.label_chunk,
        "seconds": time.perf_counter() - started,
        "epochs": model.n_epochs_,
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1 << (20 if sys.platform == "darwin" else 10)),
    }


if __name__ == "__main__":
    main()
