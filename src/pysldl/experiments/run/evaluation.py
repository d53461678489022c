"""Evaluate every configuration of a method on one fold, doing shared work once.

The estimator does all of it (:meth:`~pysldl.SLDLClassifier.embedding_path`,
:class:`~pysldl.mapping.SharedFactorRidge`, :meth:`~pysldl.SLDLClassifier.predict_topk_path`): one descent for each
c_hat gives the label embeddings of every number of steps, one factorization serves every regression of the same rows,
and one neighbor search for the largest k contains those of every smaller k. The numbers are those that fitting each
configuration by itself gives.

For nested selection the mapping is fitted again on the inner rows of each trial and the validation rows are ranked. The
label embedding, which never sees features, is that of all training rows throughout; test rows play no part.
"""

import time
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise, product
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator

from pysldl._utils.suggestions import did_you_mean
from pysldl.datasets import Dataset
from pysldl.estimator.classifier import SLDLClassifier
from pysldl.exceptions import DataError
from pysldl.experiments.run.methods import Method, parameter_of
from pysldl.experiments.run.protocol import Fold, Protocol
from pysldl.experiments.stats.error_bound import error_bound_terms
from pysldl.mapping import RidgeMapping, SharedFactorRidge
from pysldl.metrics import evaluate, inverse_propensity

PAPER_METRICS = ("P@1", "P@3", "P@5", "nDCG@3", "nDCG@5", "PSP@1", "PSP@5", "PSnDCG@5")
DEPTH = 5
DECIMALS = 8  # far beyond what rows can tell apart, and short enough for the order of a sum to leave no trace

Configuration = tuple[tuple[str, int], ...]
Labels = NDArray[np.int64]
Metrics = dict[str, dict[str, float]]  # by "keep" or "drop" (what became of unseen test labels), then by metric


@dataclass(frozen=True)
class Task:
    """Rows to learn from (X, Y) and rows to rank: training and test rows, or two parts of the training rows."""

    X: Any
    Y: sparse.csr_array
    X_new: Any
    Y_new: sparse.csr_array

    @classmethod
    def of_rows(cls, dataset: Dataset, rows: NDArray[np.intp], new: NDArray[np.intp]) -> "Task":
        """Learn from ``rows`` of a data set and rank its rows ``new``."""
        return cls(dataset.X[rows], dataset.Y[rows], dataset.X[new], dataset.Y[new])

    def score(self, labels: Labels) -> Metrics:
        """The paper's metrics of the best labels (n_new, 5), with unseen test labels kept and dropped."""
        kept = self._metrics(labels, None)
        return {"keep": kept, "drop": dict(kept) if self._unseen is None else self._metrics(labels, self._unseen)}

    def _metrics(self, labels: Labels, ignored: NDArray[np.bool_] | None) -> dict[str, float]:
        kinds = ("P", "nDCG", "PSP", "PSnDCG")
        found = evaluate(self.Y_new, labels, self._weights, metrics=kinds, ignore_labels=ignored)
        return {name: round(found[name], DECIMALS) for name in PAPER_METRICS}

    @cached_property
    def _weights(self) -> Any:
        return inverse_propensity(self.Y)

    @cached_property
    def _unseen(self) -> NDArray[np.bool_] | None:
        """Labels without a row to learn from; None if no new row carries one."""
        unseen = np.bincount(self.Y.indices, minlength=self.Y.shape[1]) == 0
        return unseen if unseen[self.Y_new.indices].any() else None


class FoldData:
    """One fold of one data set: the final task, and the trials, which are all that nested selection sees."""

    def __init__(self, dataset: Dataset, fold: Fold) -> None:
        self.final = Task.of_rows(dataset, fold.train, fold.test)
        self.trials = [Task.of_rows(dataset, inner, validation) for inner, validation in fold.trials]


@dataclass(frozen=True)
class ConfigurationResult:
    """What one configuration of a method did on one fold.

    The seconds are those that it would take alone: shared work is counted in full (of a descent the part up to its
    number of steps), selection not at all.
    """

    configuration: Configuration
    test: Metrics
    validation: Metrics | None  # mean over the trials; None for a method with a single configuration
    fit_seconds: float
    predict_seconds: float
    terms: dict[str, float] | None  # of the error bound


