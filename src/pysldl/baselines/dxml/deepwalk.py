"""DeepWalk: vectors of labels that co-occur, from random walks and the skip-gram objective."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

__all__ = ["deepwalk", "label_graph", "random_walks", "skip_gram_loss", "walk_pairs"]

ANCHOR_BYTES = 64 << 20
NEGATIVES = 5
UNIGRAM_POWER = 0.75


def deepwalk(
    Y: sparse.csr_array,
    n_components: int,
    *,
    n_walks: int,
    walk_length: int,
    window: int,
    epochs: int,
    learning_rate: float,
    rng: np.random.Generator,
    where: Any,
) -> NDArray[np.float32]:
    """Vectors of the labels of ``Y``, of shape (n_labels, n_components).

    A label that never occurs together with another is on no walk and keeps its random start.
    """
    import torch

    n_labels = Y.shape[1]
    walks = random_walks(label_graph(Y), n_walks, walk_length, rng)
    pairs = walk_pairs(walks, window, n_labels)
    visits = np.bincount(walks.ravel(), minlength=n_labels).astype(np.float64)
    noise = visits**UNIGRAM_POWER
    chance = torch.from_numpy((noise / max(noise.sum(), 1.0)).astype(np.float32)).to(where)

    start = rng.normal(scale=n_components**-0.5, size=(n_labels, n_components)).astype(np.float32)
    vectors = torch.from_numpy(start).to(where).requires_grad_()
    contexts = torch.zeros_like(vectors, requires_grad=True)
    optimizer = torch.optim.Adam([vectors, contexts], lr=learning_rate)
    block = max(1, ANCHOR_BYTES // (4 * n_labels))
    total = max(float(pairs.sum()), 1.0)
    for _ in range(epochs if pairs.nnz else 0):
        for first in range(0, n_labels, block):
            rows = slice(first, first + block)
            counts = torch.from_numpy(pairs[rows].toarray()).to(where)
            optimizer.zero_grad()
            (skip_gram_loss(vectors[rows] @ contexts.T, counts, chance) / total).backward()
            optimizer.step()
    return vectors.detach().cpu().numpy()


def label_graph(Y: sparse.csr_array) -> sparse.csr_array:
    """Adjacency of labels with a row in common, without loops, of shape (n_labels, n_labels)."""
    together = sparse.coo_array(Y.T @ Y)
    row, col = together.coords
    other = (row != col) & (together.data > 0)
    ones = np.ones(int(other.sum()), dtype=np.float32)
    return sparse.csr_array((ones, (row[other], col[other])), shape=together.shape)


def random_walks(graph: sparse.csr_array, n_walks: int, length: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """``n_walks`` uniform random walks from every label that has a neighbor, of shape (n, length)."""
    degrees = np.diff(graph.indptr)
    walks = np.empty((n_walks * int((degrees > 0).sum()), length), dtype=np.int64)
    walks[:, 0] = np.tile(np.flatnonzero(degrees > 0), n_walks)
    for step in range(1, length):
        at = walks[:, step - 1]
        walks[:, step] = graph.indices[graph.indptr[at] + rng.integers(degrees[at])]
    return walks


def walk_pairs(walks: NDArray[np.int64], window: int, n_labels: int) -> sparse.csr_array:
    """How often two labels are at most ``window`` steps apart on a walk, symmetric, of shape (n_labels, n_labels)."""
    counts = sparse.csr_array((n_labels, n_labels), dtype=np.float32)
    for apart in range(1, min(window, walks.shape[1] - 1) + 1):
        before, after = walks[:, :-apart].ravel(), walks[:, apart:].ravel()
        ones = np.ones(len(before), dtype=np.float32)
        counts = counts + sparse.csr_array((ones, (before, after)), shape=counts.shape)
    return sparse.csr_array(counts + counts.T)


def skip_gram_loss(logits: Any, counts: Any, chance: Any) -> Any:
    r"""Skip-gram loss with negative sampling, with its expectation in place of samples.

    .. math:: -\sum_{ij} n_{ij} \log\sigma(s_{ij}) + 5\, n_i\, q_j \log\sigma(-s_{ij}), \qquad n_i = \sum_j n_{ij}

    The pairs of all walks are counted once and the negatives enter by their probability, so a step costs one product
    of two small matrices instead of millions of look-ups.

    Parameters
    ----------
    logits : Tensor of shape (n_anchors, n_labels)
        s, the products of anchors and contexts.
    counts : Tensor of shape (n_anchors, n_labels)
        n, the pairs on the walks.
    chance : Tensor of shape (n_labels,)
        q, how probable a label is as a negative.
    """
    from torch.nn.functional import logsigmoid

    negatives = NEGATIVES * counts.sum(dim=1, keepdim=True) * chance
    return -(counts * logsigmoid(logits) + negatives * logsigmoid(-logits)).sum()
