"""One version of a model, and the questions it can be asked."""

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from pysldl.backend.single_query import compile_loops
from pysldl.backend.topk import top_k
from pysldl.exceptions import DataError, ModelFormatError
from pysldl.inspection.label_map import LabelMap, make_map
from pysldl.inspection.relations import MIN_COUNT, LabelRelation, RelationFinder
from pysldl.metrics.reliability import by_frequency
from pysldl.persistence import Manifest, load_predictor, read_manifest
from pysldl.serve.errors import ServiceError
from pysldl.serve.examples import DataExamples, own_examples
from pysldl.serve.vocabulary import Words, are_words, forms_of

__all__ = ["Kind", "ServedModel", "open_version"]

Kind = Literal["text", "dense", "sparse"]
ATTEMPTS = 5


def open_version(path: Path) -> "ServedModel":
    """Load what is in the folder now, manifest and arrays of the same version."""
    for _ in range(ATTEMPTS):
        manifest = read_manifest(path)
        classifier = load_predictor(path)
        if read_manifest(path) == manifest:
            return ServedModel(path.name, manifest, classifier)
    raise ModelFormatError(f"{path}: is replaced again and again while it is being read.")


@dataclass(frozen=True)
class ServedModel:
    """A loaded model. It never changes, so threads may share it, and an answer belongs to exactly one version."""

    name: str
    manifest: Manifest
    classifier: Any
    examples: DataExamples | None = None

    @cached_property
    def version(self) -> str:
        """Twelve digits that differ where anything in the folder does."""
        parts = [self.manifest.created, *(record.sha256 for _, record in sorted(self.manifest.files.items()))]
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:12]

    def warm_up(self) -> None:
        """Prepare what the first request would have to wait for."""
        _ = self.version, self._column, self._by_frequency, self.takes_text

    def compile_loops(self) -> None:
        """Load the compiled loops for single rows, which takes a second that no request should wait for."""
        decoder, ranker = getattr(self.classifier, "decoder_", None), getattr(self.classifier, "ranker_", None)
        postings, W = getattr(decoder, "postings_", None), getattr(ranker, "W_", None)
        if decoder is not None and postings is not None:
            compile_loops([postings, decoder.Y_, *([] if W is None else [W])])

    # Labels

    @cached_property
    def labels(self) -> list[str]:
        return [str(name) for name in self.classifier.label_names_]

    @cached_property
    def counts(self) -> NDArray[np.int64]:
        return np.asarray(self.classifier.label_counts_)

    @cached_property
    def _column(self) -> dict[str, int]:
        return {name: column for column, name in enumerate(self.labels)}

    @cached_property
    def _lowered(self) -> NDArray[np.str_]:
        return np.char.lower(np.array(self.labels, dtype=np.str_))

    @cached_property
    def _by_frequency(self) -> NDArray[np.int64]:
        return np.argsort(-self.counts, kind="stable")

    def column(self, label: str) -> int:
        """The column of a label; an unknown one is an error that names close ones."""
        if label in self._column:
            return self._column[label]
        try:
            return self.classifier.label_column(label)
        except DataError as error:
            raise ServiceError("unknown_label", str(error)) from error

    def search(self, query: str, min_count: int) -> NDArray[np.int64]:
        """Columns of the labels that hold ``query``: those that begin with it first, then by frequency."""
        columns = self._by_frequency
        columns = columns[self.counts[columns] >= min_count]
        if not query:
            return columns
        places = np.char.find(self._lowered[columns], query.lower())
        found = places >= 0
        return columns[found][np.argsort(places[found] > 0, kind="stable")]

    # Inputs

    @cached_property
    def _words(self) -> Words | None:
        names = self.classifier.feature_names_
        if names is None or self.classifier.vectorizer_ is not None or not are_words(names.tolist()):
            return None
        idf = getattr(self.classifier, "feature_idf_", None)
        if idf is None and self.manifest.extra.get("features") == "tfidf":
            return None
        return Words(names.tolist(), idf)

    @property
    def takes_text(self) -> bool:
        return self.classifier.vectorizer_ is not None or self._words is not None

    @property
    def takes_vectors(self) -> bool:
        return self.classifier.vectorizer_ is None

    @property
    def n_features(self) -> int:
        return int(self.classifier.n_features_in_)

    @property
    def is_calibrated(self) -> bool:
        return getattr(self.classifier, "calibration_", None) is not None

    def features(self, inputs: Sequence[Any], kind: Kind) -> Any:
        """The rows of valid inputs of one kind: texts, lists of numbers, or objects with pairs of column and value."""
        if kind == "text":
            if self._words is not None:
                return self._words.counts(inputs)
            return sparse.csr_array(self.classifier.vectorizer_.transform(inputs))
        if kind == "dense":
            return np.array(inputs, dtype=np.float32)
        pairs = [row["sparse"] for row in inputs]
        indptr = np.concatenate([[0], np.cumsum([len(row) for row in pairs])])
        indices = np.array([pair[0] for row in pairs for pair in row], dtype=np.int32)
        values = np.array([pair[1] for row in pairs for pair in row], dtype=np.float32)
        X = sparse.csr_array((values, indices, indptr), shape=(len(pairs), self.n_features))
        X.sum_duplicates()
        return X

    # Answers

    def predict(
        self, X: Any, k: int, threshold: float | Literal["learned"] | None, only: Sequence[int] | None
    ) -> list[dict[str, Any]]:
        """The best labels of every row, best first.

        Parameters
        ----------
        X : features
        k : int
        threshold : float, "learned" or None
            Leave out labels of a smaller probability (of a smaller score, where the model is not calibrated), or
            of a score below the learned threshold.
        only : sequence of int, optional
            Choose among these columns.
        """
        found = [self._best(block, k, only) for block in self.classifier._score_checked(X)]
        labels = np.concatenate([part for part, _ in found])
        scores = np.concatenate([part for _, part in found])
        calibration = self.classifier.calibration_
        probabilities = None if calibration is None else calibration.probability(scores)
        kept = labels >= 0
        if threshold == "learned":
            kept &= scores >= calibration.threshold_
        elif threshold is not None:
            kept &= (scores if probabilities is None else probabilities) >= threshold
        return [
            {
                "features": int(np.count_nonzero(X[row]) if not sparse.issparse(X) else np.diff(X.indptr)[row]),
                "labels": [
                    {
                        "label": self.labels[labels[row, slot]],
                        "score": _number(scores[row, slot]),
                        "probability": None if probabilities is None else _number(probabilities[row, slot]),
                        "chosen": None if calibration is None else bool(scores[row, slot] >= calibration.threshold_),
                    }
                    for slot in np.flatnonzero(kept[row])
                ],
            }
            for row in range(len(labels))
        ]

    @staticmethod
    def _best(scores: Any, k: int, only: Sequence[int] | None) -> tuple[NDArray[np.int64], NDArray[Any]]:
        if only is None:
            return top_k(scores, k)
        columns = np.array(sorted(set(only)))
        part = scores[:, columns]
        slots, best = top_k(part.toarray() if sparse.issparse(part) else part, min(k, len(columns)))
        return np.where(slots >= 0, columns[slots], -1), best

    def explain(self, x: Any, column: int, top: int, text: str | None) -> dict[str, Any]:
        """What stands behind one label of one row; ``text``, if it came from one, says how its words are written."""
        if not hasattr(self.classifier, "explain"):
            raise ServiceError("not_supported", f"A {self.manifest.model_class} gives no reasons.")
        reasons = self.classifier.explain(x, column, top=top)
        forms = {} if text is None else self._forms(text)
        return {
            "label": reasons.label,
            "score": _number(reasons.score),
            "probability": None if reasons.probability is None else _number(reasons.probability),
            "neighbors": [
                {
                    "row": neighbor.row,
                    "similarity": _number(neighbor.similarity),
                    "contribution": _number(neighbor.contribution),
                    "labels": list(neighbor.labels),
                    "text": self._said(neighbor.row),
                }
                for neighbor in reasons.neighbors
            ],
            "terms": [
                {
                    "feature": term.feature,
                    "value": _number(term.value),
                    "contribution": _number(term.contribution),
                    "words": forms.get(term.feature.rstrip("."), []),
                }
                for term in reasons.terms
            ],
            "terms_total": _number(reasons.terms_total),
            "terms_meaning": reasons.terms_meaning,
        }

    def _forms(self, text: str) -> dict[str, list[str]]:
        if self._words is not None:
            return self._words.forms(text)
        return forms_of(self.classifier.vectorizer_, text)

    @cached_property
    def _own_examples(self) -> Sequence[str] | None:
        return own_examples(self.classifier)

    def _said(self, row: int) -> str | None:
        """What a training row said, as far as anybody knows."""
        if self.examples is not None and row < len(self.examples):
            return self.examples[row]
        return None if self._own_examples is None else self._own_examples[row] or None

    # Relations

    @cached_property
    def _finder(self) -> RelationFinder:
        """Finds relations between labels; an error where the model keeps nothing to read them from."""
        try:
            return self.classifier.relation_finder()
        except (AttributeError, DataError) as error:
            raise ServiceError("not_supported", "This model keeps no training labels to relate labels by.") from error

    def relations(self, label: str, limit: int, min_count: int = MIN_COUNT) -> dict[str, Any]:
        """Relations of one label to more frequent ones, and of rarer ones to it, strongest first."""
        column = self.column(label)
        finder = self._finder
        outgoing, incoming = (
            finder.relations(pairs.take(slice(limit)), self.labels) for pairs in finder.of(column, min_count)
        )
        return {
            "label": self.labels[column],
            "count": int(self.counts[column]),
            "outgoing": [_relation(found, found.target, found.n_target) for found in outgoing],
            "incoming": [_relation(found, found.source, found.n_source) for found in incoming],
        }

    @cached_property
    def _map(self) -> LabelMap:
        finder = self._finder
        vectors = getattr(self.classifier.embedding_, "components_", None)
        # Labels that are their own codes have no dense vectors to begin with.
        return make_map(finder, vectors if isinstance(vectors, np.ndarray) else None)

    def map(self) -> dict[str, Any]:
        """The places of the labels and the arrows between them, as columns of numbers."""
        found = self._map
        return {
            "total": len(self.labels),
            "labels": [self.labels[column] for column in found.columns.tolist()],
            "counts": self.counts[found.columns].tolist(),
            "x": np.round(found.places[:, 0].astype(np.float64), 4).tolist(),
            "y": np.round(found.places[:, 1].astype(np.float64), 4).tolist(),
            "source": found.source.tolist(),
            "target": found.target.tolist(),
            "strength": np.round(found.strength, 3).tolist(),
        }

    # Facts

    def _held_out(self) -> dict[str, Any] | None:
        """How good the model was on training rows left out in turn; a model of an earlier library does not know."""
        summary = getattr(self.classifier.calibration_, "held_out_", None)
        if summary is None:
            return None
        n_labels = len(summary["n_true"])  # labels that joined later had no part in it
        return {
            "n_rows": int(summary["n_rows"]),
            "metrics": {name: _number(value) for name, value in summary["metrics"].items()},
            "reliability": summary["reliability"],
            "by_frequency": by_frequency(summary["n_true"], summary["n_found"], self.counts[:n_labels]),
        }

    def facts(self) -> dict[str, Any]:
        """What the model is made of and how good it was found to be."""
        calibration = self.classifier.calibration_
        about = self.manifest.extra
        return {
            "name": self.name,
            "class": self.manifest.model_class,
            "created": self.manifest.created,
            "library_version": self.manifest.library_version,
            "n_bytes": self.manifest.n_bytes,
            "n_samples": int(getattr(self.classifier, "n_samples_", about.get("n_samples", 0))),
            "n_features": self.n_features,
            "n_labels": len(self.labels),
            "n_labels_seen": int((self.counts > 0).sum()),
            "takes": [kind for kind, can in (("text", self.takes_text), ("vectors", self.takes_vectors)) if can],
            "fitted_on": about,
            "parameters": self.manifest.parameters,
            "calibration": None
            if calibration is None
            else {
                "threshold": _number(calibration.threshold_),
                "left_out_f1": _number(calibration.left_out_f1_),
                "scores": _thinned(calibration.scores_),
                "probabilities": _thinned(calibration.probabilities_),
            },
            "held_out": self._held_out(),
            "frequencies": _thinned(self.counts[self._by_frequency]),
        }


def _relation(found: LabelRelation, label: str, count: int) -> dict[str, Any]:
    """A relation as the API tells it, seen from the other end: that label and its training rows."""
    return {
        "label": label,
        "count": count,
        "verb": found.verb,
        "n_both": found.n_both,
        "share": _number(found.share),
        "share_low": _number(found.share_low),
        "confidence": _number(found.confidence),
        "kl": None if found.kl is None else _number(found.kl),
        "kl_reverse": None if found.kl_reverse is None else _number(found.kl_reverse),
    }


def _number(value: Any) -> float:
    """Six digits, which is what single precision is good for; JSON has no name for what is not finite."""
    number = float(value)
    return float(f"{number:.6g}") if math.isfinite(number) else 0.0


def _thinned(values: NDArray[Any], n: int = 400) -> list[float]:
    """At most ``n`` of the values, evenly, with both ends."""
    if not len(values):
        return []
    chosen = np.unique(np.linspace(0, len(values) - 1, n).round().astype(int))
    return [_number(value) for value in np.asarray(values)[chosen]]
