"""Why a row got a label, in a form that prints."""

from dataclasses import dataclass

__all__ = ["Explanation", "FeatureTerm", "Neighbor"]


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
class Explanation:
    """What stands behind one label of one row.

    Attributes
    ----------
    label : str
    score : float
    probability : float or None
        Calibrated, where the model was calibrated.
    neighbors : tuple of Neighbor
        Training rows that voted for the label, strongest first.
    terms : tuple of FeatureTerm
        The features with the largest terms; all terms together add up to ``terms_total``.
    terms_total : float
    terms_meaning : str
        What that sum is.
    """

    label: str
    score: float
    probability: float | None
    neighbors: tuple[Neighbor, ...]
    terms: tuple[FeatureTerm, ...]
    terms_total: float
    terms_meaning: str

    def __str__(self) -> str:
        sure = "" if self.probability is None else f", probability {self.probability:.2f}"
        lines = [f"{self.label}: score {self.score:.3g}{sure}"]
        if self.neighbors:
            lines.append("  voted for by")
            for n in self.neighbors:
                vote = f"similarity {n.similarity:.3f}, {n.contribution:.3g} of the score"
                lines.append(f"    row {n.row}: {vote}; {', '.join(n.labels)}")
        if self.terms:
            lines.append(f"  {self.terms_meaning}: {self.terms_total:.3f}, of which")
            for t in self.terms:
                lines.append(f"    {t.feature}: {t.contribution:+.3f}")
        return "\n".join(lines)
