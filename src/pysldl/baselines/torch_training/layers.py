"""Layers that the networks of PACA, DELA and CLIF share."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Literal

import torch
from torch import Tensor, nn

from pysldl.baselines.torch_training.label_chunks import of_labels

SLOPE = 0.1

Activation = Literal["relu", "leaky_relu"]


def mlp(
    widths: Sequence[int],
    *,
    activation: Activation = "relu",
    batch_norm: bool = False,
    dropout: float = 0.0,
    linear_output: bool = False,
) -> nn.Sequential:
    """Stack dense layers of the given widths, each followed by batch norm, an activation and dropout if asked for.

    ``widths`` are those of the input, the hidden layers and the output. The leaky activation has the slope 0.1 below
    zero. ``linear_output`` leaves the last layer without activation and dropout.
    """
    layers: list[nn.Module] = []
    for position, (n_in, n_out) in enumerate(pairwise(widths), start=2):
        layers.append(dense_layer(n_in, n_out, activation))
        if batch_norm:
            layers.append(nn.BatchNorm1d(n_out))
        if position < len(widths) or not linear_output:
            layers.append(nn.ReLU() if activation == "relu" else nn.LeakyReLU(SLOPE))
            if dropout > 0:
                layers.append(nn.Dropout(dropout))
    return nn.Sequential(*layers)


def dense_layer(n_in: int, n_out: int, activation: Activation = "relu") -> nn.Linear:
    """A linear layer that starts with Kaiming-uniform weights for ``activation`` and biases from U(0, 0.1)."""
    layer = nn.Linear(n_in, n_out)
    nn.init.kaiming_uniform_(layer.weight, a=SLOPE, nonlinearity=activation)
    nn.init.uniform_(layer.bias, 0.0, 0.1)
    return layer


class LabelwiseLinear(nn.Module):
    """One linear classifier for every label, each on features of its own: ``s_ik = <w_k, h_ik> + b_k``."""

    def __init__(self, n_labels: int, width: int) -> None:
        super().__init__()
        bound = width**-0.5
        self.weight = nn.Parameter(torch.empty(n_labels, width).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.empty(n_labels).uniform_(-bound, bound))

    def forward(self, h: Tensor, labels: slice) -> Tensor:
        """Scores of shape (batch, n_chunk) of features of shape (n_chunk, batch, width), for a slice of the labels."""
        # A batched product over the leading label axis; with the batch first, torch would copy h to get there.
        scores = torch.matmul(h, of_labels(self.weight, labels).unsqueeze(2)).squeeze(2)
        return scores.T + of_labels(self.bias, labels)

    def same_features(self, h: Tensor) -> Tensor:
        """Scores of shape (batch, n_labels) if all labels see the same features, of shape (batch, width)."""
        return nn.functional.linear(h, self.weight, self.bias)
