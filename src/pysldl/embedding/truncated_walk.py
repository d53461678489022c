"""The labels that the random walk reaches from each label, without a matrix of all pairs.

The total of the discounted walk is a nested sum: ``T₀ = P`` and ``Tₙ = P + discount · P Tₙ₋₁``, after n steps that of
Eqs. 3 to 5. If every row of ``Tₙ₋₁`` keeps only its strongest entries, a step costs as many products as there are
co-occurring pairs times entries kept, and memory holds two such tables.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from pysldl.backend.dispatch import as_int32_indices, warn_no_numba
from pysldl.backend.walk import walk_step
from pysldl.embedding.label_graph import normalize_rows

__all__ = ["TruncatedWalk", "truncated_walk", "walk_memory"]


@dataclass(frozen=True)
class TruncatedWalk:
    """Where walks from each label lead.

    Attributes
    ----------
    labels : ndarray of shape (n_labels, n_kept), int32
        Most probable first, the label itself among them; -1 where fewer were reached.
    probabilities : ndarray of shape (n_labels, n_kept), float32
        Entries of the standardized transfer matrix (Eq. 6); rows sum to 1 over the labels kept.
    truncated : bool
        Whether any row lost an entry. If not, this is the whole transfer matrix.
    """

    labels: NDArray[np.int32]
    probabilities: NDArray[np.float32]
    truncated: bool


def truncated_walk(A: sparse.csr_array, n_steps: int = 10, discount: float = 0.5, n_kept: int = 64) -> TruncatedWalk:
    """Walk from every label of the graph ``A``, of shape (n_labels, n_labels), and keep the ``n_kept`` best.

    Where no more than ``n_kept`` labels can be reached from any, the result equals
    :func:`~pysldl.embedding.label_graph.transfer_matrix`.
    """
    warn_no_numba()
    P = as_int32_indices(normalize_rows(A))
    P.sort_indices()
    n_labels = A.shape[0]
    n_kept = min(n_kept, n_labels)
    labels = np.full((n_labels, n_kept), -1, dtype=np.int32)
    values = np.zeros((n_labels, n_kept), dtype=np.float32)
    for _ in range(n_steps + 1):
        labels, values = walk_step(P, labels, values, discount)
    sums = values.sum(axis=1, keepdims=True, dtype=np.float64)
    np.divide(values, sums, out=values, where=sums > 0, casting="unsafe")
    return TruncatedWalk(labels, values, truncated=n_kept < n_labels and bool((labels[:, -1] >= 0).any()))


def walk_memory(n_labels: int, n_kept: int, n_pairs: int) -> int:
    """Bytes at the peak: the graph three times while it is made, two tables or one and its rankings, and the sums of
    two threads over all labels."""
    return 3 * 12 * n_pairs + 28 * n_labels * min(n_kept, n_labels) + 2 * 16 * n_labels
