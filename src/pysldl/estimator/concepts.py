"""The labels of a model as concepts of a vocabulary: identifiers, names, and what changed since the fit."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from pysldl.exceptions import DataError
from pysldl.preprocessing.labels import EncodedLabels, name_array
from pysldl.preprocessing.vocabulary import Vocabulary

DEPRECATED = -1
PRIOR_MATCHES = 5.0  # occurrences of a name after which its own rate weighs as much as the mean of all


@dataclass(frozen=True)
class VocabularyChange:
    """What a new vocabulary changed for the labels of a model.

    Attributes
    ----------
    renamed : dict of str to str
        From the old name to the new one.
    merged : dict of str to str
        From the name of a label to the name of the one that its suggestions now count for.
    deprecated : tuple of str
        Names of labels that are not suggested any more.
    unknown : tuple of str
        Names of labels that are in no vocabulary; they stay as they are.
    new : tuple of str
        Identifiers of concepts in use that the model has no label for: it learns them by ``partial_fit``.
    """

    renamed: dict[str, str]
    merged: dict[str, str]
    deprecated: tuple[str, ...]
    unknown: tuple[str, ...]
    new: tuple[str, ...]


def identify_labels(encoded: EncodedLabels, vocabulary: Vocabulary) -> tuple[EncodedLabels, NDArray[Any]]:
    """Return labels under the names of a vocabulary, those of one concept as one column, and their identifiers.

    A label may be given by identifier, notation or name. What replaced a concept takes its rows; a label that the
    vocabulary does not know keeps its name, which is its identifier, too.
    """
    if encoded.kind == "classes":
        raise DataError("vocabulary needs rows with label names or an indicator, but y holds one class per row.")
    identifiers = identifiers_of(map(str, encoded.names), vocabulary)
    order = dict.fromkeys(identifiers)
    place = {identifier: column for column, identifier in enumerate(order)}
    columns = np.array([place[identifier] for identifier in identifiers], dtype=np.int32)
    shape = (encoded.Y.shape[0], len(place))
    Y = sparse.csr_array((encoded.Y.data.copy(), columns[encoded.Y.indices], encoded.Y.indptr.copy()), shape)
    Y.sum_duplicates()
    Y.data[:] = 1
    names = [vocabulary.display_name(one) if one in vocabulary else one for one in place]
    return EncodedLabels(Y, name_array(names), encoded.kind), name_array(list(place))


def identifiers_of(names: Iterable[str], vocabulary: Vocabulary) -> list[str]:
    """Return the identifier in use of each label, given by identifier, notation or name; else the name itself."""
    found = []
    for name in names:
        identifier = vocabulary.find(name)
        found.append(name if identifier is None else vocabulary.current(identifier) or identifier)
    return found


def renamed_labels(
    names: NDArray[Any], identifiers: NDArray[Any], before: Vocabulary | None, vocabulary: Vocabulary
) -> tuple[NDArray[Any], NDArray[Any], NDArray[np.int32], VocabularyChange]:
    """Bring the labels of a model to a vocabulary: their new names and identifiers, targets, and what changed.

    A concept that the vocabulary ``before`` had and the new one lacks is deprecated. The target of a label is the
    column that it counts for: itself, the one it was merged into, or -1 where it is deprecated.
    """
    current = identifiers.tolist()
    targets = np.arange(len(current), dtype=np.int32)
    column_of: dict[str, int] = {}
    moved: list[tuple[int, str]] = []
    unknown = []
    for column, identifier in enumerate(identifiers.tolist()):
        if identifier not in vocabulary and before is None:
            identifier = vocabulary.find(identifier) or vocabulary.find(str(names[column])) or identifier
        if identifier in vocabulary:
            in_use = vocabulary.current(identifier)
            if in_use is None:
                targets[column] = DEPRECATED
            elif in_use != identifier:
                moved.append((column, in_use))
                continue
            current[column] = identifier
        elif before is not None and identifier in before:
            targets[column] = DEPRECATED
        else:
            unknown.append(column)
        if targets[column] != DEPRECATED:
            column_of.setdefault(identifier, column)
            targets[column] = column_of[identifier]
    for column, in_use in moved:  # after all that kept their identifiers
        targets[column] = column_of.setdefault(in_use, column)
        if targets[column] == column:
            current[column] = in_use
    spelled = _distinct_names(names, current, targets, vocabulary)
    own = np.arange(len(current))
    change = VocabularyChange(
        renamed={str(names[c]): spelled[c] for c in own if targets[c] == c and str(names[c]) != spelled[c]},
        merged={str(names[c]): spelled[targets[c]] for c in own if targets[c] not in (c, DEPRECATED)},
        deprecated=tuple(str(names[c]) for c in own if targets[c] == DEPRECATED),
        unknown=tuple(spelled[c] for c in unknown),
        new=tuple(one for one in vocabulary if one not in column_of and vocabulary.current(one) == one),
    )
    return name_array(spelled), name_array(current), targets, change


def merge_scores(scores: Any, targets: NDArray[np.int32]) -> Any:
    """Give every label the best score of those that count for it; the others have none. Dense scores change in place.

    ``targets`` are those of :func:`renamed_labels`.
    """
    moved = np.flatnonzero(targets != np.arange(len(targets)))
    if not moved.size:
        return scores
    if not sparse.issparse(scores):
        for column in moved[targets[moved] >= 0]:
            np.maximum(scores[:, targets[column]], scores[:, column], out=scores[:, targets[column]])
        scores[:, moved] = -np.inf
        return scores
    entries = scores.tocoo()
    columns = targets[entries.col]
    kept = columns >= 0
    rows, columns, values = entries.row[kept], columns[kept], entries.data[kept]
    order = np.lexsort((-values, columns, rows))
    rows, columns, values = rows[order], columns[order], values[order]
    first = np.ones(len(rows), dtype=bool)  # of those that fell on one label: the best
    first[1:] = (rows[1:] != rows[:-1]) | (columns[1:] != columns[:-1])
    return sparse.csr_array((values[first], (rows[first], columns[first])), shape=scores.shape)


def _distinct_names(
    names: NDArray[Any], identifiers: list[str], targets: NDArray[np.int32], vocabulary: Vocabulary
) -> list[str]:
    """Names of the labels: of those that count for themselves first, so that they keep the plain ones."""
    own = targets == np.arange(len(targets))
    spelled, taken = [""] * len(identifiers), set()
    for column in (*np.flatnonzero(own).tolist(), *np.flatnonzero(~own).tolist()):
        known = identifiers[column] in vocabulary
        name = vocabulary.display_name(identifiers[column]) if known else str(names[column])
        for candidate in (name, f"{name} ({identifiers[column]})", f"{name} ({identifiers[column]}, label {column})"):
            if candidate not in taken:
                break
        taken.add(candidate)
        spelled[column] = candidate
    return spelled


class BroaderLabels:
    """The broader labels of the labels of a model, looked up when they are asked for.

    Labels that are ``hidden``, never predicted, are nobody's broader label.
    """

    def __init__(self, vocabulary: Vocabulary, identifiers: NDArray[Any], hidden: NDArray[np.bool_]) -> None:
        self._vocabulary = vocabulary
        self._identifiers = identifiers.tolist()
        self._column = {one: column for column, one in enumerate(self._identifiers) if not hidden[column]}
        self._known: dict[int, tuple[int, ...]] = {}

    def of(self, label: int) -> tuple[int, ...]:
        """Return all broader labels of a label, the broadest first."""
        if label not in self._known:
            own = self._identifiers[label]
            up = self._vocabulary.ancestors(own) if own in self._vocabulary else ()
            columns = [self._column[one] for one in reversed(up) if one in self._column]
            self._known[label] = tuple(column for column in columns if column != label)
        return self._known[label]


def in_hierarchy(
    labels: NDArray[Any],
    scores: NDArray[Any],
    broader: BroaderLabels,
    k: int,
    hierarchy: Literal["broader", "narrower"],
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the k best labels of rows, consistent with the broader links; see ``predict_topk``.

    ``labels`` and ``scores`` are more than k a row, best first, -1 where a row has fewer.
    """
    if hierarchy not in ("broader", "narrower"):
        raise DataError(f"hierarchy must be 'broader', 'narrower' or None, but is {hierarchy!r}.")
    choose = _with_broader if hierarchy == "broader" else _most_specific
    shape = (len(labels), k)
    chosen, values = np.full(shape, -1, dtype=labels.dtype), np.full(shape, -np.inf, dtype=scores.dtype)
    for row in range(len(labels)):
        there = labels[row] >= 0
        pairs = choose(list(zip(labels[row][there].tolist(), scores[row][there].tolist(), strict=True)), broader, k)
        for slot, (label, score) in enumerate(pairs[:k]):
            chosen[row, slot], values[row, slot] = label, score
    return chosen, values


