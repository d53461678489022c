"""Processor time of one training step of the methods with label-specific features, on one thread of a CPU.

A batch of 128 made-up rows of 500 features. ``--half`` multiplies in half precision, for a CPU with AMX; ``--plain``
leaves PACA's flow to torch where numba would compile its map.
"""

import argparse
import json
import time
from contextlib import nullcontext
from unittest import mock

from records import add_record_option, write_rows

METHODS = ("DELA", "CLIF", "PACA")
BATCH, N_FEATURES = 128, 500


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=METHODS)
    parser.add_argument("--labels", type=int, default=64)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--half", action="store_true")
    parser.add_argument("--plain", action="store_true")
    parser.add_argument("--json", action="store_true")
    add_record_option(parser, "baseline_step.csv")
    options = parser.parse_args()
    for method in options.methods:
        as_asked = mock.patch("pysldl.baselines.paca.flows.has_numba", return_value=False)
        with as_asked if options.plain else nullcontext():
            seconds = step_seconds(method, options.labels, options.steps, options.half)
        found = {"method": method, "labels": options.labels, "half": options.half, "seconds": seconds}
        if options.record:
            row = {**found, "half": int(options.half), "plain": int(options.plain)}
            write_rows(options.record, [row], ("method", "labels", "half", "plain"))
        print(
            json.dumps(found) if options.json else f"{method}, {options.labels} labels: {1e3 * seconds:.0f} ms a step"
        )


def step_seconds(method: str, n_labels: int, n_steps: int, half: bool) -> float:
    """Mean processor time of a forward and a backward pass, after one that is not counted."""
    import numpy as np
    import torch
    from scipy import sparse

    from pysldl.baselines import BASELINES
    from pysldl.baselines.torch_training.dense_batches import Rows
    from pysldl.experiments.run.single_thread import one_thread

    rng = np.random.default_rng(0)
    X = rng.random((BATCH, N_FEATURES), dtype=np.float32)
    Y = (rng.random((BATCH, n_labels)) < 0.05).astype(np.float32)
    model = BASELINES[method](device="cpu", half_precision=half)
    model._check_training()
    network = model._build(N_FEATURES, n_labels)
    loss = model._objective(network, Rows(X, sparse.csr_array(Y), lambda x: x, torch.device("cpu")))
    x, y = torch.from_numpy(X), torch.from_numpy(Y)
    with one_thread():
        for step in range(n_steps + 1):
            if step == 1:
                started = time.process_time()
            network.zero_grad()
            loss(x, y).backward()
    return (time.process_time() - started) / n_steps


if __name__ == "__main__":
    main()
