"""Products and distances of vectors on the device."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse

from pysldl.backend.candidate_scores import score_candidates
from pysldl.backend.torch.arrays import as_tensor
from pysldl.backend.torch.selection import BLOCK_BYTES, Found, concatenate_found


def nearest_vectors(
    Q: NDArray[np.float32], vectors: NDArray[np.float32], k: int, exclude: NDArray[np.integer] | None = None
) -> Found:
    indexed = as_tensor(vectors, torch.float32).T
    block = max(1, BLOCK_BYTES // (4 * max(len(vectors), 1)))
    found = []
    for start in range(0, len(Q), block):
        part = slice(start, start + block)
        similarity = as_tensor(Q[part], torch.float32) @ indexed
        if exclude is not None:
            similarity.scatter_(1, as_tensor(np.asarray(exclude[part]), torch.int64)[:, None], -torch.inf)
        products, rows = torch.topk(similarity, k, dim=1)
        found.append((rows.to(torch.int32), products))
    return concatenate_found(found, k)


def nearest_rows(
    Q: NDArray[np.float32], vectors: NDArray[np.float32], k: int, exclude: NDArray[np.integer] | None = None
) -> NDArray[np.int32]:
    return np.sort(nearest_vectors(Q, vectors, k, exclude)[0], axis=1)


def pair_products(Q: Any, rows: NDArray[np.int32], V: Any) -> NDArray[np.float32]:
    if sparse.issparse(V):
        products = score_candidates(Q, rows, V, np.zeros(V.shape[0], dtype=np.float32))
        return np.where(rows < 0, np.float32(0.0), products)
    vectors = as_tensor(V, torch.float64)
    products = np.empty(rows.shape, dtype=np.float32)
    block = max(1, BLOCK_BYTES // (8 * rows.shape[1] * V.shape[1]))
    for start in range(0, len(rows), block):
        part = slice(start, start + block)
        found = vectors[as_tensor(np.maximum(rows[part], 0), torch.int64)]
        products[part] = torch.einsum("qkd,qd->qk", found, as_tensor(Q[part], torch.float64)).cpu().numpy()
    return np.where(rows < 0, np.float32(0.0), products)


def pair_distances(Q: NDArray[np.float64], rows: NDArray[np.integer], V: NDArray[np.float32]) -> NDArray[np.float64]:
    vectors = as_tensor(V, torch.float64)
    silent = torch.logical_not(vectors.any(dim=1))
    distances = np.empty(rows.shape)
    block = max(1, BLOCK_BYTES // (16 * rows.shape[1] * V.shape[1]))
    for start in range(0, len(rows), block):
        part = slice(start, start + block)
        places = as_tensor(np.maximum(rows[part], 0), torch.int64)
        queries = as_tensor(Q[part], torch.float64)
        apart = 0.5 * ((vectors[places] - queries[:, None, :]) ** 2).sum(-1)
        apart[silent[places] | torch.logical_not(queries.any(dim=1))[:, None]] = 1.0
        distances[part] = apart.cpu().numpy()
    distances[rows < 0] = np.inf
    return distances
