"""Votes as a product of two sparse matrices: of rows by neighbors, and of neighbors by labels."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pysldl.backend.torch.arrays import DeviceCSR, as_tensor, kept_tensor
from pysldl.backend.torch.selection import BLOCK_BYTES, Found
from pysldl.backend.triton.inverted_index import nearest_by_terms, sparse_products
from pysldl.backend.triton.selection import largest_positive
from pysldl.backend.voting import FAINTEST


def vote_top(neighbors: NDArray[np.int32], weights: NDArray[np.float32], Y: Any, m: int) -> Found:
    labels, votes = _vote_top(as_tensor(neighbors), as_tensor(weights, torch.float32), Y, m)
    return labels.cpu().numpy(), votes.cpu().numpy()


def vote_by_terms(
    X: Any,
    postings: Any,
    Y: Any,
    m: int,
    exclude: NDArray[np.integer],
    *,
    n_neighbors: int,
    temperature: float,
    is_held: NDArray[np.bool_],
    n_terms: int,
    max_postings: int,
) -> tuple[NDArray[np.int32], NDArray[np.float32], NDArray[np.int32]]:
    voters, products = nearest_by_terms(X, postings, n_neighbors, exclude, n_terms, max_postings)
    weights = torch.exp((products - products[:, :1]).double() / temperature).clamp_min_(FAINTEST)
    others = torch.where(as_tensor(is_held)[voters], -1, voters)
    labels, votes = _vote_top(others, _shares(others, weights), Y, m)
    late, _ = _vote_top(voters, _shares(voters, weights), Y, m)
    return labels.cpu().numpy(), votes.cpu().numpy(), late.cpu().numpy()


def _shares(voters: Tensor, weights: Tensor) -> Tensor:
    weights = torch.where(voters >= 0, weights, 0.0)
    totals = weights.sum(dim=1, keepdim=True)
    return (weights / torch.where(totals > 0, totals, 1.0)).float()


def _vote_top(voters: Tensor, weight: Tensor, Y: Any, m: int) -> tuple[Tensor, Tensor]:
    n_rows, n_labels = len(voters), Y.shape[1]
    there = (voters >= 0) & (weight > 0)
    indptr = torch.nn.functional.pad(torch.cumsum(there.sum(dim=1), 0), (1, 0))
    ballots = DeviceCSR(indptr, voters[there], weight[there])
    carried = kept_tensor(Y.indices, torch.int32)
    of_rows = DeviceCSR(kept_tensor(Y.indptr, torch.int64), carried, torch.ones_like(carried, dtype=torch.float32))
    labels = torch.empty((n_rows, m), dtype=torch.int32, device=weight.device)
    votes = torch.empty((n_rows, m), device=weight.device)
    block = max(1, BLOCK_BYTES // (4 * n_labels))
    for start in range(0, n_rows, block):
        stop = min(start + block, n_rows)
        total = sparse_products(ballots, of_rows, start, stop, n_labels)
        labels[start:stop], votes[start:stop] = largest_positive(total, m)
    return labels, votes
