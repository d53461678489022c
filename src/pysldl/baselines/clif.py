"""CLIF: label embeddings, learned on the graph of labels that occur together, select the features of each label."""

import math
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits

from pysldl._utils.constraints import Count, NotNegative
from pysldl._utils.light_estimator import inherit_parameters
from pysldl.baselines.torch_training.dense_batches import DenseBatches
from pysldl.baselines.torch_training.label_chunks import in_slices, narrow, of_labels, sum_over_labels
from pysldl.baselines.torch_training.label_specific import LabelSpecificClassifier
from pysldl.baselines.torch_training.layers import LabelwiseLinear, mlp
from pysldl.baselines.torch_training.loop import Objective
from pysldl.embedding.label_graph import cooccurrence
from pysldl.exceptions import DataError

WIDTH = 512


@inherit_parameters
@dataclass(eq=False, repr=False)
class CLIF(LabelSpecificClassifier):
    r"""CLIF: collaborative learning of label semantics and label-specific features [1]_.

    Two graph isomorphism layers turn fixed random node features into embeddings :math:`E_k`, over the graph
    :math:`A = (P + P^\top)/2` with :math:`P_{kl} = P(l \mid k)`. Encoded features :math:`h_i` are multiplied by the
    gates :math:`\sigma(U E_k)`, go through one layer that all labels share, and a linear classifier a label. Training
    minimizes

    .. math::
        \mathrm{mean}_{i,k}\,\mathrm{BCE}_{ik}
        + \lambda\,\mathrm{mean}_{k,l}\,\big((A + I)_{kl} - \cos(E_k, E_l)\big)^2 .

    New rows are scored by their logits. The graph takes memory in proportion to the square of the number of labels.

    The SLDL paper gives ``epochs``. ``batch_size``, ``learning_rate``, ``weight_decay`` and ``optimizer`` are those of
    the authors' code, which chooses the number of epochs on the test rows of the first fold; this library does not
    offer that: ``clip``, ``validation_fraction``, ``patience`` and ``scoring`` are our choice.

    Parameters
    ----------
    semantics_weight : float, default=0.01
        :math:`\lambda`; the SLDL paper's setting.
    label_dim : int, default=256
        Width of the label embeddings. Not given by the SLDL paper; the default of the authors' code, who choose between
        64 and 256 by data set.
    feature_layers : int, default=1
        Layers of the feature encoder; the same.

    References
    ----------
    .. [1] J.-Y. Hang, M.-L. Zhang. Collaborative learning of label semantics and deep label-specific features for
           multi-label classification. IEEE TPAMI, 2021.

    Examples
    --------
    >>> from pysldl.baselines import CLIF
    >>> X, Y = [[1, 0], [0, 1], [1, 0], [0, 1]], [[1, 0], [0, 1], [1, 0], [0, 1]]
    >>> CLIF(label_dim=8, epochs=5, random_state=0).fit(X, Y).predict_topk(X, 1)[0].ravel()
    array([0, 1, 0, 1])
    """

    semantics_weight: NotNegative = 0.01
    label_dim: Count = 256
    feature_layers: Count = 1
    _: KW_ONLY
    weight_decay: float = 1e-5

    def _build(self, n_features: int, n_labels: int) -> nn.Module:
        if n_labels < 2:
            raise DataError("CLIF learns from a graph of labels, whose batch norm needs 2 of them, but Y has only 1.")
        return CLIFNetwork(n_features, n_labels, self.label_dim, self.feature_layers)

    def _logits(self, network: Any, x: Tensor) -> Tensor:
        return network.scores(x, self._labels_at_once(x))

    def _objective(self, network: Any, train: DenseBatches) -> Objective:
        network.adjacency.copy_(torch.from_numpy(conditional_graph(train.Y)))
        reading = [*network.specific.parameters(), *network.classifier.parameters()]
        half = self._half

        def loss(x: Tensor, y: Tensor) -> Tensor:
            embeddings = network.embeddings()

            def misfit(labels: slice, h: Tensor, gates: Tensor) -> Tensor:
                logits = network.logits_of(labels, h, gates)
                return binary_cross_entropy_with_logits(logits, y[:, labels], reduction="sum") / y.numel()

            misfits = sum_over_labels(
                misfit,
                narrow(network.features(x), half),
                narrow(network.gates(embeddings), half),
                parameters=reading,
                n_labels=y.shape[1],
                chunk=self._labels_at_once(x),
                half=half,
            )
            return misfits + self.semantics_weight * graph_similarity_loss(embeddings, network.adjacency)

        return loss


class CLIFNetwork(nn.Module):
    """Label encoder (two graph layers), feature encoder, one gate per label and feature, one classifier per label."""

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
        """Logits of a slice of the labels, (batch, n_chunk), of encoded features h (batch, 512) and all gates."""
        return self.classifier(self.specific(h * of_labels(gates, labels).unsqueeze(1)), labels)

    def scores(self, x: Tensor, chunk: int) -> Tensor:
        """Logits of shape (batch, n_labels), of ``chunk`` labels at a time."""
        h, gates = self.features(x), self.gates(self.embeddings())
        return in_slices(lambda labels: self.logits_of(labels, h, gates), len(x), len(gates), chunk)


class GraphLayer(nn.Module):
    """``E <- MLP((1 + eps) E + A E)``, plus E itself if the widths agree; eps is learned and starts at 0.

    The MLP has one hidden layer of half the output width; batch norm runs over the nodes. Its first layer is linear, so
    that it can come before the sum over neighbors: nothing of shape (n_nodes, n_in) is formed, which is as large as
    the graph if nodes have as many features as there are nodes. ``n_in`` and ``n_out`` are the widths of a node.
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


def conditional_graph(Y: sparse.csr_array) -> NDArray[np.float32]:
    """Weights ``A = (P + P^T) / 2`` with ``P_kl = P(label l | label k)`` in the rows of Y, and diagonal 0.

    Of shape (n_labels, n_labels); a label without rows has no edges.
    """
    graph: NDArray[np.float32] = cooccurrence(Y, "count").toarray()
    graph /= np.maximum(graph.diagonal(), 1.0)[:, None]
    np.fill_diagonal(graph, 0.0)
    graph += graph.T
    graph /= 2.0
    return graph


def graph_similarity_loss(embeddings: Tensor, adjacency: Tensor) -> Tensor:
    """Mean squared difference between the cosines of all pairs of embeddings and ``A + I``.

    With unit embeddings D and T = A + I, ``|T - D D^T|^2 = |T|^2 - 2 <D, T D> + |D^T D|^2``: no matrix of all pairs is
    formed beside the graph itself, of shape (n_labels, n_labels) and with diagonal 0.
    """
    n_labels = len(adjacency)
    directions = embeddings / (embeddings.norm(dim=1, keepdim=True) + 1e-6)
    of_graph = torch.linalg.vector_norm(adjacency).square() + n_labels
    of_both = (directions * (adjacency @ directions + directions)).sum()
    of_cosines = (directions.T @ directions).square().sum()
    return (of_graph - 2.0 * of_both + of_cosines) / n_labels**2
