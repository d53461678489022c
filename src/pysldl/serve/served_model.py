"""One version of a model, and the responses that it gives."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from pysldl._utils.suggestions import did_you_mean
from pysldl.backend.single_query import compile_loops
from pysldl.backend.topk import top_k
from pysldl.exceptions import DataError, ModelFormatError
from pysldl.inspection.label_map import make_map
from pysldl.inspection.relations import LabelRelation, RelationFinder
from pysldl.metrics.reliability import by_frequency
from pysldl.persistence import Manifest, load_predictor, read_manifest
from pysldl.persistence.tensors import FrozenArrays, frozen_arrays
from pysldl.serve import schemas
from pysldl.serve.bodies import six_digits, well_formed
from pysldl.serve.errors import ServiceError
from pysldl.serve.examples import DataExamples, Snippets, stored_snippets
from pysldl.serve.limits import Limits
from pysldl.serve.vocabulary import TextFeatures, text_features

CURVE_POINTS = 400
ROWS_AT_ONCE = 64


def open_version(folder: Path, name: str, arrays: Path | None = None) -> "ServedModel":
    """Load a version of a model. Nothing of it stays on the disk, so that what happens there does not matter.

    ``arrays`` is a sealed copy of its arrays that another process made; without one, they are copied here.
    """
    frozen = frozen_copy(folder) if arrays is None else None
    if frozen is not None:
        arrays = frozen.path
    classifier = load_predictor(folder, mmap=arrays is not None, arrays=arrays)
    if classifier.n_dense_:
        raise DataError(
            f"{name}: was fitted with dense vectors beside the texts, which requests do not carry. Fit a model without "
            "dense= to serve it."
        )
    return ServedModel(name, read_manifest(folder), classifier, frozen=frozen)


def frozen_copy(folder: Path) -> FrozenArrays | None:
    """Return a sealed copy of the arrays of a version; None on systems that have no such thing."""
    try:
        return frozen_arrays(folder)
    except OSError as error:
        raise ModelFormatError(f"{folder}: its arrays cannot be read: {error.strerror or error}.") from error


@dataclass(frozen=True)
class ServedModel:
    """A loaded model. It never changes, so threads may share it and a response belongs to exactly one version.

    ``examples`` are snippets of the training rows; without them, what the model itself keeps. ``frozen`` is the copy of
    the arrays that other processes take theirs from.
    """

    name: str
    manifest: Manifest
    classifier: Any
    examples: DataExamples | None = None
    frozen: FrozenArrays | None = None

    @cached_property
    def version(self) -> str:
        """Twelve digits that change with any file of the folder."""
        parts = [self.manifest.created, *(record.sha256 for _, record in sorted(self.manifest.files.items()))]
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:12]

    def warm_up(self) -> None:
        """Prepare what the first request would have to wait for."""
        _ = self.version, self._column, self._by_frequency, self.takes_text

    def compile_loops(self) -> bool:
        """Load the compiled loops for single rows, which takes a second; return whether there are any."""
        return compile_loops(self.try_out)

    # Labels

    @cached_property
    def labels(self) -> list[str]:
        """Names of the labels for people, in the order of their columns."""
        return [well_formed(str(name)) for name in self.classifier.label_names_]

    @cached_property
    def uris(self) -> list[str | None]:
        """Identifiers of the labels, in the order of their columns; None where the model has no vocabulary."""
        known = getattr(self.classifier, "label_ids_", None)
        return [None] * len(self.labels) if known is None else [well_formed(str(one)) for one in known]

    @property
    def vocabulary(self) -> Any:
        """The vocabulary of the labels; None where the model was fitted without one."""
        return getattr(self.classifier, "vocabulary_", None)

    @cached_property
    def counts(self) -> NDArray[np.int64]:
        """Training rows of every label, of shape (n_labels,)."""
        return np.asarray(self.classifier.label_counts_)

    @cached_property
    def _column(self) -> dict[str, int]:
        by_uri = {uri: column for column, uri in enumerate(self.uris) if uri is not None}
        return by_uri | {name: column for column, name in reversed(list(enumerate(self.labels)))}

    @cached_property
    def _lower_case(self) -> list[str]:
        return [name.lower() for name in self.labels]

    @cached_property
    def _by_frequency(self) -> NDArray[np.int64]:
        return np.argsort(-self.counts, kind="stable")

    def column(self, label: str) -> int:
        """Return the column of a label, given by name or URI; the error for an unknown one suggests similar names."""
        if label in self._column:
            return self._column[label]
        near = did_you_mean(label[: schemas.MOST_CHARACTERS], self.labels)
        shown = label if len(label) <= schemas.MOST_CHARACTERS else f"{label[: schemas.MOST_CHARACTERS]}…"
        raise ServiceError("unknown_label", f"Unknown label {shown!r}: {near or '/v1/labels has all of them.'}")

    def find_labels(self, query: schemas.LabelsQuery) -> schemas.LabelsResponse:
        """Return the labels whose name holds a text: those that begin with it first, then by frequency."""
        found = self._by_frequency
        found = found[self.counts[found] >= query.min_count]
        if query.query:
            places = np.array([self._lower_case[column].find(query.query.lower()) for column in found.tolist()])
            met = places >= 0
            found = found[met][np.argsort(places[met] > 0, kind="stable")]
        shown = found[query.offset : query.offset + query.limit].tolist()
        labels = [
            schemas.LabelCount(self.labels[column], self.uris[column], int(self.counts[column])) for column in shown
        ]
        return schemas.LabelsResponse(self.version, len(found), labels)

    # Inputs

    @cached_property
    def _texts(self) -> TextFeatures | None:
        return text_features(self.classifier, weighted=self.manifest.extra.get("features") == "tfidf")

    @property
    def takes_text(self) -> bool:
        """Whether an input may be a text."""
        return self._texts is not None

    @property
    def takes_vectors(self) -> bool:
        """Whether an input may be a vector."""
        return self.classifier.vectorizer_ is None

    @property
    def n_features(self) -> int:
        """Length of a vector."""
        return int(self.classifier.n_features_in_)

    @property
    def calibration(self) -> Any:
        """The calibration of the scores; None where the model has none."""
        return getattr(self.classifier, "calibration_", None)

    def check_inputs(self, inputs: Sequence[schemas.Input]) -> None:
        """Refuse empty texts, inputs of different kinds, and a kind that the model does not take."""
        if len({type(row) for row in inputs}) > 1:
            raise ServiceError("invalid_request", "inputs: must all be of one kind: texts, vectors, or sparse rows.")
        if not isinstance(inputs[0], str):
            if not self.takes_vectors:
                message = f"The model {self.name} was trained on texts: send texts, not vectors."
                raise ServiceError("text_expected", message)
        elif not self.takes_text:
            raise ServiceError("vector_expected", f"The model {self.name} accepts feature vectors only.")
        elif not all(isinstance(text, str) and text.strip() for text in inputs):
            raise ServiceError("empty_text", "Enter some text first.")

    def features(self, inputs: Sequence[Any]) -> Any:
        """Return the rows of checked inputs, an ndarray or CSR of shape (n_inputs, n_features), float32."""
        if isinstance(inputs[0], str):
            assert self._texts is not None
            return self._texts.transform(inputs)
        if isinstance(inputs[0], list):
            return np.array(inputs, dtype=np.float32)
        indptr = np.array([*accumulate((len(row.sparse) for row in inputs), initial=0)], dtype=np.int32)
        # A generator lets other threads run meanwhile, as the conversion of a nested list does not.
        columns = np.fromiter((column for row in inputs for column, _ in row.sparse), np.int32, count=indptr[-1])
        values = np.fromiter((value for row in inputs for _, value in row.sparse), np.float32, count=indptr[-1])
        parts = (values, columns, indptr)
        X = sparse.csr_array(parts, shape=(len(inputs), self.n_features))
        X.sum_duplicates()
        return X

    # Responses

    def predict(
        self,
        inputs: Sequence[schemas.Input],
        k: int,
        threshold: float | Literal["learned"] | None = None,
        labels: Sequence[str] | None = None,
    ) -> schemas.PredictResponse:
        """Return the k best labels of every input, best first, chosen among ``labels`` if given.

        A threshold leaves out labels with a smaller probability (a smaller score, where the model is not calibrated),
        and ``"learned"`` those with a score below the learned threshold.
        """
        only = None if labels is None else np.unique([self.column(label) for label in labels])
        predictions = [
            prediction
            for start in range(0, len(inputs), ROWS_AT_ONCE)
            for prediction in self._predict_block(inputs[start : start + ROWS_AT_ONCE], k, threshold, only)
        ]
        return schemas.PredictResponse(self.version, predictions)

    def _predict_block(
        self,
        inputs: Sequence[schemas.Input],
        k: int,
        threshold: float | Literal["learned"] | None,
        only: NDArray[np.int64] | None,
    ) -> list[schemas.Prediction]:
        """Return the best labels of a few inputs: no step of it keeps other threads waiting for long."""
        X = self.features(inputs)
        columns, scores = self._best(X, k, only)
        calibration = self.calibration
        probabilities = None if calibration is None else calibration.probability(scores)
        n_features = np.diff(X.indptr) if sparse.issparse(X) else np.count_nonzero(X, axis=1)
        informative = n_features
        if self._texts is not None and isinstance(inputs[0], str):
            informative = self._texts.informative(inputs, X)  # type: ignore[arg-type]
        chosen = None if calibration is None else (scores >= calibration.threshold_) & (informative > 0)[:, None]
        kept = columns >= 0
        if threshold == "learned" and chosen is not None:
            kept &= chosen
        elif isinstance(threshold, float | int):
            kept &= (scores if probabilities is None else probabilities) >= threshold
        labels, uris = self.labels, self.uris
        lists = [
            columns.tolist(),
            scores.tolist(),
            [[None] * columns.shape[1]] * len(columns) if probabilities is None else probabilities.tolist(),
            [[None] * columns.shape[1]] * len(columns) if chosen is None else chosen.tolist(),
            kept.tolist(),
        ]
        return [
            schemas.Prediction(
                int(n_features[row]),
                int(informative[row]),
                [
                    schemas.ScoredLabel(
                        labels[column],
                        uris[column],
                        six_digits(score),
                        None if probability is None else six_digits(probability),
                        is_chosen,
                    )
                    for column, score, probability, is_chosen, is_kept in zip(*slots, strict=True)
                    if is_kept
                ],
            )
            for row, slots in enumerate(zip(*lists, strict=True))
        ]

    def _best(self, X: Any, k: int, only: NDArray[np.int64] | None) -> tuple[NDArray[np.int64], NDArray[np.floating]]:
        """Return columns and scores of the k best labels, of all or of those with the columns ``only``."""
        if only is None:
            best: tuple[NDArray[np.int64], NDArray[np.floating]] = self.classifier.top_labels(X, k)
            return best
        parts = [part[:, only] for part in self.classifier.score_blocks(X)]
        found = [top_k(part.toarray() if sparse.issparse(part) else part, min(k, len(only))) for part in parts]
        slots = np.concatenate([slots for slots, _ in found])
        return np.where(slots >= 0, only[slots], -1), np.concatenate([scores for _, scores in found])

    def suggest(self, form: schemas.SuggestForm, max_k: int = 100) -> schemas.SuggestResponse:
        """Return the best labels of a text as Annif's clients expect them; ensembles of Annif ask for very many."""
        (found,) = self.predict([form.text], min(form.limit, max_k)).predictions
        best = max((label.score for label in found.labels), default=0.0)
        subjects = []
        for label in found.labels:
            score = label.score / best if label.probability is None and best > 0 else label.probability or 0.0
            if found.informative and score > 0 and score >= form.threshold:
                subjects.append(schemas.SuggestedSubject(label.uri or label.label, label.label, None, min(1.0, score)))
        return schemas.SuggestResponse(subjects)

    def project(self) -> schemas.Project:
        """Return the model as Annif's clients expect a project."""
        language = getattr(self.vocabulary, "language", None) or "en"
        return schemas.Project(self.name, self.name, language, {"backend_id": "sldl"}, True, self.manifest.created)

    def explain(self, item: schemas.Input, label: str, top: int) -> schemas.ExplainResponse:
        """Return the similar training rows and the terms behind one label of one input."""
        if not hasattr(self.classifier, "explain"):
            raise ServiceError("not_supported", f"A {self.manifest.model_class} gives no explanations.")
        reasons = self.classifier.explain(self.features([item]), self.column(label), top=top)
        words = self._texts.words_by_term(item) if isinstance(item, str) and self._texts is not None else {}
        column = self.column(label)
        return schemas.ExplainResponse(
            self.version,
            self.labels[column],
            self.uris[column],
            reasons.score,
            reasons.probability,
            [
                schemas.SimilarRow(n.row, n.similarity, n.contribution, list(n.labels), self.snippet(n.row))
                for n in reasons.neighbors
            ],
            [
                schemas.TermInScore(t.feature, t.value, t.contribution, words.get(t.feature.rstrip("."), []))
                for t in reasons.terms
            ],
            reasons.terms_total,
            reasons.terms_meaning,
            [schemas.RelatedCandidate(o.label, o.score, o.rows, o.rows_with_both) for o in reasons.related],
        )

    @cached_property
    def _stored_snippets(self) -> Snippets | None:
        return stored_snippets(self.classifier)

    def snippet(self, row: int) -> str | None:
        """Return a short text for a training row, from the examples or else from the model; None without either."""
        if self.examples is not None and row < len(self.examples.snippets):
            return str(self.examples.snippets[row])
        return None if self._stored_snippets is None else self._stored_snippets[row] or None

    @cached_property
    def _finder(self) -> RelationFinder:
        try:
            finder: RelationFinder = self.classifier.relation_finder()
        except (AttributeError, DataError) as error:
            raise ServiceError("not_supported", "This model keeps no training labels to relate labels by.") from error
        return finder

    def relations(self, query: schemas.RelationsQuery) -> schemas.RelationsResponse:
        """Return the relations of one label to more frequent ones, and of rarer ones to it; strongest first."""
        column = self.column(query.label)
        outgoing, incoming = (
            self._finder.named(pairs.take(slice(query.limit)), self.labels)
            for pairs in self._finder.of_label(column, query.min_count)
        )
        return schemas.RelationsResponse(
            self.version,
            self.labels[column],
            self.uris[column],
            int(self.counts[column]),
            [_related(relation, relation.target, relation.n_target) for relation in outgoing],
            [_related(relation, relation.source, relation.n_source) for relation in incoming],
            *(self._linked(column, kind) for kind in ("broader", "narrower", "related")),
        )

    def _linked(self, column: int, kind: str) -> list[schemas.Concept]:
        """Return the concepts that the vocabulary links to a label."""
        uri = self.uris[column]
        if self.vocabulary is None or uri not in self.vocabulary:
            return []
        linked = getattr(self.vocabulary[uri], kind)
        return [schemas.Concept(self.vocabulary.display_name(one), one, one in self._column) for one in linked]

    def map(self) -> schemas.MapResponse:
        """Return the places of the labels and the arrows between them."""
        finder, vectors = self._finder, getattr(self.classifier.embedding_, "components_", None)
        # Labels that are their own codes have no dense vectors to start from.
        found = make_map(finder, vectors if isinstance(vectors, np.ndarray) else None)
        x, y = np.round(found.places.astype(np.float64), 4).T.tolist()
        return schemas.MapResponse(
            self.version,
            len(self.labels),
            [self.labels[column] for column in found.columns.tolist()],
            self.counts[found.columns].tolist(),
            x,
            y,
            found.source.tolist(),
            found.target.tolist(),
            found.strength.tolist(),
            self._links_between(found.columns.tolist()),
        )

    def _links_between(self, columns: list[int]) -> list[tuple[int, int]]:
        """Return which of the labels the vocabulary calls narrower than which others, by their positions."""
        if self.vocabulary is None:
            return []
        place = {self.uris[column]: position for position, column in enumerate(columns)}
        identifiers = self.vocabulary.identifiers_
        pairs = ((identifiers[low], identifiers[high]) for low, high in self.vocabulary.broader_.tolist())
        return [(place[low], place[high]) for low, high in pairs if low in place and high in place]

    def facts(
        self, limits: Limits, feedback: Literal["download", "file", "learn"] | None = None
    ) -> schemas.ModelResponse:
        """Return what the model is made of, its quality on held-out rows, and what the service allows."""
        about = self.manifest.extra
        kinds = (("text", self.takes_text), ("vectors", self.takes_vectors))
        return schemas.ModelResponse(
            version=self.version,
            name=self.name,
            model_class=self.manifest.model_class,
            created=self.manifest.created,
            library_version=self.manifest.library_version,
            n_bytes=self.manifest.n_bytes,
            n_samples=int(getattr(self.classifier, "n_samples_", about.get("n_samples", 0))),
            n_features=self.n_features,
            n_labels=len(self.labels),
            n_labels_seen=int((self.counts > 0).sum()),
            takes=[kind for kind, is_taken in kinds if is_taken],
            fitted_on=about,
            parameters=self.manifest.parameters,
            calibration=_calibration_facts(self.calibration),
            held_out=_held_out_facts(self.calibration, self.counts),
            frequencies=_thinned(self.counts[self._by_frequency]),
            example=self._example(),
            feedback=feedback,
            max_rows=limits.max_rows,
            max_bytes=limits.body_bytes,
        )

    def _example(self) -> str | None:
        """Return a text to try, from the snippet of a training row; None without one."""
        if not self.takes_text or not len(self.counts):
            return None
        if (snippet := self.snippet(0)) is not None:
            return snippet.replace(" · ", " ")
        return None

    def try_out(self) -> None:
        """Predict one row, so that a model that cannot fails before it is served."""
        self.predict(["a"] if self.takes_text else [schemas.SparseRow([])], 1)


