"""The network of CLIF: label embeddings from the label graph select the features of each label."""

import torch
from torch import Tensor, nn

from pysldl.baselines.clif.graph_layer import GraphLayer
from pysldl.baselines.torch_training.label_chunks import in_slices, of_labels
from pysldl.baselines.torch_training.layers import LabelwiseLinear, mlp

__all__ = ["WIDTH", "CLIFNetwork"]

WIDTH = 512


class CLIFNetwork(nn.Module):
    """Label encoder (two graph layers), feature encoder, one gate a label and feature, one classifier a label.

    Parameters
    ----------
    n_features, n_labels : int
    label_dim : int
        Width of the label embeddings.
    feature_layers : int
        Layers of the feature encoder.
    """

    nodes: Tensor
    adjacency: Tensor

    fixed = ("nodes", "adjacency")
    """Buffers that training does not change, so that no copy of them is kept with the best weights."""

    def __init__(self, n_features: int, n_labels: int, label_dim: int, feature_layers: int) -> None:
        super().__init__()
        self.register_buffer("nodes", torch.randn(n_labels, n_labels))
        self.register_buffer("adjacency", torch.zeros(n_labels, n_labels))
        self.graph = nn.ModuleList([GraphLayer(n_labels, label_dim), GraphLayer(label_dim, label_dim)])
        self.features = mlp([n_features, *[WIDTH] * feature_layers], activation="leaky_relu")
        self.gate = nn.Linear(label_dim, WIDTH)
        nn.init.kaiming_uniform_(self.gate.weight, nonlinearity="sigmoid")
        nn.init.zeros_(self.gate.bias)
        self.specific = mlp([WIDTH, WIDTH], activation="leaky_relu")
        self.classifier = LabelwiseLinear(n_labels, WIDTH)

    def embeddings(self) -> Tensor:
        """Label embeddings of shape (n_labels, label_dim)."""
        nodes = self.nodes
        for layer in self.graph:
            nodes = layer(nodes, self.adjacency)
        return nodes

    def gates(self, embeddings: Tensor) -> Tensor:
        """Shares of the features that each label sees, of shape (n_labels, 512)."""
        return torch.sigmoid(self.gate(embeddings))

    def logits_of(self, labels: slice, h: Tensor, gates: Tensor) -> Tensor:
        """Logits of a slice of the labels, of shape (batch, n_chunk).

        Parameters
        ----------
        labels : slice
        h : Tensor of shape (batch, 512)
            Encoded features.
        gates : Tensor of shape (n_labels, 512)
        """
        return self.classifier(self.specific(h * of_labels(gates, labels).unsqueeze(1)), labels)

    def scores(self, x: Tensor, chunk: int) -> Tensor:
        """Logits of shape (batch, n_labels), of ``chunk`` labels at a time."""
        h, gates = self.features(x), self.gates(self.embeddings())
        return in_slices(lambda labels: self.logits_of(labels, h, gates), len(x), len(gates), chunk)
