"""Which label implies which: directed relations read off the learned Gaussians."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from pysldl.display import bar, html_table, text_table
from pysldl.embedding.divergence import kl_divergence, kl_of_pairs
from pysldl.embedding.transfer import cooccurrence

__all__ = ["LabelRelation", "Relations", "counted_relations", "label_relations"]

BLOCK_BYTES = 64 << 20
# Up to here every label is compared with every other; of more labels only those that share a row.
ALL_PAIRS = 20_000
# Rows without the other label that every label is taken to have beside its own, so that two of two are not certain.
DOUBT = 3

Pairs = tuple[NDArray[np.intp], NDArray[np.intp]]


@dataclass(frozen=True)
class LabelRelation:
    """``source`` implies ``target``.

    Attributes
    ----------
    source, target : str
    kl : float or None
        KL(source ‖ target), small: what holds for the source holds for the target. None where the counts decided.
    kl_reverse : float or None
        KL(target ‖ source), larger: the reverse does not.
    n_source, n_target, n_both : int
        Training rows with the one, the other, and both labels.
    """

    source: str
    target: str
    kl: float | None
    kl_reverse: float | None
    n_source: int
    n_target: int
    n_both: int

    @property
    def confidence(self) -> float:
        """Share of the source's training rows that also carry the target."""
        return self.n_both / self.n_source if self.n_source else 0.0

    def __str__(self) -> str:
        divergence = "" if self.kl is None else f"KL {self.kl:.2f}, reverse {self.kl_reverse:.2f}; "
        return f"{self.source} implies {self.target} ({divergence}{self.n_both} of {self.n_source} rows)"


class Relations(list[LabelRelation]):
    """A list of relations that shows itself as a table, in a terminal and in a notebook."""

    def __getitem__(self, at: Any) -> Any:
        found = super().__getitem__(at)
        return Relations(found) if isinstance(at, slice) else found

    def __str__(self) -> str:
        if not self:
            return "no relations"
        columns = ("label", "implies", *self._divergence_names(), "rows", "of", "share")
        return text_table(
            columns,
            [
                (
                    r.source,
                    r.target,
                    *self._divergences(r),
                    r.n_both,
                    r.n_source,
                    f"{r.confidence:.0%}".rjust(len("share")),
                )
                for r in self
            ],
        )

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        if not self:
            return "<p>no relations</p>"
        rows = [
            (r.source, r.target, *self._divergences(r), f"{r.n_both} of {r.n_source}", bar(r.confidence, 1.0))
            for r in self
        ]
        title = "Directed relations: KL small to what a label implies, larger back"
        if not self._divergence_names():
            title = "Directed relations by counts: rows of a label that carry another, more frequent one"
        return html_table(title, ("label", "implies", *self._divergence_names(), "rows with both", ""), rows)

    def _divergence_names(self) -> tuple[str, ...]:
        return () if any(r.kl is None for r in self) else ("KL", "reverse")

    def _divergences(self, relation: LabelRelation) -> tuple[float | None, ...]:
        return (relation.kl, relation.kl_reverse) if self._divergence_names() else ()


def label_relations(
    mu: NDArray[Any],
    log_var: NDArray[Any],
    Y: sparse.csr_array,
    names: Sequence[str] | NDArray[Any],
    *,
    top: int | None = 20,
    per_label: int = 1,
    min_count: int = 2,
    of: int | None = None,
) -> Relations:
    """The strongest directed relations between labels.

    For every label its ``per_label`` nearest by KL(label ‖ other), kept where the divergence back is larger: then the
    label implies the other. Sorted by the gap between the two directions, relative to their sum. Of more than 20,000
    labels the nearest are sought among those that share a row with the label.

    Parameters
    ----------
    mu, log_var : ndarrays of shape (n_labels, n_components)
    Y : csr_array of shape (n_samples, n_labels)
        Training labels, for the counts behind each relation.
    names : sequence of str
    top : int or None
        How many to return.
    per_label : int
        Nearest labels considered for each.
    min_count : int
        Labels on fewer training rows are left out.
    of : int, optional
        Only relations from or to this label.
    """
    counts = np.bincount(Y.indices, minlength=Y.shape[1])
    kept = np.flatnonzero(counts >= max(min_count, 1))
    if kept.size < 2:
        return Relations()
    mu, log_var = mu[kept], log_var[kept]
    width = min(per_label, kept.size - 1)
    if kept.size <= ALL_PAIRS:
        source, target = _nearest_of_all(mu, log_var, width)
    else:
        source, target = _nearest_of_linked(mu, log_var, cooccurrence(Y[:, kept]), width)
    forward, backward = _of_pairs(mu, log_var, source, target), _of_pairs(mu, log_var, target, source)
    directed = forward < backward
    if of is not None:
        directed &= (kept[source] == of) | (kept[target] == of)
    source, target, forward, backward = source[directed], target[directed], forward[directed], backward[directed]
    order = np.argsort(-(backward - forward) / (backward + forward), kind="stable")[:top]
    rows_of = sparse.csr_array(Y.T)
    rows_of.sort_indices()
    return Relations(
        LabelRelation(
            source=str(names[i]),
            target=str(names[j]),
            kl=float(forward[at]),
            kl_reverse=float(backward[at]),
            n_source=int(counts[i]),
            n_target=int(counts[j]),
            n_both=np.intersect1d(_row(rows_of, i), _row(rows_of, j), assume_unique=True).size,
        )
        for at, i, j in zip(order, kept[source[order]], kept[target[order]], strict=True)
    )


