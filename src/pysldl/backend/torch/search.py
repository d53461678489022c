"""Neighbors and their votes on the device."""

from threading import Lock
from typing import Any
from weakref import ref

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor

from pysldl.backend.torch.arrays import as_csr, as_tensor, ranges
from pysldl.backend.torch.squared_hinge import linear_scores

__all__ = ["best_rows", "distances_of_pairs", "nearest_vectors", "products_of_pairs", "votes_of_neighbors"]

BLOCK_BYTES = 1 << 29

Found = tuple[NDArray[np.int32], NDArray[np.float32]]


def nearest_vectors(
    device: torch.device,
    Q: NDArray[np.float32],
    vectors: NDArray[np.float32],
    k: int,
    exclude: NDArray[np.integer] | None,
) -> Found:
    """The k rows of ``vectors`` with the largest product with each row of ``Q``, best first."""
    indexed = as_tensor(vectors, device, torch.float32).T
    block = max(1, BLOCK_BYTES // (4 * max(len(vectors), 1)))
    found = []
    for start in range(0, len(Q), block):
        rows = slice(start, start + block)
        similarity = as_tensor(Q[rows], device, torch.float32) @ indexed
        found.append(_best(similarity, k, None if exclude is None else exclude[rows]))
    return _together(found, k)


def best_rows(device: torch.device, queries: Any, postings: Any, k: int, exclude: NDArray[np.integer] | None) -> Found:
    """As :func:`~pysldl.backend.inverted_index.search_inverted_index`: sparse rows times a dense block of queries."""
    n_rows = postings.shape[1]
    rows = _last.rows_of(postings, device)
    width = min(k, n_rows)
    block = max(1, BLOCK_BYTES // (12 * max(n_rows, postings.shape[0])))
    found = []
    for start in range(0, queries.shape[0], block):
        asked = slice(start, start + block)
        columns = as_csr(queries[asked], device).to_dense().T.contiguous()
        similarity = (rows @ columns).T.contiguous()
        if exclude is not None:
            own = as_tensor(np.asarray(exclude[asked]), device, torch.int64)[:, None]
            similarity.scatter_(1, own, 0.0)
        found.append(_best_of_ties(similarity.clamp_min(0.0), width))
    neighbors, products = _together(found, width)
    none = products <= 0
    neighbors, products = np.where(none, np.int32(-1), neighbors), np.where(none, np.float32(0.0), products)
    missing = ((0, 0), (0, k - width))
    return np.pad(neighbors, missing, constant_values=-1), np.pad(products, missing)


def products_of_pairs(device: torch.device, Q: Any, rows: NDArray[np.integer], V: Any) -> NDArray[np.float32]:
    """As :func:`~pysldl.backend.nearest.pair_products`."""
    if sparse.issparse(V):
        products = linear_scores(device, Q, rows, V, np.zeros(V.shape[0], dtype=np.float32))
        return np.where(rows < 0, np.float32(0.0), products)
    vectors = as_tensor(V, device, torch.float64)
    products = np.empty(rows.shape, dtype=np.float32)
    block = max(1, BLOCK_BYTES // (8 * rows.shape[1] * V.shape[1]))
    for start in range(0, len(rows), block):
        part = slice(start, start + block)
        found = vectors[as_tensor(np.maximum(rows[part], 0), device, torch.int64)]
        similar = torch.einsum("qkd,qd->qk", found, as_tensor(Q[part], device, torch.float64))
        products[part] = similar.cpu().numpy()
    return np.where(rows < 0, np.float32(0.0), products)


def distances_of_pairs(
    device: torch.device, Q: NDArray[np.float64], rows: NDArray[np.integer], V: NDArray[np.float32]
) -> NDArray[np.float64]:
    """As :func:`~pysldl.backend.nearest.pair_distances`."""
    vectors = as_tensor(V, device, torch.float64)
    silent = torch.logical_not(vectors.any(dim=1))
    distances = np.empty(rows.shape)
    block = max(1, BLOCK_BYTES // (16 * rows.shape[1] * V.shape[1]))
    for start in range(0, len(rows), block):
        part = slice(start, start + block)
        places = as_tensor(np.maximum(rows[part], 0), device, torch.int64)
        queries = as_tensor(Q[part], device, torch.float64)
        apart = 0.5 * ((vectors[places] - queries[:, None, :]) ** 2).sum(-1)
        apart[silent[places] | torch.logical_not(queries.any(dim=1))[:, None]] = 1.0
        distances[part] = apart.cpu().numpy()
    distances[rows < 0] = np.inf
    return distances


def votes_of_neighbors(
    device: torch.device, neighbors: NDArray[np.integer], weights: NDArray[np.float32], Y: Any, m: int
) -> Found:
    """As :func:`~pysldl.backend.voting.vote_top`: votes of a block of rows in a dense array."""
    n_labels = Y.shape[1]
    indptr, labels = as_tensor(Y.indptr, device, torch.int64), as_tensor(Y.indices, device, torch.int64)
    width = min(m, n_labels)
    block = max(1, BLOCK_BYTES // (12 * n_labels))
    found = []
    for start in range(0, len(neighbors), block):
        there = neighbors[start : start + block] >= 0
        voters = as_tensor(neighbors[start : start + block][there], device, torch.int64)
        weight = as_tensor(weights[start : start + block][there], device, torch.float32)
        row = as_tensor(np.nonzero(there)[0], device, torch.int64)
        sizes = indptr[voters + 1] - indptr[voters]
        places = torch.repeat_interleave(row * n_labels, sizes) + labels[ranges(indptr[voters], sizes)]
        total = torch.zeros(len(there) * n_labels, dtype=torch.float32, device=device)
        total.index_add_(0, places, torch.repeat_interleave(weight, sizes))
        found.append(_best_of_ties(total.view(len(there), n_labels), width))
    chosen, votes = _together(found, width)
    none = votes <= 0
    chosen, votes = np.where(none, np.int32(-1), chosen), np.where(none, np.float32(0.0), votes)
    missing = ((0, 0), (0, m - width))
    return np.pad(chosen, missing, constant_values=-1), np.pad(votes, missing)


class _LastIndex:
    """The last inverted index by its rows, on the device: prediction asks block by block, perhaps in several threads.

    It is forgotten with the matrix that it was made from.
    """

    def __init__(self) -> None:
        self.lock = Lock()
        self.made_from: Any = None
        self.device: Any = None
        self.rows: Any = None

    def rows_of(self, postings: Any, device: torch.device) -> Tensor:
        with self.lock:
            if self.made_from is None or self.made_from() is not postings or self.device != device:
                self.rows = None  # so that there are never two on the device
                self.rows = as_csr(postings.T, device)
                self.made_from, self.device = ref(postings, self.forget), device
            return self.rows

    def forget(self, gone: Any) -> None:
        # Without the lock: the collector may call this in a thread that holds it.
        if self.made_from is gone:
            self.made_from = self.rows = None


_last = _LastIndex()


def _best(similarity: Tensor, k: int, exclude: NDArray[np.integer] | None) -> tuple[Tensor, Tensor]:
    if exclude is not None:
        own = as_tensor(np.asarray(exclude), similarity.device, torch.int64)[:, None]
        similarity.scatter_(1, own, -torch.inf)
    values, columns = torch.topk(similarity, k, dim=1)
    return columns.to(torch.int32), values


def _best_of_ties(votes: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The k largest of every row without negative numbers, of equals the lower column.

    The bits of a number that is not negative are ordered as it is; the column fills the bits below.
    """
    n_columns = votes.shape[1]
    columns = torch.arange(n_columns - 1, -1, -1, device=votes.device)
    keys = (votes.view(torch.int32).to(torch.int64) << 32) | columns
    best, _ = torch.topk(keys, k, dim=1)
    chosen = n_columns - 1 - (best & 0xFFFFFFFF)
    return chosen.to(torch.int32), (best >> 32).to(torch.int32).view(torch.float32)


def _together(found: list[tuple[Tensor, Tensor]], k: int) -> Found:
    if not found:
        return np.empty((0, k), dtype=np.int32), np.empty((0, k), dtype=np.float32)
    return (
        np.concatenate([columns.cpu().numpy() for columns, _ in found]),
        np.concatenate([values.cpu().numpy() for _, values in found]),
    )