def _related(relation: LabelRelation, label: str, count: int) -> schemas.RelatedLabel:
    """Return a relation seen from one of its labels: the other label and its training rows."""
    figures = {name: getattr(relation, name) for name in schemas.RelatedLabel.__struct_fields__[2:]}
    return schemas.RelatedLabel(label, count, **figures)


def _calibration_facts(calibration: Any) -> schemas.CalibrationFacts | None:
    if calibration is None:
        return None
    curve = _thinned(calibration.scores_), _thinned(calibration.probabilities_)
    return schemas.CalibrationFacts(calibration.threshold_, calibration.held_out_f1_, *curve)


def _held_out_facts(calibration: Any, counts: NDArray[np.int64]) -> dict[str, Any] | None:
    summary = getattr(calibration, "held_out_", None)
    if summary is None:
        return None
    n_true, n_found = summary["n_true"], summary["n_found"]
    groups = by_frequency(n_true, n_found, counts[: len(n_true)])  # labels added by `sldl update` had no part in it
    return {name: summary[name] for name in ("n_rows", "metrics", "reliability")} | {"by_frequency": groups}


def _thinned(values: NDArray[Any]) -> list[float]:
    """Return some of the values, evenly spaced, with both ends."""
    if not len(values):
        return []
    chosen = np.unique(np.linspace(0, len(values) - 1, CURVE_POINTS).round().astype(int))
    thinned: list[float] = np.asarray(values)[chosen].tolist()
    return thinned
