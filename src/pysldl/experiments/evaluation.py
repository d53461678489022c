"""Every configuration of one method on one fold, with the work they have in common done once.

A three-stage classifier is taken apart: one embedding a c_hat, one factorisation a set of rows, one neighbour search
for the largest k, of which every smaller k is a prefix. The numbers are those that fitting each configuration by
itself gives.

For nested selection the mapping is fitted again on the inner rows of each trial and the validation rows are ranked. The
label embedding, which never sees features, is that of all training rows throughout; test rows play no part.
"""

import time
from collections.abc import Callable, Container, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import clone
from sklearn.utils import check_random_state

from pysldl.classifier import SLDLClassifier
from pysldl.decoding import BlendDecoder, NeighborDecoder
from pysldl.decoding.blend import mixed_scores
from pysldl.embedding import GaussianLabelEmbedding
from pysldl.experiments.fold_data import FoldData, Task
from pysldl.experiments.methods import Method, has_grid
from pysldl.experiments.protocol import Protocol
from pysldl.experiments.results import Unseen
from pysldl.experiments.scoring import DEPTH, mean_scores
from pysldl.experiments.theorem import theorem_terms
from pysldl.mapping import RidgeMapping
from pysldl.topk import top_k

__all__ = ["Configuration", "Outcome", "configurations", "evaluate_method"]

Configuration = tuple[tuple[str, int], ...]


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
        What this configuration would take alone: shared work is counted in full, selection not at all.
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
    estimator = method.make()
    widths, ks = _grid(estimator, protocol) if has_grid(estimator) else ((None,), (None,))
    return [_configuration(width, k) for width in widths for k in ks]


def evaluate_method(
    method: Method, data: FoldData, protocol: Protocol, done: Container[Configuration] = (), device: str | None = None
) -> Iterator[list[Outcome]]:
    """Run a method on a fold; yield the outcomes of each c_hat as soon as all its k are finished.

    Parameters
    ----------
    method : Method
    data : FoldData
    protocol : Protocol
    done : container of configurations
        Those already finished: a c_hat of which every k is among them is not run again.
    device : str, optional
        For methods that can use one.
    """
    estimator = method.estimator(protocol.seed, device)
    if not has_grid(estimator):
        if () not in done:
            yield [_single_outcome(estimator, data.final)]
        return
    widths, ks = _grid(estimator, protocol)
    for width in widths:
        if not all(_configuration(width, k) in done for k in ks):
            yield _outcomes_of_width(estimator, width, ks, data)


def _grid(classifier: SLDLClassifier, protocol: Protocol) -> tuple[tuple[int | None, ...], tuple[int | None, ...]]:
    embedding = GaussianLabelEmbedding() if classifier.embedding is None else classifier.embedding
    decoder = NeighborDecoder() if classifier.decoder is None else classifier.decoder
    return (
        protocol.c_hats if hasattr(embedding, "n_components") else (None,),
        protocol.ks if isinstance(decoder, NeighborDecoder | BlendDecoder) else (None,),
    )


def _configuration(width: int | None, k: int | None) -> Configuration:
    return tuple((name, value) for name, value in (("c_hat", width), ("k", k)) if value is not None)


def _single_outcome(estimator: Any, task: Task) -> Outcome:
    started = time.perf_counter()
    estimator.fit(task.X, task.Y)
    fitted = time.perf_counter()
    labels, _ = estimator.predict_topk(task.X_new, DEPTH)
    predicted = time.perf_counter()
    return Outcome((), task.score(labels), None, fitted - started, predicted - fitted, None)