def name_rates(
    matches: Sequence[Sequence[int]], Y: sparse.csr_array, n_labels: int
) -> tuple[NDArray[np.float64], float]:
    """Return how often labels apply where their names occur, each drawn to the mean by ``PRIOR_MATCHES``; and the mean.

    ``matches`` are the labels whose names occur in each text.
    """
    counts, hits = np.zeros(n_labels), np.zeros(n_labels)
    for row, named in enumerate(matches):
        carried = set(Y.indices[Y.indptr[row] : Y.indptr[row + 1]].tolist())
        for label in named:
            counts[label] += 1
            hits[label] += label in carried
    mean = float((hits.sum() + 1) / (counts.sum() + 2))
    return (hits + PRIOR_MATCHES * mean) / (counts + PRIOR_MATCHES), mean


def add_named(
    labels: NDArray[Any], scores: NDArray[Any], matches: Sequence[Sequence[int]], named: NDArray[np.float32]
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return labels of rows, best first, in which those named by the text score at least ``named``.

    ``matches`` are the labels that each text names. A label whose ``named`` score is -inf cannot be suggested.
    """
    labels, scores = labels.copy(), scores.copy()
    for row, found in enumerate(matches):
        there = labels[row] >= 0
        best = dict(zip(labels[row][there].tolist(), scores[row][there].tolist(), strict=True))
        for label in found:
            if np.isfinite(named[label]):
                best[label] = max(best.get(label, -np.inf), float(named[label]))
        ordered = sorted(best.items(), key=lambda pair: -pair[1])[: labels.shape[1]]
        for slot, (label, score) in enumerate(ordered):
            labels[row, slot], scores[row, slot] = label, score
    return labels, scores


def _with_broader(ranked: list[tuple[int, float]], broader: BroaderLabels, k: int) -> list[tuple[int, float]]:
    """Labels with their broader ones before them, so that every beginning of the list is consistent."""
    kept: dict[int, float] = {}
    for label, score in ranked:
        if len(kept) >= k:
            break
        for one in (*broader.of(label), label):
            kept.setdefault(one, score)
    return list(kept.items())


def _most_specific(ranked: list[tuple[int, float]], broader: BroaderLabels, k: int) -> list[tuple[int, float]]:
    """The k best labels without those that have a narrower one among them, filled up with the next best."""
    best = ranked[:k]
    covered = {up for label, _ in best for up in broader.of(label)}
    kept = [(label, score) for label, score in best if label not in covered]
    taken = {label for label, _ in kept}
    for label, score in ranked[k:]:
        if len(kept) == k:
            break
        if label not in covered and not taken.intersection(broader.of(label)):
            kept.append((label, score))
            taken.add(label)
            covered.update(broader.of(label))
    return kept
