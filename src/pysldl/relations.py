"""Which label implies which: directed relations read off the learned Gaussians."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from pysldl.display import bar, html_table, text_table
from pysldl.embedding.divergence import kl_divergence

__all__ = ["LabelRelation", "Relations", "label_relations"]


@dataclass(frozen=True)
class LabelRelation:
    """``source`` implies ``target``.

    Attributes
    ----------
    source, target : str
    kl : float
        KL(source ‖ target), small: what holds for the source holds for the target.
    kl_reverse : float
        KL(target ‖ source), larger: the reverse does not.
    n_source, n_target, n_both : int
        Training rows with the one, the other, and both labels.
    """

    source: str
    target: str
    kl: float
    kl_reverse: float
    n_source: int
    n_target: int
    n_both: int

    @property
    def confidence(self) -> float:
        """Share of the source's training rows that also carry the target."""
        return self.n_both / self.n_source if self.n_source else 0.0

    def __str__(self) -> str:
        return (
            f"{self.source} implies {self.target} (KL {self.kl:.2f}, reverse {self.kl_reverse:.2f}; "
            f"{self.n_both} of {self.n_source} rows)"
        )


class Relations(list[LabelRelation]):
    """A list of relations that shows itself as a table, in a terminal and in a notebook."""

    def __getitem__(self, at: Any) -> Any:
        found = super().__getitem__(at)
        return Relations(found) if isinstance(at, slice) else found

    def __str__(self) -> str:
        if not self:
            return "no relations"
        columns = ("label", "implies", "KL", "reverse", "rows", "of", "share")
        return text_table(
            columns,
            [
                (
                    r.source,
                    r.target,
                    r.kl,
                    r.kl_reverse,
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
            (r.source, r.target, r.kl, r.kl_reverse, f"{r.n_both} of {r.n_source}", bar(r.confidence, 1.0))
            for r in self
        ]
        title = "Directed relations: KL small to what a label implies, larger back"
        return html_table(title, ("label", "implies", "KL", "reverse", "rows with both", ""), rows)


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
    label implies the other. Sorted by the gap between the two directions, relative to their sum.

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
    D = kl_divergence(mu[kept], log_var[kept])
    np.fill_diagonal(D, np.inf)
    width = min(per_label, kept.size - 1)
    nearest = np.argpartition(D, width - 1, axis=1)[:, :width]
    source = np.repeat(np.arange(kept.size), width)
    target = nearest.ravel()
    forward, backward = D[source, target], D[target, source]
    directed = forward < backward
    if of is not None:
        directed &= (kept[source] == of) | (kept[target] == of)
    source, target, forward, backward = source[directed], target[directed], forward[directed], backward[directed]
    order = np.argsort(-(backward - forward) / (backward + forward), kind="stable")[:top]
    together = sparse.csr_array(Y.T)
    return Relations(
        LabelRelation(
            source=str(names[i]),
            target=str(names[j]),
            kl=float(forward[at]),
            kl_reverse=float(backward[at]),
            n_source=int(counts[i]),
            n_target=int(counts[j]),
            n_both=int((together[[i]] @ Y[:, [j]]).sum()),
        )
        for at, i, j in zip(order, kept[source[order]], kept[target[order]], strict=True)
    )