def find_metrics(names: Sequence[str] | None) -> tuple[str, ...]:
    """Return the named ones of the paper's eight metrics, in the paper's order; all if none are named."""
    known = {name.lower(): name for name in PAPER_METRICS}
    for name in names or ():
        if name.lower() not in known:
            hint = did_you_mean(name, PAPER_METRICS) or f"choose from {', '.join(PAPER_METRICS)}."
            raise DataError(f"unknown metric {name!r}: {hint}")
    wanted = known if names is None else {name.lower() for name in names}
    return tuple(metric for name, metric in known.items() if name in wanted)


def mean_metric(metrics: dict[str, float]) -> float:
    """Return the mean of the eight metrics, by which configurations are chosen."""
    return sum(metrics[name] for name in PAPER_METRICS) / len(PAPER_METRICS)


def configurations(method: Method, protocol: Protocol) -> list[Configuration]:
    """Return the configurations of a method, in the order in which ties between them are decided."""
    axes = method.axes
    return [tuple(zip(axes, values, strict=True)) for values in product(*(protocol.values(axis) for axis in axes))]


def evaluate_method(
    method: Method, data: FoldData, protocol: Protocol, done: Container[Configuration] = (), device: str | None = None
) -> Iterator[list[ConfigurationResult]]:
    """Run a method on a fold; yield the results of each c_hat as soon as all of them are finished.

    A c_hat of which every configuration is among ``done`` is not run again.
    """
    if not method.axes:
        if () not in done:
            yield [_only_result(method.estimator(protocol.seed, device), data.final)]
        return
    classifier = method.estimator(protocol.seed, device).with_default_stages()
    final, *trials = (_SharedTask(classifier, task) for task in (data.final, *data.trials))
    by_width: dict[int | None, list[Configuration]] = {}
    for configuration in configurations(method, protocol):
        by_width.setdefault(dict(configuration).get("c_hat"), []).append(configuration)
    for group in by_width.values():
        if not all(configuration in done for configuration in group):
            yield _results_of_width(classifier, group, final, trials)


def _only_result(estimator: Any, task: Task) -> ConfigurationResult:
    started = time.perf_counter()
    estimator.fit(task.X, task.Y)
    fitted = time.perf_counter()
    labels, _ = estimator.predict_topk(task.X_new, DEPTH)
    predicted = time.perf_counter()
    return ConfigurationResult((), task.score(labels), None, fitted - started, predicted - fitted, None)


def _results_of_width(
    classifier: SLDLClassifier, group: Sequence[Configuration], final: "_SharedTask", trials: Sequence["_SharedTask"]
) -> list[ConfigurationResult]:
    """Results of the configurations that share a c_hat."""
    values = [dict(configuration) for configuration in group]
    steps, ks = (list(dict.fromkeys(value.get(axis) for value in values)) for axis in ("n_steps", "k"))
    of_width = _set(clone(classifier), [item for item in group[0] if item[0] == "c_hat"])
    started = time.perf_counter()
    embeddings: list[Any] = [None]
    if getattr(of_width.decoder, "input_kind", "codes") != "features":
        path = [n for n in steps if n is not None]
        embeddings = of_width.embedding_path(final.task.Y, n_steps=path or None)
    seconds = time.perf_counter() - started

    results = {}
    for n, embedding in zip(steps, embeddings, strict=True):
        ranked = final.rank(of_width, embedding, ks)
        terms = final.error_bound(ranked.classifier, embedding)
        scored = [[t.task.score(labels) for labels in t.rank(of_width, embedding, ks).labels] for t in trials]
        embedding_seconds = seconds if n is None else seconds * n / max(n for n in steps if n is not None)
        for place, k in enumerate(ks):
            results[n, k] = (
                final.task.score(ranked.labels[place]),
                _mean_over_trials([of_trial[place] for of_trial in scored]),
                embedding_seconds + ranked.fit_seconds[place],
                ranked.predict_seconds[place],
                terms,
            )
    return [
        ConfigurationResult(configuration, *results[value.get("n_steps"), value.get("k")])
        for configuration, value in zip(group, values, strict=True)
    ]


