"""Processor time of one training step of the methods with label-specific features, on one thread of a CPU.

A batch of 128 made-up rows of 500 features. ``--half`` multiplies in half precision, for a CPU with AMX.
"""

import argparse
import json
import time

from records import add_record_option, write_rows

METHODS = ("DELA", "CLIF", "PACA")
BATCH, N_FEATURES = 128, 500


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=METHODS)
    parser.add_argument("--labels", type=int, default=64)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--half", action="store_true")
    parser.add_argument("--json", action="store_true")
    add_record_option(parser, "baseline_step.csv")
    options = parser.parse_args()
    for method in options.methods:
        seconds = step_seconds(method, options.labels, options.steps, options.half)
        found = {"method": method, "labels": options.labels, "half": options.half, "seconds": seconds}
        if options.record:
            write_rows(options.record, [{**found, "half": int(options.half)}], ("method", "labels", "half"))
        print(
            json.dumps(found) if options.json else f"{method}, {options.labels} labels: {1e3 * seconds:.0f} ms a step"
        )


def step_seconds(method: str, n_labels: int, n_steps: int, half: bool) -> float:
    """Mean processor time of a training step, after one that is not counted: from fits of as many epochs."""
    import numpy as np
    from scipy import sparse

    from pysldl.baselines import BASELINES
    from pysldl.experiments.run.environment import one_thread

    rng = np.random.default_rng(0)
    X = rng.random((BATCH, N_FEATURES), dtype=np.float32)
    Y = sparse.csr_array((rng.random((BATCH, n_labels)) < 0.05).astype(np.float32))
    ends: list[float] = []
    model = BASELINES[method](
        batch_size=BATCH,  # one step an epoch
        epochs=n_steps + 1,
        validation_fraction=0.0,
        calibrate=False,
        half_precision=half,
        progress=lambda report: ends.append(time.process_time()),
    )
    with one_thread():
        model.fit(X, Y)
    return (ends[-1] - ends[0]) / n_steps


if __name__ == "__main__":
    main()
