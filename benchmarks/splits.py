"""How long does iterative stratification take, and how well does every label keep its share, beside a random draw?

Rows with five labels drawn from a Zipf distribution. ``worst`` is the mean over labels with at least ten rows of the
largest distance of a part from the share that it should have, in rows. A random draw is the control.
"""

import argparse
import time
from typing import Any

import numpy as np
from scipy import sparse

from pysldl.datasets import stratified_folds, stratified_split
from records import add_record_option, write_rows

KEY = ("task", "rows", "labels")
PER_ROW, N_FOLDS, TEST_SIZE, LEAST = 5, 10, 0.1, 10


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--labels", type=int, default=10_000)
    add_record_option(parser, "splits.csv")
    arguments = parser.parse_args()
    rows = measure(arguments.rows, arguments.labels)
    if arguments.record is not None:
        write_rows(arguments.record, rows, KEY)


def measure(n_rows: int, n_labels: int) -> list[dict[str, Any]]:
    """Seconds and deviations of folds and of a split."""
    Y = zipf_labels(n_rows, n_labels)
    rng = np.random.RandomState(0)
    found = []
    for task, shares in (("folds", np.full(N_FOLDS, 1 / N_FOLDS)), ("split", np.array([1 - TEST_SIZE, TEST_SIZE]))):
        started = time.process_time()
        if task == "folds":
            parts = stratified_folds(Y, N_FOLDS)
        else:
            parts = np.zeros(n_rows, dtype=np.int64)
            parts[stratified_split(Y, TEST_SIZE)[1]] = 1
        seconds = time.process_time() - started
        drawn = rng.permutation(np.repeat(np.arange(len(shares)), np.round(shares * n_rows).astype(int)))
        found.append(
            {"task": task, "rows": n_rows, "labels": n_labels, "pairs": Y.nnz, "processor_s": round(seconds, 2)}
            | {"worst": deviation(Y, parts, shares), "worst_random": deviation(Y, drawn, shares)}
        )
        print(found[-1], flush=True)
    return found


def zipf_labels(n_rows: int, n_labels: int) -> sparse.csr_array:
    """Rows of up to five labels each."""
    rng = np.random.default_rng(0)
    chances = 1 / np.arange(1, n_labels + 1)
    columns = np.sort(rng.choice(n_labels, size=(n_rows, PER_ROW), p=chances / chances.sum()), axis=1)
    first = np.hstack([np.ones((n_rows, 1), dtype=bool), columns[:, 1:] != columns[:, :-1]])
    indptr = np.concatenate([[0], np.cumsum(first.sum(axis=1))])
    return sparse.csr_array((np.ones(int(indptr[-1]), dtype=np.float32), columns[first], indptr), (n_rows, n_labels))


def deviation(Y: sparse.csr_array, parts: np.ndarray, shares: np.ndarray) -> float:
    """Rows by which the worst part of a label misses its share, in the mean over labels."""
    counts = np.asarray(Y.sum(axis=0)).ravel()
    of_part = np.array([np.asarray(Y[parts == part].sum(axis=0)).ravel() for part in range(len(shares))])
    off = np.abs(of_part - shares[:, None] * counts).max(axis=0)
    return float(off[counts >= LEAST].mean())


if __name__ == "__main__":
    main()
