"""Does a second ranking stage pay? `accurate` with and without boosted trees over its best candidates.

The trees need rows that the classifiers have not seen, and are used only if they rank those better in cross-fitting;
nothing is chosen on test rows. "one stage" is the linear ranker alone. Three controls let the trees see relations
between labels, too: the scores of the row's other candidates, weighted by how often the labels share a row. "directed"
takes P(label | other), the direction of the paper; "symmetric" the cosine of the two labels' rows; "both" P(label |
other) and P(other | label). All controls share candidates and classifiers with "two stages".
"""

import argparse
import json
from time import process_time
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from data import add_data_options, open_dataset, text_features
from pysldl import SLDLClassifier, evaluate, make_sldl
from pysldl.datasets import Dataset
from pysldl.metrics import inverse_propensity
from pysldl.ranking import TreeReranker
from pysldl.ranking.candidates import Candidates
from pysldl.ranking.reranker import FEATURES
from records import add_record_option, write_rows

METRICS = ("P@1", "P@3", "P@5", "nDCG@5", "PSP@1", "PSP@5")
OTHERS = 10  # best candidates of a row whose scores speak for or against the others
CONTROLS = ("directed", "symmetric", "both")


class RecordingReranker(TreeReranker):
    """A reranker that keeps what it was fitted to."""

    def fit(self, *given: Any) -> Self:
        """Learn, and remember the rows."""
        self.given = given
        return super().fit(*given)


class CorrelatedReranker(TreeReranker):
    """Trees that also see the scores of the other candidates, weighted by how often both labels share a row."""

    def __init__(self, kind: str, Y: sparse.csr_array) -> None:
        super().__init__()
        self.kind = kind
        self.Y = Y
        self.feature_names = (*FEATURES, *(f"other candidates, {number}" for number in range(1 + (kind == "both"))))

    def fit(self, candidates: Candidates, Y: sparse.csr_array, *counts: Any) -> Self:
        """Learn from relations that the rows at hand have no part in; predict with those of all rows."""
        self._count_pairs(self.Y.T @ self.Y - Y.T @ Y)
        super().fit(candidates, Y, *counts)
        self._count_pairs(self.Y.T @ self.Y)
        return self

    def _count_pairs(self, shared: sparse.csr_array) -> None:
        shared = sparse.coo_array(shared)
        order = np.argsort(shared.row.astype(np.int64) * shared.shape[0] + shared.col)
        self.pairs = (shared.row.astype(np.int64) * shared.shape[0] + shared.col)[order]
        self.shared = np.append(shared.data[order], 0.0)

    def features(self, candidates: Candidates, label_counts: NDArray[np.integer]) -> NDArray[np.float32]:
        """Those of every reranker, and one or two more."""
        labels = np.maximum(candidates.labels, 0).astype(np.int64)
        scores = np.where(candidates.labels >= 0, candidates.scores, 0.0)[:, :OTHERS]
        mine, other = labels[:, :, None], labels[:, None, :OTHERS]
        keys = mine * self.Y.shape[1] + other
        places = np.minimum(np.searchsorted(self.pairs, keys), len(self.pairs) - 1)
        together = np.where((self.pairs[places] == keys) & (mine != other), self.shared[places], 0.0)
        of_mine, of_other = np.maximum(label_counts[mine], 1), np.maximum(label_counts[other], 1)
        weights = {
            "directed": [together / of_other],
            "symmetric": [together / np.sqrt(of_mine * of_other)],
            "both": [together / of_other, together / of_mine],
        }[self.kind]
        more = [np.einsum("rco,ro->rc", weight, scores)[:, :, None] for weight in weights]
        return np.concatenate([super().features(candidates, label_counts), *more], axis=2).astype(np.float32)


def told(model: SLDLClassifier, train: Dataset, test: Dataset) -> dict[str, Any]:
    """Metrics on the test rows, and processor seconds of the prediction."""
    started = process_time()
    labels, _ = model.predict_topk(test.X, 5)
    seconds = {"predict_cpu_s": round(process_time() - started, 2)}
    found = evaluate(test.Y, labels, ks=(1, 3, 5), inv_propensity=inverse_propensity(train.Y))
    gain = None if model.reranker_ is None else round(100 * model.reranker_.gain_, 3)
    return {metric: round(100 * found[metric], 3) for metric in METRICS} | seconds | {"held_out_gain": gain}


def measure(name: str, data_dir: str | None, *, controls: bool) -> list[dict[str, Any]]:
    """One line for the first stage, one for both, and one for each control."""
    dataset = open_dataset(name, data_dir)
    dataset = dataset.vectorize() if dataset.X is None else text_features(dataset)
    train, test = dataset.split("train"), dataset.split("test")
    some = train.subset(range(min(2000, train.n_samples)))
    make_sldl("accurate").fit(some.X, some.Y).predict_topk(some.X[:50])  # loops are compiled
    rows = []
    for variant, reranker in (("one stage", None), ("two stages", RecordingReranker())):
        model = make_sldl("accurate", reranker=reranker)
        started = process_time()
        model.fit(train.X, train.Y)
        seconds = {"fit_cpu_s": round(process_time() - started, 2)}
        rows.append({"data": name, "variant": variant} | told(model, train, test) | seconds)
        print(json.dumps(rows[-1]), flush=True)
    if controls and model.reranker_ is not None:
        given = model.reranker_.given
        for kind in CONTROLS:
            model.reranker_ = CorrelatedReranker(kind, sparse.csr_array(train.Y, dtype=np.float64)).fit(*given)
            rows.append({"data": name, "variant": kind} | told(model, train, test))
            print(json.dumps(rows[-1]), flush=True)
    return rows


def main() -> None:
    """Print, and record, one line for every data set and variant."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", nargs="+", default=["eurlex57k", "tibkat", "eurlex-text"], help="names or files")
    parser.add_argument("--no-controls", action="store_true", help="leave the three controls out")
    add_data_options(parser)
    add_record_option(parser, "reranker.csv")
    options = parser.parse_args()
    for name in options.data:
        rows = measure(name, options.data_dir, controls=not options.no_controls)
        if options.record:
            write_rows(options.record, rows, ("data", "variant"))


if __name__ == "__main__":
    main()
