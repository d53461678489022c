"""Nearest neighbors by Euclidean distance with deterministic ties, for SLEEC and DXML."""

import numpy as np
from numpy.typing import NDArray

from pysldl.backend.nearest import largest
from pysldl.backend.threads import matmul

BLOCK_BYTES = 64 << 20


def euclidean_neighbors(
    Q: NDArray[np.float32], codes: NDArray[np.float32], k: int
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Distances and numbers of the k rows of ``codes`` that are nearest to each query.

    Products are in double precision and rounded to single precision before they are compared, so that rows at the same
    distance compare equal and the lower one is taken. scikit-learn's search leaves such ties to the order in which its
    threads come upon them.
    :mod:`pysldl.neighbors` compares cosines. Both results are of shape (n_queries, k), nearest first, but for
    differences of distance that single precision does not resolve; k is at most the number of codes.
    """
    distances = np.empty((len(Q), k))
    neighbors = np.empty((len(Q), k), dtype=np.int64)
    exact = codes.astype(np.float64)
    half_norms = 0.5 * np.einsum("ij,ij->i", exact, exact)
    block = max(1, BLOCK_BYTES // (8 * max(len(codes), k * codes.shape[1])))
    for start in range(0, len(Q), block):
        rows = slice(start, start + block)
        queries = Q[rows].astype(np.float64)
        nearness = (matmul(queries, exact.T) - half_norms).astype(np.float32)
        neighbors[rows], _ = largest(nearness, k)
        difference = exact[neighbors[rows]] - queries[:, None, :]
        distances[rows] = np.sqrt(np.einsum("qkd,qkd->qk", difference, difference))
    return distances, neighbors