def _mean_over_trials(scores: Sequence[Metrics]) -> Metrics:
    return {
        unseen: {name: sum(score[unseen][name] for score in scores) / len(scores) for name in PAPER_METRICS}
        for unseen in scores[0]
    }


@dataclass(frozen=True)
class _Ranked:
    """Best labels of the new rows for every k, a fitted classifier, and what each k would take alone."""

    labels: list[Labels]
    classifier: SLDLClassifier
    fit_seconds: list[float]
    predict_seconds: list[float]


class _SharedTask:
    """A task, and the mapping whose copies share the factor of its rows."""

    def __init__(self, classifier: SLDLClassifier, task: Task) -> None:
        self.task = task
        mapping = classifier.mapping
        self._mapping = SharedFactorRidge.of(mapping) if type(mapping) is RidgeMapping else mapping

    def rank(self, classifier: SLDLClassifier, embedding: Any, ks: Sequence[int | None]) -> _Ranked:
        """Fit the classifier with a fitted embedding, and rank the new rows, for all k at once if that is right."""
        fixed = clone(classifier).set_params(mapping=self._mapping)
        if embedding is not None:
            fixed.set_params(embedding=FrozenEstimator(embedding))
        known = [k for k in ks if k is not None]
        if fixed.ranker is None and fixed.reranker is None and known and fixed.decoder.has_neighbor_path:
            return self._rank_together(fixed, known)
        return self._rank_each(fixed, ks)

    def _rank_together(self, classifier: SLDLClassifier, ks: Sequence[int]) -> _Ranked:
        fit_seconds = self._fit(_set(classifier, [("k", min(max(ks), self.task.Y.shape[0]))]))
        labels: list[Labels] = []
        ends = [time.perf_counter()]
        for of_k, _ in classifier.predict_topk_path(self.task.X_new, DEPTH, n_neighbors=ks):
            labels.append(of_k)
            ends.append(time.perf_counter())
        # The first answer, of the smallest k, waits for the search that serves all; the others are votes alone.
        first = ends[1] - ends[0]
        votes = [0.0, *(end - start for start, end in pairwise(ends[1:]))]
        return _Ranked(labels, classifier, [fit_seconds] * len(ks), [first + own for own in votes])

    def _rank_each(self, classifier: SLDLClassifier, ks: Sequence[int | None]) -> _Ranked:
        labels, fits, predictions = [], [], []
        for k in ks:
            fits.append(self._fit(classifier if k is None else _set(classifier, [("k", k)])))
            started = time.perf_counter()
            labels.append(classifier.predict_topk(self.task.X_new, DEPTH)[0])
            predictions.append(time.perf_counter() - started)
        return _Ranked(labels, classifier, fits, predictions)

    def _fit(self, classifier: SLDLClassifier) -> float:
        """Seconds that the fit would take alone: the shared factor is counted in full."""
        saved = getattr(self._mapping, "saved_seconds", 0.0)
        started = time.perf_counter()
        classifier.fit(self.task.X, self.task.Y)
        return time.perf_counter() - started + getattr(self._mapping, "saved_seconds", 0.0) - saved

    def error_bound(self, classifier: SLDLClassifier, embedding: Any) -> dict[str, float] | None:
        """The terms of the error bound; None if there is no latent space."""
        if embedding is None:
            return None
        task = self.task
        targets, truth = embedding.transform(task.Y), embedding.transform(task.Y_new)
        return error_bound_terms(targets, task.Y, truth, task.Y_new, classifier.transform(task.X_new))


def _set(classifier: SLDLClassifier, configuration: Sequence[tuple[str, int]]) -> SLDLClassifier:
    """The classifier with the values of a configuration."""
    known = classifier.get_params(deep=True)
    names = {parameter_of(axis, known): value for axis, value in configuration}
    classifier.set_params(**{name: value for name, value in names.items() if name is not None})
    return classifier
