"""Graph isomorphism layers on the graph of labels that occur together."""

import math

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor, nn

from pysldl.baselines.blocks import mlp

__all__ = ["GraphLayer", "label_graph", "similarity_gap"]


class GraphLayer(nn.Module):
    """``E <- MLP((1 + eps) E + A E)``, plus E itself where the widths agree; eps is learned and starts at 0.

    The MLP has one hidden layer of half the output width; batch norm runs over the nodes.

    Parameters
    ----------
    n_in, n_out : int
        Widths of a node before and after.
    """

    def __init__(self, n_in: int, n_out: int) -> None:
        super().__init__()
        self.epsilon = nn.Parameter(torch.zeros(1))
        self.mlp = mlp([n_in, math.ceil(n_out / 2), n_out], activation="leaky_relu", batch_norm=True)
        self.residual = n_in == n_out

    def forward(self, nodes: Tensor, adjacency: Tensor) -> Tensor:
        """Nodes of shape (n_nodes, n_out); ``nodes`` is (n_nodes, n_in), ``adjacency`` (n_nodes, n_nodes)."""
        out = self.mlp((1.0 + self.epsilon) * nodes + adjacency @ nodes)
        return out + nodes if self.residual else out


def label_graph(Y: sparse.csr_array) -> NDArray[np.float32]:
    """Symmetric weights ``A = (P + P^T) / 2`` with ``P_kl = P(label l | label k)`` in the rows of Y, and diagonal 0.

    A label without rows has no edges.

    Parameters
    ----------
    Y : csr_array of shape (n_rows, n_labels)

    Returns
    -------
    ndarray of shape (n_labels, n_labels)
    """
    together = (Y.T @ Y).toarray().astype(np.float32)
    counts = together.diagonal().copy()
    np.fill_diagonal(together, 0.0)
    conditional = together / np.maximum(counts, 1.0)[:, None]
    return (conditional + conditional.T) / 2.0


def similarity_gap(embeddings: Tensor, adjacency: Tensor) -> Tensor:
    """Mean squared difference between the cosines of all pairs of embeddings and ``A + I``.

    With unit embeddings D and T = A + I, ``|T - D D^T|^2 = |T|^2 - 2 <D, T D> + |D^T D|^2``: no matrix of all pairs is
    formed beside the graph itself.

    Parameters
    ----------
    embeddings : Tensor of shape (n_labels, width)
    adjacency : Tensor of shape (n_labels, n_labels)
        With diagonal 0.
    """
    n_labels = len(adjacency)
    directions = embeddings / (embeddings.norm(dim=1, keepdim=True) + 1e-6)
    of_graph = torch.linalg.vector_norm(adjacency).square() + n_labels
    of_both = (directions * (adjacency @ directions + directions)).sum()
    of_cosines = (directions.T @ directions).square().sum()
    return (of_graph - 2.0 * of_both + of_cosines) / n_labels**2
