"""What does it cost to add rows, and new labels, to a fitted model? As a share of its fit.

The last rows of the training split come later. The new labels on them are split off from known ones: every other
row of such a label carries the new one instead, so that all else stays as it is in the data.
"""

import argparse
import json
import sys
from time import process_time
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from data import add_data_options, open_dataset, text_features
from measuring import Clock, answer, measured_apart
from pysldl.embedding.base import LabelEmbedding
from pysldl.estimator.size_dispatch import ProblemSize, for_size
from records import add_record_option, write_rows
from specification import check_preset, read_preset

ROWS_OF_A_NEW_LABEL = 3
WARM_UP_ROWS = 500


class FixedEmbedding(LabelEmbedding):
    """Vectors that are given, for a refit with the same embedding."""

    def __init__(self, vectors: NDArray[np.float32] | None = None) -> None:
        self.vectors = vectors

    def memory(self, n_labels: int, **_: Any) -> int:
        return 0

    def _place(self, Y: sparse.csr_array, progress: Any, memory_limit: Any) -> None:
        self.components_ = self.vectors


def with_new_labels(Y: sparse.csr_array, n_later: int, n_new: int) -> sparse.csr_array:
    """``Y`` with ``n_new`` further columns, each taken over by some later rows from a label that they share."""
    later = sparse.csc_array(Y[-n_later:])
    frequent = np.argsort(-np.diff(later.indptr), kind="stable")[:n_new]
    entries = Y.tocoo()
    columns = entries.col.copy()
    for new, label in enumerate(frequent):
        rows = later.indices[later.indptr[label] : later.indptr[label + 1]][::2] + Y.shape[0] - n_later
        if len(rows) < ROWS_OF_A_NEW_LABEL:
            sys.exit(f"the later rows have fewer than {n_new} labels with {2 * ROWS_OF_A_NEW_LABEL} rows each")
        columns[(entries.col == label) & np.isin(entries.row, rows)] = Y.shape[1] + new
    return sparse.csr_array((entries.data, (entries.row, columns)), shape=(Y.shape[0], Y.shape[1] + n_new))


def measure(options: dict[str, Any]) -> dict[str, Any]:
    dataset = text_features(open_dataset(options["data"], options["data_dir"]))
    rows = dataset.split("train") if "train" in dataset.splits else dataset
    n_later, n_new = options["rows"], options["labels"]
    X, Y = rows.X, with_new_labels(rows.Y, n_later, n_new)
    n_known = Y.shape[1] - n_new
    clock = Clock()
    model = read_preset(options["preset"]).set_params(online=True)
    # What is compiled at its first call is compiled here.
    size = ProblemSize.of(X, Y)._replace(n_labels=n_known)
    warm = for_size(read_preset(options["preset"]), size).set_params(online=True)
    warm.fit(X[:WARM_UP_ROWS], Y[:WARM_UP_ROWS, :n_known]).partial_fit(X[-5:], Y[-5:])
    processor = [process_time()]
    with clock("fit"):
        model.fit(X[:-n_later], Y[:-n_later, :n_known])
    processor.append(process_time())
    with clock("update"):
        model.partial_fit(X[-n_later:], Y[-n_later:])
    processor.append(process_time())
    fit_cpu, update_cpu = np.diff(processor).tolist()
    result = {
        "n_rows": X.shape[0] - n_later,
        "n_features": X.shape[1],
        "n_labels": n_known,
        "fit_s": clock.seconds("fit"),
        "update_s": clock.seconds("update"),
        "share": clock.seconds("update") / clock.seconds("fit"),
        "fit_processor_s": fit_cpu,
        "update_processor_s": update_cpu,
        "processor_share": update_cpu / fit_cpu,
        "peak_mb": clock.peak_mb(),
    }
    if options["check"] and model.mapping_ is not None:
        refit = read_preset(options["preset"]).set_params(
            embedding=FixedEmbedding(model.embedding_.components_), calibrate=False
        )
        codes = refit.fit(X, Y).transform(X)
        result["steps"] = {"update": model.mapping_.n_iter_, "refit": refit.mapping_.n_iter_}
        result["largest_difference_of_codes"] = float(np.abs(model.transform(X) - codes).max())
        result["root_mean_square_of_codes"] = float(np.sqrt((codes.astype(np.float64) ** 2).mean()))
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="tibkat", help="data set of the catalog, or a file (default: tibkat)")
    parser.add_argument("--preset", default="accurate", help="for example: accurate, or paper(decoder__n_neighbors=50)")
    parser.add_argument("--rows", type=int, default=1000, help="rows that come later (default: 1000)")
    parser.add_argument("--labels", type=int, default=10, help="new labels among them (default: 10)")
    parser.add_argument("--check", action="store_true", help="compare the codes with those of a full refit")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    add_record_option(parser, "online.csv")
    add_data_options(parser)
    options = parser.parse_args()
    check_preset(parser, options.preset)
    asked = {key: getattr(options, key) for key in ("data", "data_dir", "preset", "rows", "labels", "check")}
    found = measured_apart(__file__, asked, threads=options.threads)
    if options.record:
        settings = {key: asked[key] for key in ("data", "preset", "rows", "labels")} | {"threads": options.threads}
        write_rows(options.record, [settings | found], tuple(settings))
    if options.json:
        print(json.dumps(asked | found, indent=2))
        return
    print(f"{options.data}, {options.preset}: {found['n_rows']} rows, {found['n_labels']} labels")
    print(f"fit                         {found['fit_s']:8.2f} s")
    print(
        f"{options.rows} rows, {options.labels} new labels {found['update_s']:11.2f} s: {found['share']:.1%} of the fit"
    )
    print(f"in processor time, which a busy machine changes less: {found['processor_share']:.1%}")
    if "largest_difference_of_codes" in found:
        print(f"codes differ from a refit's by at most {found['largest_difference_of_codes']:.1e}", end=" ")
        print(f"(root mean square {found['root_mean_square_of_codes']:.2g})")


if __name__ == "__main__" and not answer(measure):
    main()
