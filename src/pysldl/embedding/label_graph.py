"""The label graph and the random walk on it (Eqs. 1 to 6 of the paper).

Two labels are linked when they ever stand on the same row; a discounted random walk over these links
says, for every label, how strongly each other label is related to it. The relation has a direction:
a rare label leads to a frequent one more surely than the other way.
"""

from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from pysldl._utils.memory import fits_in_memory
from pysldl.backend.dispatch import as_int32_indices
from pysldl.backend.linear_algebra import sparse_times
from pysldl.backend.threads import matmul

Weighting = Literal["binary", "count"]
Graph = Literal["dense", "sparse"]

# From here on a step over all pairs takes longer than a step over a batch of a thousand truncated rankings.
DENSE_LABELS = 2000
WALKED_TOGETHER = 1 << 23


def cooccurrence(Y: sparse.csr_array, weighting: Weighting = "binary") -> sparse.csr_array:
    """Build the label graph A (Eq. 1), a CSR array of shape (n_labels, n_labels), float32.

    With ``"binary"``, as in the paper, an entry is 1 if two labels ever share a row; ``"count"`` keeps how many rows
    they share. The diagonal is that of a label with itself.
    """
    A = sparse.csr_array(Y.T @ Y, dtype=np.float32)
    A.sort_indices()
    if weighting == "binary":
        A.data[:] = 1.0
    return A


def normalize_rows(A: sparse.csr_array) -> sparse.csr_array:
    """Rows scaled to sum 1 (Eq. 2); a row without links stays zero instead of turning into NaN."""
    sums = np.asarray(A.sum(axis=1), dtype=np.float64).ravel()
    scale = np.divide(1.0, sums, out=np.zeros_like(sums), where=sums > 0)
    return sparse.csr_array(sparse.diags_array(scale.astype(A.dtype)) @ A)


def transfer_matrix(A: sparse.csr_array, n_steps: int = 10, discount: float = 0.5) -> NDArray[np.float32]:
    """Compute the standardized transfer matrix of the discounted random walk (Eqs. 3 to 6).

    The total starts at P⁽⁰⁾ with weight 1; step ``i`` adds ``discount ** i`` times P⁽ⁱ⁾. Row i of the result says how
    probable each label is on walks from label i; rows of isolated labels are zero. Sums are taken in double precision
    and rounded, so that equally probable labels are equal on every machine.
    """
    step = normalize_rows(A.astype(np.float64)).toarray()
    walk, total, weight = step, step.copy(), 1.0
    for _ in range(n_steps):
        walk = matmul(walk, step)
        weight *= discount
        total += weight * walk
    sums = total.sum(axis=1, keepdims=True)
    np.divide(total, sums, out=total, where=sums > 0)
    return np.asarray(total, dtype=np.float32)


def transfer_rows(
    A: sparse.csr_array,
    rows: NDArray[np.integer],
    columns: NDArray[np.integer],
    n_steps: int = 10,
    discount: float = 0.5,
) -> NDArray[np.float32]:
    """Some rows and columns of :func:`transfer_matrix`, of shape (n_rows, n_columns), in bounded memory."""
    step = normalize_rows(A.astype(np.float64))
    back = as_int32_indices(sparse.csr_array(step.T))
    found = np.empty((len(rows), len(columns)), dtype=np.float32)
    block = max(1, WALKED_TOGETHER // A.shape[0])
    for first in range(0, len(rows), block):
        part = slice(first, first + block)
        walk = np.ascontiguousarray(step[rows[part]].toarray().T)  # a column each: the product reads whole lines
        total, weighted, weight = walk.copy(), np.empty_like(walk), 1.0
        for _ in range(n_steps):
            walk = sparse_times(back, walk)
            weight *= discount
            total += np.multiply(walk, weight, out=weighted)
        sums = total.sum(axis=0)
        found[part] = np.divide(total, sums, out=total, where=sums > 0)[columns].T
    return found


def rank_labels(P: NDArray[np.floating], *, with_anchor: bool = False) -> NDArray[np.int32]:
    """Rank the labels for each anchor by the transfer matrix ``P``, most related first; ties go to the lower index.

    The result has the shape (n_labels, n_labels - 1), since the paper ranks "the remaining labels"; ``with_anchor``
    keeps the anchor in its own ranking.
    """
    order = np.argsort(-P, axis=1, kind="stable").astype(np.int32)
    if with_anchor:
        return order
    n_labels = P.shape[0]
    others = order != np.arange(n_labels, dtype=np.int32)[:, None]
    return np.asarray(order[others].reshape(n_labels, n_labels - 1))


def choose_graph(
    graph: Literal["auto", "dense", "sparse"], n_labels: int, dense_memory: int, limit: int | str | None = None
) -> Graph:
    """What ``graph`` means for ``n_labels`` labels that occur: ``"auto"`` is dense if that is cheap and fits."""
    if graph != "auto":
        return graph
    return "dense" if n_labels <= DENSE_LABELS and fits_in_memory(dense_memory, limit) else "sparse"
