"""The backend: Annif's analyzer and vocabulary, our classifier and model folder."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from annif.backend.backend import AnnifLearningBackend
from annif.exception import ConfigurationException, NotInitializedException, NotSupportedException
from annif.suggestion import SubjectSuggestion, SuggestionBatch
from sklearn.feature_extraction.text import TfidfVectorizer

from pysldl.estimator.presets import make_sldl
from pysldl.estimator.settings import parse_settings, with_settings
from pysldl.exceptions import SLDLError
from pysldl.persistence import load_model, save_model

# Probabilities come from a curve with steps; labels on one step keep their order by this much.
TIE = 1e-4


class SLDLBackend(AnnifLearningBackend):
    """Suggests subjects with :class:`~pysldl.SLDLClassifier`, and learns from further documents.

    Parameters of a project, beside those of Annif: ``preset`` (accurate, fast, paper, official or blend), ``min_df``,
    ``ngram``, ``seed``, and ``settings``, which changes parameters of the classifier as ``sldl fit --set`` does:
    ``settings=decoder.large.n_neighbors=50 ranker.large.n_candidates=100``. Texts are tokenized by the analyzer of the
    project.
    """

    name = "pysldl"
    MODEL_FOLDER = "pysldl-model"
    DEFAULT_PARAMETERS: ClassVar[dict[str, Any]] = {
        "preset": "accurate",
        "min_df": 1,
        "ngram": 1,
        "seed": 0,
        "settings": "",
    }

    _model: Any = None

    @property
    def _folder(self) -> Path:
        return Path(self.datadir, self.MODEL_FOLDER)

    def initialize(self, parallel: bool = False) -> None:
        """Load the model, unless it is loaded."""
        if self._model is not None:
            return
        if not self._folder.is_dir():
            raise NotInitializedException(f"model {self._folder} not found", backend_id=self.backend_id)
        self.debug(f"loading model from {self._folder}")
        self._model = load_model(self._folder)

    def _train(self, corpus: Any, params: dict[str, Any], jobs: int = 0) -> None:
        if corpus == "cached":
            raise NotSupportedException("The pysldl backend keeps no cached training data: train it on the documents.")
        if corpus.is_empty():
            raise NotSupportedException("Cannot train a pysldl project with no documents")
        texts, labels = self._rows(corpus)
        self.info(f"training on {len(texts)} documents")
        try:
            model = self._classifier(params).fit(texts, labels)
        except SLDLError as error:
            raise NotSupportedException(str(error)) from error
        self._keep(model)

    def _learn(self, corpus: Any, params: dict[str, Any]) -> None:
        self.initialize()
        texts, labels = self._rows(corpus)
        if not texts:
            self.warning("no document with subjects to learn from")
            return
        self.info(f"learning from {len(texts)} documents")
        self._keep(self._model.partial_fit(texts, labels))

    def _suggest_batch(self, documents: list[Any], params: dict[str, Any]) -> Any:
        limit = int(params["limit"])
        rows = self._model.vectorizer_.transform([self._tokens(document.text) for document in documents])
        known = np.flatnonzero(np.diff(rows.indptr))  # without a known word there is nothing to go by
        suggestions: list[list[Any]] = [[] for _ in documents]
        if known.size:
            k = min(limit, len(self._model.label_names_))
            uris, scores = self._model.predict_topk(rows[known], k, names=True, proba=True)
            scores = np.clip(scores * (1 - TIE) + TIE * np.linspace(1, 0, k), 0, 1)
            for row, its, scored in zip(known.tolist(), uris, scores, strict=True):
                suggestions[row] = list(self._subjects(its.tolist(), scored.tolist()))
        return SuggestionBatch.from_sequence(suggestions, self.project.subjects, limit=limit)

    def _subjects(self, uris: list[str], scores: list[float]) -> Iterable[Any]:
        """Suggestions of those URIs that the vocabulary has now; what was removed from it is left out."""
        for uri, score in zip(uris, scores, strict=True):
            subject_id = self.project.subjects.by_uri(uri, warnings=False) if uri else None
            if subject_id is not None:
                yield SubjectSuggestion(subject_id=subject_id, score=score)

    def _rows(self, corpus: Any) -> tuple[list[str], list[list[str]]]:
        """Tokenized texts and URIs of the documents that have subjects."""
        texts, labels = [], []
        for document in corpus.documents:
            uris = sorted(self.project.subjects[number].uri for number in document.subject_set)
            if uris:
                texts.append(self._tokens(document.text))
                labels.append(uris)
        return texts, labels

    def _tokens(self, text: str) -> str:
        """The words that the analyzer finds, as one text: the vectorizer in the model needs no function then."""
        return " ".join("_".join(token.split()) for token in self.project.analyzer.tokenize_words(text))

    def _classifier(self, params: dict[str, Any]) -> Any:
        vectorizer = TfidfVectorizer(
            token_pattern=r"\S+",
            lowercase=False,
            sublinear_tf=True,
            min_df=int(params["min_df"]),
            ngram_range=(1, int(params["ngram"])),
            dtype=np.float32,
        )
        given = {"vectorizer": vectorizer, "online": True, "random_state": int(params["seed"])}
        try:
            classifier = make_sldl(str(params["preset"]), **given)
            return with_settings(classifier, parse_settings(str(params["settings"]).split(), "settings"), "settings")
        except SLDLError as error:
            raise ConfigurationException(str(error), backend_id=self.backend_id) from error

    def _keep(self, model: Any) -> None:
        folder = self._folder
        folder.parent.mkdir(parents=True, exist_ok=True)
        save_model(model, folder, extra={"data": self.project.project_id, "features": "texts"}, overwrite=True)
        self._model = model
