"""Which labels a ranker looks at: those of the decoder, those a row is like, and the most frequent ones, each once."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from pysldl.backend.topk import drop_duplicates, places_of_largest, top_k_listed
from pysldl.metrics.ranking import hits_of

MOST_FREQUENT, FREQUENT_TRIED = 40, (5, 10, 20)
RECALL_SPARED = 0.005
PRIOR_ROWS = 10.0

Labels = NDArray[np.int32]


class Candidates(NamedTuple):
    """Candidates of rows and what the first ranking stage says of them; arrays of shape (n_rows, n_candidates).

    ``labels`` is -1 where a row has fewer; ``linear`` are the scores of the linear classifiers; ``votes`` those of the
    neighbors, 0 for candidates from elsewhere; ``scores`` both together, in [0, 1], and -inf beside a label of -1.
    """

    labels: NDArray[np.int32]
    linear: NDArray[np.float32]
    votes: NDArray[np.float32]
    scores: NDArray[np.float32]

    def best(self, n: int) -> tuple["Candidates", NDArray[np.intp]]:
        """The ``n`` best of every row, best first, and their places; ties go to the earlier place."""
        rows, places = np.arange(len(self.scores))[:, None], places_of_largest(self.scores, n)
        return Candidates(self.labels[rows, places], *(part[rows, places] for part in self[1:])), places

    def of_rows(self, rows: NDArray[np.bool_]) -> "Candidates":
        """The candidates of some of the rows."""
        return Candidates(self.labels[rows], *(part[rows] for part in self[1:]))


def draw_held_rows(n_samples: int, rng: np.random.RandomState, held_out: int) -> NDArray[np.intp]:
    """Training rows to hold out, of so many in all: at most a fifth."""
    return rng.permutation(n_samples)[: max(1, min(held_out, n_samples // 5))]


def best_labels(labels: Labels, scores: NDArray[np.float32], k: int) -> Labels:
    """The labels of the k best candidates of every row, best first, (n_rows, k); -1 where a row has fewer."""
    best = top_k_listed(labels, scores, k)[0]
    return np.pad(best, ((0, 0), (0, k - best.shape[1])), constant_values=-1)


def union_of_candidates(labels: Labels, *others: Labels) -> Labels:
    """Candidates of several sources side by side, (n_rows, m); -1 in place of a repetition within a row.

    A source without rows, of shape (n_more,), has candidates of every row.
    """
    rows = [np.broadcast_to(more, (len(labels), more.shape[-1])) for more in others]
    return drop_duplicates(np.concatenate([labels, *rows], axis=1))


def known_candidates(
    labels: Labels, votes: NDArray[np.float32], label_counts: NDArray[np.integer]
) -> tuple[Labels, NDArray[np.float32]]:
    """The candidates without labels that have no rows: -1, and no vote, in their place."""
    known = (labels >= 0) & (label_counts[labels] > 0)
    return np.where(known, labels, np.int32(-1)), np.where(known, votes, np.float32(0.0))


def candidate_recall(labels: Labels, Y: sparse.csr_array) -> float:
    """Part of the labels of ``Y`` that are among the candidates of their row: no ranker can find more."""
    return float(hits_of(labels, Y).sum() / max(Y.nnz, 1))


def frequent_labels(Y: sparse.csr_array, n: int) -> Labels:
    """The n labels with the most rows, most frequent first; fewer where fewer have any."""
    counts = np.bincount(Y.indices, minlength=Y.shape[1])
    most = np.argsort(-counts, kind="stable")[:n]
    return most[counts[most] > 0].astype(np.int32)


def frequent_without_features(X: sparse.csr_array, Y: sparse.csr_array) -> Labels:
    """All labels with training rows, those first that a row without features is most likely to have.

    Such rows may differ from the others: in short texts they are those whose words are rare. They count by their
    number, and beside them all rows together count as ten of them.
    """
    empty = np.diff(X.indptr) == 0
    shares: NDArray[np.float64] = PRIOR_ROWS * np.bincount(Y.indices, minlength=Y.shape[1]) / max(X.shape[0], 1)
    shares += np.bincount(Y[empty].indices, minlength=Y.shape[1])
    most = np.argsort(-shares, kind="stable")
    return most[shares[most] > 0].astype(np.int32)


def choose_frequent(Y: sparse.csr_array, held_labels: Labels, held_Y: sparse.csr_array) -> Labels:
    """As few of the forty most frequent labels as find half a point of recall less than all forty, on held-out rows.

    ``held_labels`` are the candidates of the held-out rows, and ``held_Y`` their labels.
    """
    most = frequent_labels(Y, MOST_FREQUENT)
    # A label that the candidates miss is found by so many of the most frequent as its place among them says.
    place = np.full(Y.shape[1], Y.shape[1], dtype=np.intp)
    place[most] = np.arange(len(most))
    missed = np.sort(place[held_Y.indices[~are_listed(held_Y, held_labels)]])
    spared = RECALL_SPARED * max(held_Y.nnz, 1)
    tries = [n for n in FREQUENT_TRIED if n < len(most)]
    enough = np.searchsorted(missed, len(most)) - spared
    return most[: next((n for n in tries if np.searchsorted(missed, n) >= enough), len(most))]


def are_listed(Y: sparse.csr_array, labels: Labels) -> NDArray[np.bool_]:
    """Which of the stored entries of ``Y`` are among the candidates of their row."""
    entries = np.repeat(np.arange(Y.shape[0]), np.diff(Y.indptr)) * Y.shape[1] + Y.indices
    rows, slots = np.nonzero(hits_of(labels, Y))
    found = np.zeros(len(entries), dtype=np.bool_)
    found[np.searchsorted(entries, rows * Y.shape[1] + labels[rows, slots])] = True
    return found


def votes_of(labels: Labels, offered: Labels, votes: NDArray[np.float32], n_labels: int) -> NDArray[np.float32]:
    """The votes of ``labels``, of their shape, that are given for the labels ``offered`` to the same rows; else 0."""
    given = np.zeros((len(labels), n_labels + 1), dtype=np.float32)  # -1 stands for the last column
    np.put_along_axis(given, offered.astype(np.intp), votes, axis=1)
    given[:, -1] = 0
    return np.take_along_axis(given, labels.astype(np.intp), axis=1)
