"""Explanations of why a row got a label, and a short text for each row that they show."""

from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from pysldl.inspection.display import bar, html_table

MAX_LENGTH = 300
N_TERMS = 12


@dataclass(frozen=True)
class Neighbor:
    """A training row that voted for the label: where it is, how similar, and its part of the score."""

    row: int
    similarity: float
    contribution: float
    labels: tuple[str, ...]


@dataclass(frozen=True)
class FeatureTerm:
    """One feature's term in the linear part of the score."""

    feature: str
    value: float
    contribution: float


@dataclass(frozen=True)
class RelatedCandidate:
    """Another candidate of the row: its score, its training rows, and how many of them have the explained label."""

    label: str
    score: float
    rows: int
    rows_with_both: int


@dataclass(frozen=True)
class ScorePart:
    """One part of the score: where it comes from, and its value."""

    name: str
    value: float


@dataclass(frozen=True, repr=False)
class Explanation:
    """Why one row got one label, with what score.

    ``neighbors`` are the training rows that voted for the label, strongest first. ``terms`` are the features with the
    largest contributions; all contributions add up to ``terms_total``, and ``terms_meaning`` says what that sum is.
    ``parts`` make up the score: as a product if ``parts_multiply`` (with a ranker), else as a sum. With a reranker,
    ``rescoring`` is what each property of the candidate adds to the logit of the final score, and ``related`` are the
    other candidates that speak most for it, by the training rows that they share. ``probability`` is None if the model
    is not calibrated.
    """

    label: str
    score: float
    probability: float | None
    neighbors: tuple[Neighbor, ...]
    terms: tuple[FeatureTerm, ...]
    terms_total: float
    terms_meaning: str
    parts: tuple[ScorePart, ...] = ()
    parts_multiply: bool = False
    rescoring: tuple[ScorePart, ...] = ()
    related: tuple[RelatedCandidate, ...] = ()

    def __str__(self) -> str:
        lines = [f"{self.label}: {self._verdict()}"]
        if self.parts:
            lines.append(f"  score = {self._parts_text()}")
        if self.rescoring:
            strongest = sorted(self.rescoring, key=lambda part: -abs(part.value))[:5]
            lines.append("  rescored by " + ", ".join(f"{part.name} {part.value:+.2f}" for part in strongest))
        if self.related:
            lines.append("  other candidates that share rows with it")
            for other in self.related:
                share = f"{other.rows_with_both} of its {other.rows} rows have it, too"
                lines.append(f"    {other.label}: score {other.score:.2f}, {share}")
        if self.neighbors:
            lines.append("  similar training examples")
            for n in self.neighbors:
                vote = f"similarity {n.similarity:.3f}, {n.contribution:.3g} of the score"
                lines.append(f"    row {n.row}: {vote}; {', '.join(n.labels)}")
        if self.terms:
            lines.append(f"  features that raised or lowered the score ({self.terms_meaning}: {self.terms_total:.3f})")
            for t in self.terms:
                lines.append(f"    {t.feature}: {t.contribution:+.3f}")
        return "\n".join(lines)

    def __repr__(self) -> str:
        parts = f"{len(self.neighbors)} neighbors, {len(self.terms)} terms"
        return f"<{type(self).__name__} of {self.label!r}: {self._verdict()}; {parts}>"

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        parts = [f"<p><b>{escape(self.label)}</b>: {self._verdict()}</p>"]
        if self.parts:
            parts.append(f"<p>score = {escape(self._parts_text())}</p>")
        if self.related:
            columns: tuple[str, ...] = ("other candidate", "score", "its rows", "with both")
            others = [(other.label, other.score, other.rows, other.rows_with_both) for other in self.related]
            parts.append(html_table("Other candidates that share rows with it", columns, others))
        if self.neighbors:
            most = max(abs(n.contribution) for n in self.neighbors)
            rows = [
                (n.row, n.similarity, n.contribution, bar(n.contribution, most), ", ".join(n.labels))
                for n in self.neighbors
            ]
            columns = ("training row", "similarity", "of the score", "", "its labels")
            parts.append(html_table("Similar training examples", columns, rows))
        if self.terms:
            most = max(abs(t.contribution) for t in self.terms)
            terms = [(t.feature, t.value, f"{t.contribution:+.3f}", bar(t.contribution, most)) for t in self.terms]
            title = f"Features that raised or lowered the score ({self.terms_meaning}: {self.terms_total:.3f})"
            parts.append(html_table(title, ("feature", "value", "term", ""), terms))
        return f"<div>{''.join(parts)}</div>"

    def _parts_text(self) -> str:
        sign = " × " if self.parts_multiply else " + "
        return sign.join(f"{part.value:.3g} ({part.name})" for part in self.parts)

    def _verdict(self) -> str:
        sure = "" if self.probability is None else f", probability {self.probability:.2f}"
        return f"score {self.score:.3g}{sure}"


def row_snippets(X: Any, feature_names: NDArray[Any] | None) -> NDArray[np.object_]:
    r"""Return one line of text per row: the start of a text, or the names of the largest features.

    Rows of features without ``feature_names`` give empty lines.

    Examples
    --------
    >>> row_snippets(["Two  rooks\nagainst a queen"], None).tolist()
    ['Two rooks against a queen']
    """
    if not hasattr(X, "shape") or np.ndim(X) == 1:
        return np.array([_beginning(text) for text in X], dtype=np.object_)
    if feature_names is None:
        return np.full(X.shape[0], "", dtype=np.object_)
    X = sparse.csr_array(X)
    rows = (slice(X.indptr[row], X.indptr[row + 1]) for row in range(X.shape[0]))
    return np.array([top_terms(X.indices[row], X.data[row], feature_names) for row in rows], dtype=np.object_)


def top_terms(columns: NDArray[np.integer], values: NDArray[Any], feature_names: NDArray[Any]) -> str:
    """Return the names of the largest values, largest first."""
    largest = np.argsort(-values, kind="stable")[:N_TERMS]
    return " · ".join(str(feature_names[column]) for column in columns[largest])


def _beginning(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= MAX_LENGTH else f"{line[:MAX_LENGTH].rsplit(' ', 1)[0]} …"
