"""Every configuration of one method on one fold, with the work they have in common done once.

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
from itertools import pairwise, product
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator

from pysldl.estimator.classifier import SLDLClassifier
from pysldl.experiments.run.fold_data import FoldData, Task
from pysldl.experiments.run.methods import Method, parameter_of
from pysldl.experiments.run.protocol import Protocol
from pysldl.experiments.run.scoring import DEPTH, mean_scores
from pysldl.experiments.stats.error_bound import theorem_terms
from pysldl.experiments.stats.results import Unseen
from pysldl.mapping import RidgeMapping, SharedFactorRidge

__all__ = ["Configuration", "Outcome", "configurations", "estimator_for", "evaluate_method"]

Configuration = tuple[tuple[str, int], ...]
Labels = NDArray[np.int64]


@dataclass(frozen=True)
class Outcome:
    """What one configuration did on one fold.

    Parameters
    ----------
    configuration : tuple of (str, int)
        Its values of the grid.
    test, validation : dict
        Metrics by what became of unseen labels; those of validation are means over the trials, and None for a method
        with a single configuration.
    fit_seconds, predict_seconds : float
        What this configuration would take alone: shared work is counted in full (of a descent the part up to its
        number of steps), selection not at all.
    terms : dict or None
        The terms of Theorem 1.
    """

    configuration: Configuration
    test: dict[Unseen, dict[str, float]]
    validation: dict[Unseen, dict[str, float]] | None
    fit_seconds: float
    predict_seconds: float
    terms: dict[str, float] | None


def configurations(method: Method, protocol: Protocol) -> list[Configuration]:
    """The configurations of a method, in the order in which ties between them are decided."""
    axes = method.axes
    return [tuple(zip(axes, values, strict=True)) for values in product(*(protocol.values(axis) for axis in axes))]


def estimator_for(method: Method, configuration: Configuration, protocol: Protocol, device: str | None = None) -> Any:
    """The estimator of one configuration, unfitted: what the numbers of :func:`evaluate_method` stand for."""
    estimator = method.estimator(protocol.seed, device)
    return _set(estimator.with_default_stages(), configuration) if configuration else estimator


def evaluate_method(
    method: Method, data: FoldData, protocol: Protocol, done: Container[Configuration] = (), device: str | None = None
) -> Iterator[list[Outcome]]:
    """Run a method on a fold; yield the outcomes of each c_hat as soon as all of them are finished.

    Parameters
    ----------
    method : Method
    data : FoldData
    protocol : Protocol
    done : container of configurations
        Those already finished: a c_hat of which every configuration is among them is not run again.
    device : str, optional
        For methods that can use one.
    """
    if not method.axes:
        if () not in done:
            yield [_single_outcome(method.estimator(protocol.seed, device), data.final)]
        return
    classifier = method.estimator(protocol.seed, device).with_default_stages()
    final, *trials = (_Shared(classifier, task) for task in (data.final, *data.trials))
    by_width: dict[int | None, list[Configuration]] = {}
    for configuration in configurations(method, protocol):
        by_width.setdefault(dict(configuration).get("c_hat"), []).append(configuration)
    for group in by_width.values():
        if not all(configuration in done for configuration in group):
            yield _outcomes_of_width(classifier, group, final, trials)


def _single_outcome(estimator: Any, task: Task) -> Outcome:
    started = time.perf_counter()
    estimator.fit(task.X, task.Y)
    fitted = time.perf_counter()
    labels, _ = estimator.predict_topk(task.X_new, DEPTH)
    predicted = time.perf_counter()
    return Outcome((), task.score(labels), None, fitted - started, predicted - fitted, None)


def _outcomes_of_width(
    classifier: SLDLClassifier, group: Sequence[Configuration], final: "_Shared", trials: Sequence["_Shared"]
) -> list[Outcome]:
    """Outcomes of the configurations that share a c_hat."""
    axes = [axis for axis, _ in group[0]]
    steps = list(dict.fromkeys(dict(configuration).get("n_steps") for configuration in group))
    ks = list(dict.fromkeys(dict(configuration).get("k") for configuration in group))
    of_width = _set(clone(classifier), tuple(item for item in group[0] if item[0] == "c_hat"))
    started = time.perf_counter()
    if getattr(of_width.decoder, "input_kind", "codes") == "features":
        embeddings: list[Any] = [None]
    elif "n_steps" in axes:
        embeddings = of_width.embedding_path(final.task.Y, n_steps=[n for n in steps if n is not None])
    else:
        embeddings = of_width.embedding_path(final.task.Y)
    seconds = time.perf_counter() - started
    largest = max((n for n in steps if n is not None), default=None)

    outcomes = {}
    for n, embedding in zip(steps, embeddings, strict=True):
        ranked = final.rank(of_width, embedding, ks)
        terms = final.terms(ranked.classifier, embedding)
        rehearsed = [
            [trial.task.score(labels) for labels in trial.rank(of_width, embedding, ks).labels] for trial in trials
        ]
        validation = [mean_scores(of_trials) for of_trials in zip(*rehearsed, strict=True)]
        placed = seconds if n is None or largest is None else seconds * n / largest
        for k, labels, fit, predict, chosen_by in zip(
            ks, ranked.labels, ranked.fit_seconds, ranked.predict_seconds, validation, strict=True
        ):
            outcomes[n, k] = (final.task.score(labels), chosen_by, placed + fit, predict, terms)
    return [
        Outcome(configuration, *outcomes[dict(configuration).get("n_steps"), dict(configuration).get("k")])
        for configuration in group
    ]


@dataclass(frozen=True)
class _Ranked:
    """Best labels of the new rows for every k, a fitted classifier, and what each k would take alone."""

    labels: list[Labels]
    classifier: SLDLClassifier
    fit_seconds: list[float]
    predict_seconds: list[float]


class _Shared:
    """One task, and the mapping whose copies share the factor of its rows."""

    def __init__(self, classifier: SLDLClassifier, task: Task) -> None:
        self.task = task
        mapping = classifier.mapping
        self._mapping = SharedFactorRidge.of(mapping) if type(mapping) is RidgeMapping else mapping

    def rank(self, classifier: SLDLClassifier, embedding: Any, ks: Sequence[int | None]) -> _Ranked:
        """Fit the classifier with a fitted embedding, and rank the new rows, for all k at once where that is right."""
        fixed = clone(classifier).set_params(mapping=self._mapping)
        if embedding is not None:
            fixed.set_params(embedding=FrozenEstimator(embedding))
        known = [k for k in ks if k is not None]
        if fixed.ranker is None and known and fixed.decoder.has_neighbor_path:
            return self._rank_together(fixed, known)
        return self._rank_each(fixed, ks)

    def _rank_together(self, classifier: SLDLClassifier, ks: Sequence[int]) -> _Ranked:
        n_rows = self.task.Y.shape[0]
        fit_seconds = self._fit(_set(classifier, (("k", min(max(ks), n_rows)),)))
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
            if k is not None:
                _set(classifier, (("k", k),))
            fits.append(self._fit(classifier))
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

    def terms(self, classifier: SLDLClassifier, embedding: Any) -> dict[str, float] | None:
        """The terms of Theorem 1; None where there is no latent space."""
        if embedding is None:
            return None
        task = self.task
        targets, truth = embedding.transform(task.Y), embedding.transform(task.Y_new)
        return theorem_terms(targets, task.Y, truth, task.Y_new, classifier.transform(task.X_new))


def _set(classifier: SLDLClassifier, configuration: Configuration) -> SLDLClassifier:
    """The classifier with the values of a configuration."""
    known = classifier.get_params(deep=True)
    names = {parameter_of(axis, known): value for axis, value in configuration}
    return classifier.set_params(**{name: value for name, value in names.items() if name is not None})