def _outcomes_of_width(
    classifier: SLDLClassifier, width: int | None, ks: tuple[int | None, ...], data: FoldData
) -> list[Outcome]:
    rng = check_random_state(classifier.random_state)
    stages = classifier._stages(*data.final.Y.shape)
    embedding, mapping, decoder = (classifier._seeded(stage, rng) for stage in stages[:3])
    if width is not None:
        embedding.set_params(n_components=width)

    final = data.final
    started = time.perf_counter()
    Z = embedding.fit(final.Y).transform(final.Y)
    placed = time.perf_counter() - started
    ranked = _rank(classifier.normalize, mapping, decoder, Z, ks, final)
    terms = theorem_terms(Z, final.Y, embedding.transform(final.Y_new), final.Y_new, ranked.codes)

    validation: list[Any] = [None] * len(ks)
    if len(ks) > 1 or width is not None:
        rehearsed = []
        for inner, trial in data.trials:
            labels_by_k = _rank(classifier.normalize, mapping, decoder, Z[inner], ks, trial).labels
            rehearsed.append([trial.score(labels) for labels in labels_by_k])
        validation = [mean_scores(of_trials) for of_trials in zip(*rehearsed, strict=True)]
    return [
        Outcome(_configuration(width, k), final.score(labels), chosen_by, placed + ranked.fit_seconds, seconds, terms)
        for k, labels, seconds, chosen_by in zip(ks, ranked.labels, ranked.seconds, validation, strict=True)
    ]


@dataclass(frozen=True)
class _Ranked:
    """Best labels of the new rows for every k, their codes, and what they cost."""

    labels: list[NDArray[np.int64]]
    codes: NDArray[np.float32]
    fit_seconds: float
    seconds: list[float]


def _rank(
    normalize: bool, mapping: RidgeMapping, decoder: Any, Z: Any, ks: tuple[int | None, ...], task: Task
) -> _Ranked:
    """Map and decode one task, for all k at once."""
    X, X_new = task.unit_rows if normalize else (task.X, task.X_new)
    ridge = task.ridge_of_unit_rows if normalize else task.ridge_of_raw_rows
    encode, mapped = ridge.fit(mapping, Z)
    started = time.perf_counter()
    decoder = _with_neighbors(clone(decoder), ks, task.Y.shape[0]).fit(encode(X), task.Y)
    fit_seconds = mapped + time.perf_counter() - started

    started = time.perf_counter()
    codes = encode(X_new)
    scores_with = _decoded(decoder, codes)
    shared = time.perf_counter() - started
    unseen = np.bincount(task.Y.indices, minlength=task.Y.shape[1]) == 0
    labels, seconds = [], []
    for k in ks:
        started = time.perf_counter()
        scores = scores_with(k)
        if not sparse.issparse(scores):
            scores[:, unseen] = -np.inf
        labels.append(top_k(scores, DEPTH)[0])
        seconds.append(shared + time.perf_counter() - started)
    return _Ranked(labels, codes, fit_seconds, seconds)


def _with_neighbors(decoder: Any, ks: tuple[int | None, ...], n_rows: int) -> Any:
    """The decoder, asking as many neighbours as the largest k needs."""
    if ks == (None,):
        return decoder
    largest = min(max(k for k in ks if k is not None), n_rows)
    if isinstance(decoder, BlendDecoder):
        votes = NeighborDecoder() if decoder.neighbors is None else decoder.neighbors
        return decoder.set_params(neighbors=votes.set_params(n_neighbors=largest))
    return decoder.set_params(n_neighbors=largest)


def _decoded(decoder: Any, codes: NDArray[np.float32]) -> Callable[[int | None], Any]:
    """Search once; return the function from k to the scores of the codes, (n_codes, n_labels)."""
    blended = isinstance(decoder, BlendDecoder)
    votes = decoder.neighbors_ if blended else decoder
    if not isinstance(votes, NeighborDecoder):
        return lambda _: decoder.scores(codes)
    neighbors, distances = votes.index_.search(codes, votes.n_neighbors_)
    readout = decoder.readout_.scores(codes) if blended else None

    def scores_with(k: int | None) -> Any:
        of_neighbors = votes._vote(codes, neighbors[:, :k], distances[:, :k])
        return of_neighbors if readout is None else mixed_scores(of_neighbors, readout, decoder.weight)

    return scores_with
