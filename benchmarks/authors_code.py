"""The three stages the way the authors' code does them, to time it: loops in Python, big dense tensors.

Written from a description of that code, and like it in what it computes: the hinge with the opposite sign,
KL(N_j ‖ N_i), the anchor in its own ranking, fifty steps of AdamW, an intercept and nonnegative weights.
"""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.linear_model import Ridge
from sklearn.neighbors import KNeighborsRegressor

from measuring import Clock

__all__ = ["fit_and_predict"]

MARGIN = 0.1
WALK_STEPS = 10


def fit_and_predict(
    clock: Clock,
    X: NDArray[np.float32],
    Y: NDArray[np.float32],
    X_new: NDArray[np.float32],
    *,
    n_components: int,
    n_neighbors: int,
    steps: int = 50,
    seed: int = 0,
) -> NDArray[np.float64]:
    """Scores of new rows, of shape (n_new, n_labels); everything dense.

    Parameters
    ----------
    clock : Clock
        Told of the stages "graph", "embedding", "mapping" and "decoder".
    X, Y, X_new : ndarray
        Rows of X and X_new have length 1.
    """
    with clock("graph"):
        ranking = rank_labels(label_graph(Y))
    with clock("embedding"):
        means = train_gaussians(ranking, n_components, steps, seed)
    with clock("mapping"):
        ridge = Ridge(alpha=1.0, solver="lbfgs", positive=True)  # one L-BFGS-B for every column of the target
        codes = ridge.fit(X, Y @ means).predict(X)
    with clock("decoder"):
        neighbors = KNeighborsRegressor(min(n_neighbors, len(X)), weights="distance", metric="cosine").fit(codes, Y)
        return neighbors.predict(ridge.predict(X_new))  # gathers (n_new, n_neighbors, n_labels)


def label_graph(Y: NDArray[np.float32]) -> torch.Tensor:
    """Links between labels that share a row, one row after the other."""
    A = torch.zeros(Y.shape[1], Y.shape[1])
    for row in Y:
        labels = np.flatnonzero(row)
        for label in labels:
            A[label, labels] = 1.0
    return A


def rank_labels(A: torch.Tensor) -> torch.Tensor:
    """Every label's ranking of all labels, by the discounted random walk."""
    step = A / A.sum(dim=1, keepdim=True).clamp(min=1.0)
    walk, total = step, step.clone()
    for i in range(1, WALK_STEPS + 1):
        walk = walk @ step
        total += 0.5**i * walk
    return torch.argsort(total / total.sum(dim=1, keepdim=True), dim=1, descending=True)


def train_gaussians(ranking: torch.Tensor, n_components: int, steps: int, seed: int) -> NDArray[np.float32]:
    """Means of the labels' Gaussians after full-batch AdamW."""
    generator = torch.Generator().manual_seed(seed)
    mu = torch.normal(0.0, 0.1, (len(ranking), n_components), generator=generator).requires_grad_()
    variance = (0.5 * torch.rand(len(ranking), n_components, generator=generator)).requires_grad_()
    optimizer = torch.optim.AdamW([mu, variance], lr=1e-3)
    for _ in range(steps):
        optimizer.zero_grad()
        divergence = pairwise_kl(mu, variance)
        loss: Any = 0.0
        for anchor, order in enumerate(ranking):
            ranked = divergence[anchor, order]
            loss = loss + torch.relu(ranked[1:] + MARGIN - ranked[:-1]).sum()
        (loss / len(ranking)).backward()
        optimizer.step()
    return mu.detach().numpy()


def pairwise_kl(mu: torch.Tensor, variance: torch.Tensor) -> torch.Tensor:
    """KL(N_j ‖ N_i) at [i, j], through tensors of shape (n_labels, n_labels, n_components)."""
    ratio = variance[None, :, :] / variance[:, None, :]
    distance = (mu[:, None, :] - mu[None, :, :]) ** 2 / variance[:, None, :]
    return 0.5 * (ratio + distance - 1.0 - torch.log(ratio)).sum(dim=2)
