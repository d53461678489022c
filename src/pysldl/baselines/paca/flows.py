"""Normalizing flows whose density depends on a label: a monotone network, then a scale and a shift.

A flow maps a point z of D numbers to a point u under a standard normal density. With the Jacobian J of that map,
``log p_k(z) = log N(u; 0, I) + log|det J|``. All label-dependent tensors carry the labels first: (n_chunk, batch, D).
"""

import math
from bisect import bisect_left
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from pysldl.backend.dispatch import has_numba
from pysldl.baselines.paca.sigmoidal import packed_map, sigmoidal_map
from pysldl.baselines.torch_training.label_chunks import of_labels

__all__ = ["AffineFlow", "Conditioner", "LabelFlow", "SigmoidalFlow"]

CONDITIONER_WIDTH = 256
COMPONENTS = 16
STEPS = 5  # of the triangle that is left of a masked matrix, in which products leave out what is zero


class Mapped(NamedTuple):
    """Points of shape (n_chunk, batch, D), and log|det J| that broadcasts to (n_chunk, batch)."""

    points: Tensor
    log_det: Tensor


class Conditioner(nn.Module):
    """A masked autoencoder (MADE): what it says of dimension i follows from the label and the dimensions before i.

    One hidden layer of ELU units. Input i has the degree i, hidden units have the degrees ``j mod (D - 1) + 1`` in
    increasing order; a hidden unit sees inputs of at most its degree, and dimension i sees hidden units below its own.
    The label enters the hidden layer as a vector of its own, unmasked.

    Parameters
    ----------
    n_labels, dim : int
    """

    input_mask: Tensor
    output_mask: Tensor

    def __init__(self, n_labels: int, dim: int) -> None:
        super().__init__()
        # The published width leaves no output for a dimension beyond 256 of them.
        width = CONDITIONER_WIDTH if dim <= CONDITIONER_WIDTH else 4 * dim
        self.n_outputs = 3 * (width // dim)
        self.hidden = nn.Linear(dim, width)
        bound = n_labels**-0.5
        self.label = nn.Parameter(torch.empty(n_labels, width).uniform_(-bound, bound))
        self.label_bias = nn.Parameter(torch.zeros(width))
        self.output = nn.Linear(width, dim * self.n_outputs)
        inputs = torch.arange(1, dim + 1)
        degrees = sorted(unit % max(dim - 1, 1) + 1 for unit in range(width))
        hidden = torch.tensor(degrees)
        outputs = inputs.repeat_interleave(self.n_outputs)
        ends = sorted({-(-dim * step // STEPS) for step in range(1, STEPS + 1)})
        # So many dimensions take from so many hidden units alone.
        self.reach = [(end, bisect_left(degrees, end)) for end in ends]
        self.register_buffer("input_mask", (inputs <= hidden[:, None]).float(), persistent=False)
        self.register_buffer("output_mask", (hidden < outputs[:, None]).float(), persistent=False)

    def forward(self, z: Tensor, labels: slice) -> Tensor:
        """Of shape (n_chunk, batch, D, n_outputs), for points of shape (batch, D)."""
        out = functional.linear(self.units(z, labels), self.masked_output(), self.output.bias)
        return out.unflatten(2, (z.shape[1], self.n_outputs))

    def units(self, z: Tensor, labels: slice) -> Tensor:
        """The hidden layer, of shape (n_chunk, batch, width)."""
        of_points, of_label = self.halves(z, labels)
        return functional.elu(of_points + of_label.unsqueeze(1))

    def halves(self, z: Tensor, labels: slice) -> tuple[Tensor, Tensor]:
        """What points, of shape (batch, width), and labels, (n_chunk, width), give to the hidden layer."""
        of_points = functional.linear(z, self.hidden.weight * self.input_mask, self.hidden.bias)
        return of_points, of_labels(self.label, labels) + self.label_bias

    def masked_output(self) -> Tensor:
        """Weight of the output layer, of shape (D * n_outputs, width)."""
        return self.output.weight * self.output_mask

    def followed_by(self, weight: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
        """Weight and bias of the output layer and, after it, one linear layer for each dimension: as one layer.

        Parameters
        ----------
        weight : Tensor of shape (n_more, n_outputs)
        bias : Tensor of shape (n_more,)

        Returns
        -------
        weight, bias : Tensor of shape (D * n_more, width) and (D * n_more,)
        """
        own = self.masked_output().unflatten(0, (-1, self.n_outputs))
        return torch.matmul(weight, own).flatten(0, 1), self.bias_after(weight, bias).flatten()

    def bias_after(self, weight: Tensor, bias: Tensor) -> Tensor:
        """The bias of both layers, of shape (D, n_more)."""
        return self.output.bias.unflatten(0, (-1, self.n_outputs)) @ weight.T + bias


class SigmoidalFlow(nn.Module):
    """Deep sigmoidal flow: every dimension goes through a monotone network made of 16 sigmoids.

    Parameters
    ----------
    n_labels, dim : int
    """

    def __init__(self, n_labels: int, dim: int) -> None:
        super().__init__()
        self.conditioner = Conditioner(n_labels, dim)
        # Three layers and not one, since slices of its output would not lie together in memory.
        self.slope, self.shift, self.weight = (nn.Linear(self.conditioner.n_outputs, COMPONENTS) for _ in range(3))

    def forward(self, z: Tensor, labels: slice) -> Mapped:
        """Map points of shape (batch, D)."""
        if z.is_cuda:
            points, log_slopes = self._in_one_product(z, labels)
        elif z.dtype == torch.float32 and has_numba():
            points, log_slopes = self._in_one_function(z, labels)
        else:
            points, log_slopes = self._in_two_products(z, labels)
        return Mapped(points, log_slopes.sum(dim=-1))

    def _last_layer(self) -> tuple[Tensor, Tensor]:
        """Weight and bias of the three layers as one."""
        layers = (self.slope, self.shift, self.weight)
        return torch.cat([layer.weight for layer in layers]), torch.cat([layer.bias for layer in layers])

    def _in_two_products(self, z: Tensor, labels: slice) -> tuple[Tensor, Tensor]:
        shape = self.conditioner(z, labels)
        return sigmoidal_map(z.expand(shape.shape[:-1]), self.slope(shape), self.shift(shape), self.weight(shape))

    def _in_one_function(self, z: Tensor, labels: slice) -> tuple[Tensor, Tensor]:
        """The same on a CPU, compiled."""
        from pysldl.baselines.paca.flow_cpu import bend

        conditioner, (last, bias) = self.conditioner, self._last_layer()
        halves = conditioner.halves(z, labels)
        offsets = conditioner.bias_after(last, bias)
        return bend(z, *halves, conditioner.masked_output(), conditioner.reach, last, offsets)

    def _in_one_product(self, z: Tensor, labels: slice) -> tuple[Tensor, Tensor]:
        """The same. Three times the arithmetic, but none of it in the thin products that a GPU is slow at."""
        with torch.autocast(z.device.type, enabled=False):
            joined = self.conditioner.followed_by(*self._last_layer())
        shape = functional.linear(self.conditioner.units(z, labels), *joined).unflatten(2, (z.shape[1], -1))
        return packed_map(z, shape)


class LabelVector(nn.Module):
    """``R(e_k) = L2(ReLU(L1 e_k)) + L3 e_k`` for the one-hot code of a label, near ``start`` for every label at first.

    Parameters
    ----------
    n_labels, dim : int
    start : float
    """

    def __init__(self, n_labels: int, dim: int, start: float) -> None:
        super().__init__()
        bound = n_labels**-0.5
        self.hidden = nn.Parameter(torch.empty(n_labels, dim).uniform_(-bound, bound))
        self.hidden_bias = nn.Parameter(torch.empty(dim).uniform_(-bound, bound))
        self.output = nn.Linear(dim, dim)
        nn.init.uniform_(self.output.weight, -1e-3, 1e-3)
        nn.init.constant_(self.output.bias, start / 2)
        self.direct = nn.Parameter(torch.empty(n_labels, dim).uniform_(-1e-3, 1e-3))
        self.direct_bias = nn.Parameter(torch.full((dim,), start / 2))

    def forward(self, labels: slice) -> Tensor:
        """Of shape (n_chunk, dim)."""
        hidden = torch.relu(of_labels(self.hidden, labels) + self.hidden_bias)
        return self.output(hidden) + of_labels(self.direct, labels) + self.direct_bias


class AffineFlow(nn.Module):
    """``u <- a_k u + b_k``, with positive scales; the identity for every label at first, but for a thousandth.

    Parameters
    ----------
    n_labels, dim : int
    """

    def __init__(self, n_labels: int, dim: int) -> None:
        super().__init__()
        self.scale = LabelVector(n_labels, dim, start=math.log(math.expm1(1.0)))
        self.shift = LabelVector(n_labels, dim, start=0.0)

    def forward(self, u: Tensor, labels: slice) -> Mapped:
        """Map points of shape (n_chunk, batch, D)."""
        scale = functional.softplus(self.scale(labels)).clamp_min(1e-30)
        log_det = scale.log().sum(dim=-1, keepdim=True)
        return Mapped(u * scale.unsqueeze(1) + self.shift(labels).unsqueeze(1), log_det)


class LabelFlow(nn.Module):
    """Densities of a point, one for every label.

    Parameters
    ----------
    n_labels, dim : int
    """

    def __init__(self, n_labels: int, dim: int) -> None:
        super().__init__()
        self.bend = SigmoidalFlow(n_labels, dim)
        self.place = AffineFlow(n_labels, dim)

    def forward(self, z: Tensor, labels: slice) -> Mapped:
        """Map points of shape (batch, D) to where their density is standard normal."""
        bent = self.bend(z, labels)
        placed = self.place(bent.points, labels)
        return Mapped(placed.points, bent.log_det + placed.log_det)

    def log_density(self, z: Tensor, labels: slice) -> Tensor:
        """Of shape (batch, n_chunk), for points of shape (batch, D) and a slice of the labels."""
        u, log_det = self(z, labels)
        normal = -0.5 * (u.square().sum(dim=-1) + z.shape[1] * math.log(2.0 * math.pi))
        return (normal + log_det).T
