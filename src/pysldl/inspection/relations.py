"""Directed relations between labels: "cloud implies sky", with the counts behind it and how sure the direction is.

Two labels are related if they share more training rows than chance would bring together. The relation points
from the rarer label to the more frequent one, because in that direction a larger share of the rows carries the other
label as well: P(target | source) > P(source | target). How sure that is follows from the counts. The divergences of
Gaussian labels are reported beside it and decide only between equally frequent labels: on synthetic labels with known
implications the counts are right more often (``benchmarks/planted.py``).
"""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from pysldl.backend.divergence import kl_of_pairs
from pysldl.backend.exact import COMPILED_SIZE
from pysldl.inspection.display import Cell, bar, html_table, text_table

Verb = Literal["implies", "often comes with", "is related to"]
VERBS: tuple[Verb, ...] = ("implies", "often comes with", "is related to")

MIN_COUNT = 2  # labels on fewer training rows are left out
TOP = 20  # relations of a model that are shown
TOP_OF_LABEL = 10  # relations from, and to, one label that are shown
SURE = 0.95  # the confidence from which a direction is called sure
# The share of the rows that a verb takes, and the lower bound of that share; see LabelRelation.verb.
IMPLIES_SHARE, IMPLIES_BOUND = 0.8, 0.5
OFTEN_SHARE, OFTEN_BOUND = 0.5, 0.3
NORMAL_95 = 1.6448536269514722  # the 95 % quantile of the standard normal distribution


def direction_confidence(n_source: Any, n_target: Any, n_both: Any) -> NDArray[np.float64]:
    """Return the probability that P(target | source) exceeds P(source | target), given counts of training rows.

    Both shares have the same numerator, so the question is which label is more frequent, and only rows with exactly one
    of the two can tell: ``b`` with the source alone and ``c`` with the target alone (McNemar's test). With a uniform
    prior the probability that the target is the more frequent one is a tail of Beta(b + 1, c + 1); this is its normal
    approximation, Phi((c - b) / sqrt(b + c + 1)), which is within 0.011 of it for all counts and within 0.006 if it
    is 0.9 or more. It is 0.5 for labels that never share a row.

    Examples
    --------
    Of 20 and 150 rows, 19 shared; then of 10 and 11 rows, 8 shared:

    >>> direction_confidence([20, 10], [150, 11], [19, 8]).round(2)
    array([1.  , 0.66])
    """
    n_source, n_target, n_both = (np.asarray(n, dtype=np.float64) for n in (n_source, n_target, n_both))
    z = (n_target - n_source) / np.sqrt(n_source + n_target - 2 * n_both + 1)
    probability = 0.5 * _erfc(-z / math.sqrt(2))
    return np.where(n_both > 0, probability, 0.5)


def share_lower_bound(n_both: Any, n_source: Any) -> NDArray[np.float64]:
    """Return the lower bound of the share ``n_both / n_source`` with 95 % confidence (Wilson score interval).

    Examples
    --------
    Two rows of two support much less than two hundred of two hundred:

    >>> share_lower_bound([2, 20, 200], [2, 20, 200]).round(2)
    array([0.43, 0.88, 0.99])
    """
    n = np.maximum(np.asarray(n_source, dtype=np.float64), 1)
    share = np.asarray(n_both, dtype=np.float64) / n
    z2 = NORMAL_95**2
    spread = NORMAL_95 * np.sqrt(share * (1 - share) / n + z2 / (4 * n * n))
    return np.maximum((share + z2 / (2 * n) - spread) / (1 + z2 / n), 0.0)


@dataclass(frozen=True)
class LabelRelation:
    """A relation from one label to a more frequent one.

    The counts are training rows with the source, the target and both labels, and all training rows. ``kl`` and
    ``kl_reverse`` are KL(source ‖ target) and KL(target ‖ source) of the learned Gaussians, None if the model has none;
    the first is smaller if the Gaussians agree with the direction.
    """

    source: str
    target: str
    n_source: int
    n_target: int
    n_both: int
    n_rows: int
    kl: float | None = None
    kl_reverse: float | None = None

    @property
    def share(self) -> float:
        """Share of the source's training rows that also carry the target: P(target | source)."""
        return self.n_both / self.n_source if self.n_source else 0.0

    @property
    def share_low(self) -> float:
        """Lower bound of the share, with 95 % confidence; see :func:`share_lower_bound`."""
        return float(share_lower_bound(self.n_both, self.n_source))

    @property
    def confidence(self) -> float:
        """How sure the direction is, in [0, 1]; see :func:`direction_confidence`."""
        return float(direction_confidence(self.n_source, self.n_target, self.n_both))

    @property
    def verb(self) -> Verb:
        """What the counts support.

        ``"implies"``: at least 80 % of the source's rows carry the target, with 95 % confidence more than half of them,
        and the direction has a confidence of at least 0.95. ``"often comes with"``: at least half of the rows, with
        95 % confidence more than 30 %. Both only if, with the same confidence, the share is above the target's share
        of all rows. ``"is related to"``: whatever else was found.
        """
        low = self.share_low
        if low * self.n_rows > self.n_target:
            if self.share >= IMPLIES_SHARE and low >= IMPLIES_BOUND and self.confidence >= SURE:
                return "implies"
            if self.share >= OFTEN_SHARE and low >= OFTEN_BOUND:
                return "often comes with"
        return "is related to"

    def to_dict(self) -> dict[str, Any]:
        """Return the counts and what follows from them, for JSON."""
        return asdict(self) | {
            "verb": self.verb,
            "share": self.share,
            "share_low": self.share_low,
            "confidence": self.confidence,
        }

    def __str__(self) -> str:
        divergence = "" if self.kl is None else f"; KL {self.kl:.2f}, reverse {self.kl_reverse:.2f}"
        return (
            f"{self.source} {self.verb} {self.target} ({self.n_both} of {self.n_source} rows; "
            f"direction sure: {sure_text(self.confidence)}{divergence})"
        )


