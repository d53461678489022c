"""Does `predict_set` keep the recall that was asked for, and how large are its sets beside a fixed number of labels?

The thresholds come from held-out training rows; test rows are only measured. "fixed k" is the number of best labels,
the same for every row, that would reach the same recall on the test rows, interpolated between whole numbers.
"""

import argparse
import json
import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from data import add_data_options, open_dataset
from pysldl import make_sldl
from pysldl.datasets import Dataset, stratified_split
from pysldl.exceptions import DataError, SLDLWarning
from pysldl.metrics.ranking import hits_of
from records import add_record_option, write_rows

SETS = (
    "stackex-cs",
    "stackex-chess",
    "stackex-philosophy",
    "stackex-chemistry",
    "delicious",
    "corel16k-s1",
    "eurlex-text",
)
TARGETS = (0.8, 0.9)
MOST_ROWS = 12_000
MOST_TEST_ROWS = 4_000


def training_and_test(dataset: Dataset) -> tuple[Dataset, Dataset]:
    """The rows of the standard split, or of a stratified one of 20 percent; of many rows some, drawn with seed 0."""
    dataset = dataset.tfidf() if dataset.idf is not None else dataset
    train, test = dataset.splits.get("train"), dataset.splits.get("test")
    if train is None or test is None:
        train, test = stratified_split(dataset.Y, 0.2)
    draw = np.random.RandomState(0).permutation
    return dataset.subset(np.sort(draw(train)[:MOST_ROWS])), dataset.subset(np.sort(draw(test)[:MOST_TEST_ROWS]))


def recalls_of_fixed_k(labels: NDArray[np.int64], Y: Any) -> NDArray[np.float64]:
    """Mean recall of the k best labels, for k from 0 up, over rows with labels."""
    n_true = np.diff(Y.indptr)
    hits = hits_of(labels, Y)[n_true > 0]
    found = np.cumsum(hits, axis=1) / n_true[n_true > 0][:, None]
    return np.concatenate([[0.0], found.mean(axis=0)])


def measure(name: str, preset: str, data_dir: str | None) -> list[dict[str, Any]]:
    """One line for every wanted recall."""
    train, test = training_and_test(open_dataset(name, data_dir))
    rows = [part.texts if part.X is None else part.X for part in (train, test)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SLDLWarning)  # labels without training rows: said by n_labels_seen
        model = make_sldl(preset, random_state=0).fit(rows[0], train.Y)
    labels, _ = model.predict_topk(rows[1], min(400, train.n_labels))
    by_k = recalls_of_fixed_k(labels, test.Y)
    n_true = np.diff(test.Y.indptr)
    found = []
    for target in TARGETS:
        line: dict[str, Any] = {"data": train.name, "preset": preset, "recall": target}
        line |= {"n_train": train.n_samples, "n_test": test.n_samples, "n_labels": train.n_labels}
        line["n_held_out"] = model.calibration_.sets_.n_rows_
        try:
            chosen = model.predict_set(rows[1], recall=target)
        except DataError as error:
            found.append(line | {"refused": str(error)})
            continue
        right = np.asarray(chosen.multiply(test.Y).sum(axis=1)).ravel()
        recall = float((right[n_true > 0] / n_true[n_true > 0]).mean())
        size = chosen.nnz / chosen.shape[0]
        fixed = float(np.interp(recall, by_k, np.arange(len(by_k)))) if recall <= by_k[-1] else None
        line |= {"test_recall": round(recall, 4), "mean_size": round(size, 2), "refused": ""}
        line |= {"precision": round(float(right.sum()) / chosen.nnz, 4)}
        found.append(line | {"fixed_k": None if fixed is None else round(fixed, 2)})
    return found


def main() -> None:
    """Print, and record, one line for every data set and wanted recall."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", nargs="+", default=list(SETS), help="catalog names or data files")
    parser.add_argument("--preset", default="accurate")
    add_data_options(parser)
    add_record_option(parser, "prediction_sets.csv")
    options = parser.parse_args()
    for name in options.data:
        rows = measure(name, options.preset, options.data_dir)
        for row in rows:
            print(json.dumps(row), flush=True)
        if options.record:
            write_rows(options.record, rows, ("data", "preset", "recall"))


if __name__ == "__main__":
    main()
