"""Graph isomorphism layers on the graph of labels that occur together."""

import math

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor, nn

from pysldl.baselines.torch_training.classifier import label_slices
from pysldl.baselines.torch_training.layers import mlp

__all__ = ["GraphLayer", "label_graph", "similarity_gap"]

BLOCK_LABELS = 256


class GraphLayer(nn.Module):
    """``E <- MLP((1 + eps) E + A E)``, plus E itself where the widths agree; eps is learned and starts at 0.

    The MLP has one hidden layer of half the output width; batch norm runs over the nodes. Its first layer is linear, so
    that it can come before the sum over neighbors: nothing of shape (n_nodes, n_in) is formed, which is as large as
    the graph where nodes have as many features as there are nodes.

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
        first, *rest = self.mlp
        images = nodes @ first.weight.T
        out = (1.0 + self.epsilon) * images + adjacency @ images + first.bias
        for layer in rest:
            out = layer(out)
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
    # Some rows at a time, and in place: there is no second matrix of all pairs.
    n_labels = Y.shape[1]
    label_problems = sparse.csr_array(Y.T)
    counts = np.maximum(np.asarray(Y.sum(axis=0)), 1.0).astype(np.float32)
    graph = np.empty((n_labels, n_labels), np.float32)
    blocks = label_slices(n_labels, BLOCK_LABELS)
    for block in blocks:
        graph[block] = (label_problems[block] @ Y).toarray()
        graph[block] /= counts[block, None]
    np.fill_diagonal(graph, 0.0)
    for block in blocks:
        there, back = graph[block, block.start :], graph[block.start :, block].T
        mean = (there + back) / 2.0
        there[:], back[:] = mean, mean
    return graph


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
