"""Does a second ranking stage pay? `accurate` with and without boosted trees over its best candidates.

The trees need rows that the classifiers have not seen, and are used unless they rank those clearly worse in
cross-fitting; nothing is chosen on test rows. "one stage" is the linear ranker alone. "two stages" lets the trees see
how much the candidates of a row imply each other, in both directions, which is the paper's idea. Three controls show
what that brings: "no pairs" does not look at other labels; "directed" sees only P(label | other), the share of the
others' rows that have the label; "symmetric" the cosine of both labels' rows, which has no direction. All controls
share candidates and classifiers with "two stages".

`--inner` measures on a fifth of the training rows that are left out of training, instead of the test rows: what is
decided is decided there.
"""

import argparse
import json
from time import process_time
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from data import add_data_options, open_dataset, text_features, with_test_rows
from pysldl import SLDLClassifier, evaluate, make_sldl
from pysldl.datasets import Dataset
from pysldl.metrics import inverse_propensity
from pysldl.ranking import TreeReranker
from pysldl.ranking.candidates import Candidates
from pysldl.ranking.reranker import LabelRecord
from records import add_record_option, write_rows

METRICS = ("P@1", "P@3", "P@5", "nDCG@5", "PSP@1", "PSP@5")
CONTROLS = ("no pairs", "directed", "symmetric")


class RecordingReranker(TreeReranker):
    """A reranker that keeps what it was fitted to."""

    def fit(self, *given: Any) -> Self:
        """Learn, and remember the rows."""
        self.given = given
        return super().fit(*given)


class ControlReranker(TreeReranker):
    """Trees that see less of the label pairs, or see them without direction."""

    def __init__(self, kind: str) -> None:
        super().__init__(label_pairs=kind != "no pairs")
        self.kind = kind

    def features(self, candidates: Candidates, known: LabelRecord) -> NDArray[np.float32]:
        """Those of every reranker, with what the control does not see put out or replaced."""
        if self.kind == "symmetric":  # shared rows, weighted by the rows of both: the same in both directions
            scale = sparse.diags_array(1 / np.sqrt(np.maximum(known.counts, 1)))
            cosines = sparse.csr_array(scale @ known.pairs @ scale, dtype=np.float32)
            known = known._replace(pairs=cosines, counts=np.zeros_like(known.counts))
        X = super().features(candidates, known)
        if self.kind != "no pairs":
            X[..., -1] = 0
        return X


def told(model: SLDLClassifier, train: Dataset, test: Dataset) -> dict[str, Any]:
    """Metrics on the test rows, and processor seconds of the prediction."""
    started = process_time()
    labels, _ = model.predict_topk(test.X, 5)
    seconds = {"predict_cpu_s": round(process_time() - started, 2)}
    found = evaluate(test.Y, labels, ks=(1, 3, 5), inv_propensity=inverse_propensity(train.Y))
    gain = None if model.reranker_ is None else round(100 * model.reranker_.gain_, 3)
    return {metric: round(100 * found[metric], 3) for metric in METRICS} | seconds | {"held_out_gain": gain}


def measure(name: str, data_dir: str | None, *, controls: bool, inner: bool) -> list[dict[str, Any]]:
    """One line for the first stage, one for both, and one for each control."""
    dataset = text_features(with_test_rows(open_dataset(name, data_dir), 0))
    train, test = dataset.split("train"), dataset.split("test")
    if inner:
        order = np.random.RandomState(100).permutation(train.n_samples)
        n_judged = len(order) // 5
        train, test = train.subset(np.sort(order[n_judged:])), train.subset(np.sort(order[:n_judged]))
    judged = "training rows" if inner else "test rows"
    some = train.subset(range(min(2000, train.n_samples)))
    make_sldl("accurate").fit(some.X, some.Y).predict_topk(some.X[:50])  # loops are compiled
    rows = []
    for variant, reranker in (("one stage", None), ("two stages", RecordingReranker())):
        model = make_sldl("accurate", reranker=reranker)
        started = process_time()
        model.fit(train.X, train.Y)
        seconds = {"fit_cpu_s": round(process_time() - started, 2)}
        rows.append({"data": name, "rows": judged, "variant": variant} | told(model, train, test) | seconds)
        print(json.dumps(rows[-1]), flush=True)
    if controls and model.reranker_ is not None:
        given = model.reranker_.given
        for kind in CONTROLS:
            model.reranker_ = ControlReranker(kind).fit(*given)
            rows.append({"data": name, "rows": judged, "variant": kind} | told(model, train, test))
            print(json.dumps(rows[-1]), flush=True)
    return rows


def main() -> None:
    """Print, and record, one line for every data set and variant."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", nargs="+", default=["eurlex57k", "tibkat", "eurlex-text"], help="names or files")
    parser.add_argument("--inner", action="store_true", help="measure on training rows that are left out of training")
    parser.add_argument("--no-controls", action="store_true", help="leave the three controls out")
    add_data_options(parser)
    add_record_option(parser, "reranker.csv")
    options = parser.parse_args()
    for name in options.data:
        rows = measure(name, options.data_dir, controls=not options.no_controls, inner=options.inner)
        if options.record:
            write_rows(options.record, rows, ("data", "rows", "variant"))


if __name__ == "__main__":
    main()
