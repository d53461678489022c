"""Dense or sparse: which way through the label graph."""

from typing import Literal

from pysldl._utils.memory import fits_in_memory
from pysldl.exceptions import DataError

__all__ = ["DENSE_LABELS", "Graph", "choose_graph"]

Graph = Literal["dense", "sparse"]

# From here on a step over all pairs takes longer than a step over a batch of a thousand truncated rankings.
DENSE_LABELS = 2000


def choose_graph(
    wanted: Literal["auto", "dense", "sparse"], n_labels: int, dense_memory: int, limit: int | str | None = None
) -> Graph:
    """What ``wanted`` means for ``n_labels`` labels that occur: ``"auto"`` is dense where that is cheap and fits."""
    if wanted not in ("auto", "dense", "sparse"):
        raise DataError(f"graph must be 'auto', 'dense' or 'sparse', but is {wanted!r}.")
    if wanted != "auto":
        return wanted
    return "dense" if n_labels <= DENSE_LABELS and fits_in_memory(dense_memory, limit) else "sparse"
