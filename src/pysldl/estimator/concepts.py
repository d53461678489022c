"""The labels of a model as concepts of a vocabulary: identifiers, names, and what changed since the fit."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from pysldl._utils.names import name_array
from pysldl.preprocessing.labels import EncodedLabels
from pysldl.preprocessing.vocabulary import Vocabulary

__all__ = ["VocabularyChange", "identifiers_of", "identify_labels", "merge_scores", "renamed_labels"]

DEPRECATED = -1


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


def identify_labels(encoded: EncodedLabels, vocabulary: Vocabulary) -> tuple[EncodedLabels, list[str]]:
    """Return labels under the names of a vocabulary, those of one concept as one column, and their identifiers.

    A label may be given by identifier, notation or name. What replaced a concept takes its rows; a label that the
    vocabulary does not know keeps its name, which is its identifier, too.
    """
    identifiers = identifiers_of(map(str, encoded.names), vocabulary)
    order = dict.fromkeys(identifiers)
    place = {identifier: column for column, identifier in enumerate(order)}
    columns = np.array([place[identifier] for identifier in identifiers], dtype=np.int32)
    shape = (encoded.Y.shape[0], len(place))
    Y = sparse.csr_array((encoded.Y.data.copy(), columns[encoded.Y.indices], encoded.Y.indptr.copy()), shape)
    Y.sum_duplicates()
    Y.data[:] = 1
    names = [vocabulary.display_name(one) if one in vocabulary else one for one in place]
    return EncodedLabels(Y, name_array(names), encoded.kind), list(place)


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
    """Bring the labels of a model to a vocabulary.

    Parameters
    ----------
    names, identifiers : ndarray of shape (n_labels,)
        As they are.
    before : Vocabulary or None
        The vocabulary until now. A concept that it had and the new one lacks is deprecated.
    vocabulary : Vocabulary
        The new one.

    Returns
    -------
    names, identifiers : ndarray of shape (n_labels,)
    targets : ndarray of shape (n_labels,), int32
        The column that each label counts for: itself, the one it was merged into, or -1 where it is deprecated.
    change : VocabularyChange
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
    """Give every label the best score of those that count for it; the others have none.

    Parameters
    ----------
    scores : ndarray or csr_array of shape (n_rows, n_labels)
        A dense one is changed in place.
    targets : ndarray of shape (n_labels,)
        See :func:`renamed_labels`.
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