class Relations(list[LabelRelation]):
    """A list of relations that prints as a table, in a terminal and in a notebook."""

    def __getitem__(self, at: Any) -> Any:
        found = super().__getitem__(at)
        return Relations(found) if isinstance(at, slice) else found

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns of a table; divergences only if all relations have them."""
        names = ("label", "relation", "other label", "rows", "of", "share", "sure")
        return names if any(relation.kl is None for relation in self) else (*names, "KL", "reverse")

    def rows(self) -> list[tuple[Cell, ...]]:
        """Return the cells of a table, one tuple per relation."""
        n_columns = len(self.columns)
        return [
            (
                r.source,
                r.verb,
                r.target,
                r.n_both,
                r.n_source,
                f"{r.share:.0%}",
                sure_text(r.confidence),
                r.kl,
                r.kl_reverse,
            )[:n_columns]
            for r in self
        ]

    def __str__(self) -> str:
        return text_table(self.columns, self.rows()) if self else "no relations"

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """Return what a notebook shows."""
        if not self:
            return "<p>no relations</p>"
        title = "Directed relations: rows of a label that also carry another, more frequent one"
        bars = [bar(relation.share, 1.0) for relation in self]
        rows = [(*row[:6], drawn, *row[6:]) for row, drawn in zip(self.rows(), bars, strict=True)]
        return html_table(title, (*self.columns[:6], "", *self.columns[6:]), rows)


class RelatedPairs(NamedTuple):
    """Relations as arrays of shape (n_relations,): columns of the labels, shared rows, lower bound of the share."""

    source: NDArray[np.int64]
    target: NDArray[np.int64]
    n_both: NDArray[np.int64]
    share_low: NDArray[np.float64]

    def take(self, which: Any) -> "RelatedPairs":
        """Return some of the pairs, by position, mask or slice."""
        return RelatedPairs(*(column[which] for column in self))


class RelationFinder:
    """Find directed relations between labels, for the estimator, the command, the model card and the service.

    Two labels are related if, with 95 % confidence, the share of the rarer label's rows that carry the other is above
    that of all rows. The relation points to the more frequent label; if both are equally frequent, in the direction of
    the smaller divergence if there are Gaussians, else to the later column. The strongest relation has the highest
    lower bound of the share of rows; among equals the rarer target comes first. Time is proportional to the number of
    label pairs that share a row. ``counts`` are the training rows of every label, ``n_rows`` all of them.
    """

    def __init__(
        self, Y: sparse.csr_array, means: NDArray[Any] | None = None, log_variances: NDArray[Any] | None = None
    ) -> None:
        self.counts: NDArray[np.int64] = np.bincount(Y.indices, minlength=Y.shape[1]).astype(np.int64)
        self.n_rows = int(Y.shape[0])
        ones = np.ones(Y.nnz, dtype=np.int32)
        self._Y = sparse.csr_array((ones, Y.indices, Y.indptr), shape=Y.shape)
        self._gaussians = None if means is None or log_variances is None else (means, log_variances)

    def strongest(
        self, per_label: int | None = 1, min_count: int = MIN_COUNT, columns: NDArray[np.int64] | None = None
    ) -> RelatedPairs:
        """Return the ``per_label`` strongest relations (None: all) of every label to more frequent ones.

        They come strongest first. Labels with fewer than ``min_count`` training rows are left out; ``columns``
        restricts the search to some labels.
        """
        Y = self._Y if columns is None else self._Y[:, columns]
        together = sparse.csr_array(Y.T @ Y).tocoo()
        source, target = together.row.astype(np.int64), together.col.astype(np.int64)
        if columns is not None:
            source, target = columns[source], columns[target]
        found = self._related(source, target, together.data.astype(np.int64), max(min_count, 1))
        if per_label is not None:
            order = np.lexsort((found.target, self.counts[found.target], -found.share_low, found.source))
            ordered = found.source[order]
            rank = np.arange(len(ordered)) - np.searchsorted(ordered, ordered)
            found = found.take(order[rank < per_label])
        return self._sorted(found)

    def of_label(self, label: int, min_count: int = MIN_COUNT) -> tuple[RelatedPairs, RelatedPairs]:
        """Return the relations of one column to more frequent labels, and of rarer labels to it, strongest first.

        Other labels with fewer than ``min_count`` training rows are left out.
        """
        rows = self._rows_of_label.indices[slice(*self._rows_of_label.indptr[label : label + 2])]
        together = np.bincount(self._Y[rows].indices, minlength=len(self.counts))
        together[self.counts < min_count] = 0
        others = np.flatnonzero(together)
        own = np.full_like(others, label)
        n_both = together[others]
        return (
            self._sorted(self._related(own, others, n_both)),
            self._sorted(self._related(others, own, n_both)),
        )

    def named(self, pairs: RelatedPairs, names: Sequence[str] | NDArray[Any]) -> Relations:
        """Return pairs as relations with names, counts and divergences."""
        n = len(pairs.source)
        forward = backward = [None] * n
        if self._gaussians is not None:
            forward = self._divergences(pairs.source, pairs.target).tolist()
            backward = self._divergences(pairs.target, pairs.source).tolist()
        return Relations(
            LabelRelation(
                source=str(names[i]),
                target=str(names[j]),
                n_source=int(self.counts[i]),
                n_target=int(self.counts[j]),
                n_both=both,
                n_rows=self.n_rows,
                kl=kl,
                kl_reverse=kl_reverse,
            )
            for i, j, both, kl, kl_reverse in zip(
                pairs.source.tolist(), pairs.target.tolist(), pairs.n_both.tolist(), forward, backward, strict=True
            )
        )

    @cached_property
    def _rows_of_label(self) -> sparse.csr_array:
        return sparse.csr_array(self._Y.T)

    def _related(
        self, source: NDArray[np.int64], target: NDArray[np.int64], n_both: NDArray[np.int64], min_count: int = 0
    ) -> RelatedPairs:
        """Return those of the pairs that are related and point from source to target."""
        n_source, n_target = self.counts[source], self.counts[target]
        kept = (n_source <= n_target) & (source != target) & (n_source >= min_count)
        bound = share_lower_bound(n_both, n_source)
        kept &= bound * self.n_rows > n_target
        tied = np.flatnonzero(kept & (n_source == n_target))
        kept[tied] = self._tie_points_forward(source[tied], target[tied])
        return RelatedPairs(source, target, n_both, bound).take(kept)

    def _tie_points_forward(self, source: NDArray[np.int64], target: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return whether pairs of equally frequent labels point from source to target."""
        if self._gaussians is None:
            return source < target
        first, second = np.minimum(source, target), np.maximum(source, target)
        to_second = self._divergences(first, second) <= self._divergences(second, first)
        return np.asarray(to_second == (source < target))

    def _divergences(self, source: NDArray[np.int64], target: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return KL(source ‖ target) of pairs, in parts so small that NumPy computes them without a compiler."""
        assert self._gaussians is not None
        means, log_variances = self._gaussians
        step = max(1, (COMPILED_SIZE - 1) // max(means.shape[1], 1))
        parts = [
            kl_of_pairs(means, log_variances, source[start : start + step], target[start : start + step])
            for start in range(0, len(source), step)
        ]
        return np.concatenate([np.empty(0), *parts])

    def _sorted(self, pairs: RelatedPairs) -> RelatedPairs:
        counts = self.counts
        return pairs.take(np.lexsort((pairs.target, pairs.source, counts[pairs.target], -pairs.share_low)))


def label_relations(
    Y: sparse.csr_array,
    names: Sequence[str] | NDArray[Any],
    means: NDArray[Any] | None = None,
    log_variances: NDArray[Any] | None = None,
    *,
    top: int | None = TOP,
    per_label: int = 1,
    min_count: int = MIN_COUNT,
    of: int | None = None,
) -> Relations:
    """Return the strongest directed relations between labels; see :class:`RelationFinder`.

    ``top`` limits their number (None: all), ``per_label`` the relations of each label to more frequent ones, and
    ``min_count`` the training rows a label must have. With ``of``, a column, only relations from and to that label are
    returned, ``top`` each. With Gaussians, the divergences are part of each relation.

    Examples
    --------
    >>> Y = sparse.csr_array([[1, 1]] * 20 + [[0, 1]] * 30 + [[0, 0]] * 50)
    >>> print(*label_relations(Y, ["cloud", "sky"]))
    cloud implies sky (20 of 20 rows; direction sure: >99%)
    """
    finder = RelationFinder(Y, means, log_variances)
    if of is None:
        return finder.named(finder.strongest(per_label, min_count).take(slice(top)), names)
    both_ways = finder.of_label(of, min_count)
    return Relations(found for pairs in both_ways for found in finder.named(pairs.take(slice(top)), names))


def sure_text(confidence: float) -> str:
    """Return a confidence in percent, at most ">99%".

    Examples
    --------
    >>> sure_text(0.9991), sure_text(0.83)
    ('>99%', '83%')
    """
    return ">99%" if confidence > 0.99 else f"{confidence:.0%}"


def _erfc(values: NDArray[np.float64]) -> NDArray[np.float64]:
    # SciPy's loads scipy.linalg, which takes too long before the first response of a service.
    return np.asarray(np.vectorize(math.erfc, otypes=[np.float64])(values))