def counted_relations(
    Y: sparse.csr_array, names: Sequence[str] | NDArray[Any], *, top: int | None = 20, min_count: int = 2
) -> Relations:
    """What can be said without Gaussians: labels whose rows mostly carry another, more frequent label.

    For every label that other one which most of its rows carry; sorted by that share, of few rows with doubt.

    Parameters
    ----------
    Y : csr_array of shape (n_samples, n_labels)
    names : sequence of str
    top : int or None
        How many to return.
    min_count : int
        Labels on fewer training rows are left out.
    """
    counts = np.bincount(Y.indices, minlength=Y.shape[1])
    pairs = sparse.csr_array(Y.T @ Y).tocoo()
    source, target, both = pairs.row, pairs.col, pairs.data.astype(np.int64)
    directed = (counts[source] < counts[target]) & (counts[source] >= max(min_count, 1))
    source, target, both = source[directed], target[directed], both[directed]
    share = both / (counts[source] + DOUBT)
    order = np.lexsort((target, source, -share))
    order = order[np.sort(np.unique(source[order], return_index=True)[1])][:top]
    return Relations(
        LabelRelation(str(names[i]), str(names[j]), None, None, int(counts[i]), int(counts[j]), int(n))
        for i, j, n in zip(source[order], target[order], both[order], strict=True)
    )


def _nearest_of_all(mu: NDArray[Any], log_var: NDArray[Any], width: int) -> Pairs:
    """Each label and the ``width`` nearest of all others, as pairs; a block of labels at a time."""
    n_labels = len(mu)
    nearest = np.empty((n_labels, width), dtype=np.intp)
    block = max(1, BLOCK_BYTES // (mu.itemsize * n_labels))
    for start in range(0, n_labels, block):
        rows = slice(start, min(start + block, n_labels))
        D = kl_divergence(mu, log_var, rows)
        D[np.arange(len(D)), np.arange(start, rows.stop)] = np.inf
        nearest[rows] = np.argpartition(D, width - 1, axis=1)[:, :width]
    return np.repeat(np.arange(n_labels), width), nearest.ravel()


def _nearest_of_linked(mu: NDArray[Any], log_var: NDArray[Any], A: sparse.csr_array, width: int) -> Pairs:
    """Each label and the ``width`` nearest of those it is linked with in the graph ``A``, as pairs."""
    source, target = np.repeat(np.arange(len(mu)), np.diff(A.indptr)), A.indices.astype(np.intp)
    others = source != target
    source, target = source[others], target[others]
    order = np.lexsort((_of_pairs(mu, log_var, source, target), source))
    source, target = source[order], target[order]
    first = np.searchsorted(source, source)
    near = np.arange(len(source)) - first < width
    return source[near], target[near]


def _of_pairs(mu: NDArray[Any], log_var: NDArray[Any], source: NDArray[Any], target: NDArray[Any]) -> NDArray[Any]:
    """KL(source ‖ target) of every pair."""
    return kl_of_pairs(mu, log_var, source, target)


def _row(matrix: sparse.csr_array, row: int) -> NDArray[np.integer]:
    return matrix.indices[matrix.indptr[row] : matrix.indptr[row + 1]]
