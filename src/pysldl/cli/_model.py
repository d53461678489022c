"""A loaded model with a data set: columns matched by name, true labels, rows to predict labels for."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from pysldl.cli._input import STANDARD_INPUT, Features, Reading, choose_rows, local_file, read_data
from pysldl.datasets import Dataset
from pysldl.exceptions import DataError
from pysldl.persistence import Manifest, load_model, read_current, read_manifest
from pysldl.preprocessing.labels import name_array

Unseen = Literal["keep", "drop"]
OF_LABELED_FILES = ("labels", "split", "separator", "name")  # of no concern where only texts are read
OF_TEXT_FILES = ("text", "delimiter", "header", "encoding", "id", "title")


@dataclass(frozen=True)
class Truth:
    """True labels in the columns of a model, and how often each was seen in training.

    Columns beyond those of the model are labels that it does not know.
    """

    Y: sparse.csr_array
    counts: NDArray[np.int64]


@dataclass(frozen=True)
class Scoring:
    """Settings of an evaluation: cutoffs, what to do with unknown labels, and propensities."""

    cutoffs: tuple[int, ...]
    unseen: Unseen | None
    propensity: tuple[float, float]
    n_training_rows: int

    def sums(self, truth: Truth, labels: NDArray[Any]) -> "Scored":
        """Score the predicted labels of some rows."""
        from pysldl.metrics import inverse_propensity_from_counts
        from pysldl.metrics.ranking import metric_sums

        weights = inverse_propensity_from_counts(truth.counts, self.n_training_rows, *self.propensity)
        never_seen = truth.counts == 0
        dropped = never_seen if self.unseen == "drop" else None
        found = metric_sums(truth.Y, labels, weights, ks=self.cutoffs, ignore_labels=dropped)
        return Scored(len(labels), int(never_seen[truth.Y.indices].sum()), found)


@dataclass(frozen=True)
class Scored:
    """Sums of an evaluation: rows, true labels unseen in training, and gained and attainable sums by metric."""

    n_rows: int
    n_unseen: int
    sums: dict[str, tuple[float, float]]

    def __add__(self, other: "Scored") -> "Scored":
        sums = {
            name: (pair[0] + other.sums[name][0], pair[1] + other.sums[name][1]) for name, pair in self.sums.items()
        }
        return Scored(self.n_rows + other.n_rows, self.n_unseen + other.n_unseen, sums)

    @property
    def metrics(self) -> dict[str, float]:
        from pysldl.metrics.ranking import ratio_of_sums

        return {name: ratio_of_sums(*pair) for name, pair in self.sums.items()}


@dataclass(frozen=True)
class Model:
    """A loaded version of a model, with its manifest."""

    path: Path
    version: str
    manifest: Manifest
    classifier: Any

    @property
    def takes_texts(self) -> bool:
        return self.classifier.vectorizer_ is not None

    @property
    def n_training_rows(self) -> int:
        """Rows the model learned from: noted by ``sldl fit``, else known to the model itself."""
        noted = self.manifest.extra.get("n_samples")
        return noted if isinstance(noted, int) else int(self.classifier.n_samples_)

    def was_fitted_on(self, data: str, split: str) -> bool:
        """Whether rows of that data set and split are, by name, among those the model learned from."""
        about = self.manifest.extra
        return about.get("data") == data and about.get("split") in (split, "all")

    def rows_of(self, dataset: Dataset, features: Features = "auto") -> Any:
        """The rows of a data set as the model takes them: texts, or features of the kind it was fitted on."""
        if self.takes_texts:
            if dataset.texts is None:
                raise DataError(f"{dataset.name}: holds features, but {self.path} was fitted on texts.")
            return dataset.texts
        if dataset.X is None:
            raise DataError(f"{dataset.name}: holds texts, but {self.path} was fitted on features.")
        self._check_columns(dataset)
        wanted = self.manifest.extra.get("features", "raw") if features == "auto" else features
        if wanted == "tfidf" and dataset.idf is None:
            raise DataError(
                f"{dataset.name}: {self.path} was fitted on tf-idf weights, but here are no idf to make them with. "
                "Pass --features raw if these features are weighted already."
            )
        return dataset.tfidf().X if wanted == "tfidf" else dataset.X

    def truth_of(self, dataset: Dataset, unseen: Unseen | None) -> Truth:
        """Return the labels of a data set, matched by name, or by position if the data has no names.

        ``unseen`` says what to do with a label that the model does not know; None: an error.
        """
        names, counts = self.classifier.label_names_, self.classifier.label_counts_
        matched = self.classifier.match_names([str(name) for name in dataset.label_names])
        unnamed = len(names) == dataset.n_labels and np.array_equal(
            dataset.label_names, name_array(range(dataset.n_labels))
        )
        if unnamed or matched == names.tolist():
            return Truth(dataset.Y, counts)
        column = {str(name): position for position, name in enumerate(names)}
        places = np.array([column.get(name, -1) for name in matched])
        carried = np.bincount(dataset.Y.indices, minlength=dataset.n_labels) > 0
        unknown = np.flatnonzero((places < 0) & carried)
        if unknown.size == carried.sum():
            raise DataError(f"{dataset.name}: {self.path} knows none of its {dataset.n_labels} labels.")
        if unknown.size and unseen is None:
            raise DataError(
                f"{dataset.name}: carries {unknown.size} labels that {self.path} does not know, such as "
                f"{str(dataset.label_names[unknown[0]])!r}. Pass --unseen keep to count them as missed, or "
                "--unseen drop to leave them out."
            )
        if unseen == "keep":
            places[unknown] = len(names) + np.arange(unknown.size)
            counts = np.concatenate([counts, np.zeros(unknown.size, dtype=counts.dtype)])
        entries = dataset.Y.tocoo()
        known = places[entries.col] >= 0
        Y = sparse.csr_array(
            (entries.data[known], (entries.row[known], places[entries.col[known]])),
            shape=(dataset.n_samples, len(counts)),
        )
        Y.data[:] = 1  # two labels may be one concept
        return Truth(Y, counts)

    def _check_columns(self, dataset: Dataset) -> None:
        expected, names = self.classifier.n_features_in_, self.classifier.feature_names_
        if dataset.n_features != expected:
            raise DataError(f"{dataset.name}: has {dataset.n_features} features, but {self.path} expects {expected}.")
        if names is None or dataset.feature_names is None:
            return
        different = np.flatnonzero(dataset.feature_names != names)
        if different.size:
            at = int(different[0])
            raise DataError(
                f"{dataset.name}: feature {at} is {str(dataset.feature_names[at])!r}, but {self.path} was fitted with "
                f"{str(names[at])!r} there."
            )


def open_model(path: Path) -> Model:
    """Load a model folder."""
    return read_current(path, lambda version: Model(path, version.name, read_manifest(version), load_model(version)))


@dataclass(frozen=True)
class UnlabeledRows:
    """Rows to predict labels for, as the model takes them, and what identifies them."""

    X: Any
    ids: Sequence[str] | None = None
    titles: Sequence[str] | None = None

    def __len__(self) -> int:
        return len(self.X) if isinstance(self.X, list) else int(self.X.shape[0])


def read_unlabeled(opened: Model, data: str, split: str | None, features: Features, reading: Reading) -> UnlabeledRows:
    """Read the rows to predict labels for: features, or texts, which need no labels."""
    from pysldl.datasets.annif_corpus import is_annif_corpus, read_annif_texts
    from pysldl.datasets.parquet import is_arrow_path
    from pysldl.datasets.text import read_texts

    if opened.takes_texts and split is None and is_annif_corpus(data):
        texts = read_annif_texts(data)
        return UnlabeledRows(texts.texts, texts.ids)
    if split is None and is_arrow_path(data):
        return _read_parts(opened, data, reading)
    is_file = data == STANDARD_INPUT or Path(data).is_file()
    if opened.takes_texts and is_file and split is None:
        with local_file(data) as path:
            found = read_texts(path, format=reading.input_format, **_text_options(reading, data))
        return UnlabeledRows(found.texts, found.ids, found.titles)
    dataset, _ = choose_rows(read_data(data, reading, n_features=opened.classifier.n_features_in_), split)
    return UnlabeledRows(opened.rows_of(dataset, features), dataset.ids, dataset.titles)


def _read_parts(opened: Model, data: str, reading: Reading) -> UnlabeledRows:
    """Rows of Parquet or Arrow files, which may come without labels."""
    from pysldl.datasets.parquet import Columns, list_parts, read_part

    options = reading.options()
    columns = Columns(**{name: str(options[name]) for name in Columns._fields if name in options})
    width = None if opened.takes_texts else opened.classifier.n_features_in_
    parts = [read_part(part, columns, labels=False, n_features=width) for part in list_parts(data)]
    if any((part.texts is None) == opened.takes_texts for part in parts):
        needed = "texts" if opened.takes_texts else "features"
        raise DataError(f"{data}: {opened.path} was fitted on {needed}, of which there are none here.")
    if opened.takes_texts:
        return UnlabeledRows([text for part in parts for text in part.texts or []])
    return UnlabeledRows(sparse.vstack([part.X for part in parts], format="csr"))


def _text_options(reading: Reading, data: str) -> dict[str, Any]:
    """Those of the options of ``--read`` that concern texts; others than those of a labeled file are refused."""
    options = reading.options()
    unknown = [name for name in options if name not in (*OF_TEXT_FILES, *OF_LABELED_FILES)]
    if unknown:
        raise DataError(f"--read {unknown[0]}: {data} is read for its texts, which takes no such option.")
    return {name: value for name, value in options.items() if name in OF_TEXT_FILES}
