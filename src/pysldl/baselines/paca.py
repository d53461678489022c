"""PACA: for every label a density of its positive and one of its negative prototypes, whose ratio classifies.

A normalizing flow maps a point z of D numbers to a point u under a standard normal density. With the Jacobian J of
that map, ``log p_k(z) = log N(u; 0, I) + log|det J|``. Tensors that depend on labels carry them first: (n_chunk, batch,
D).
"""

import math
from dataclasses import KW_ONLY, dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, elu, linear, softplus

from pysldl._utils.constraints import Count, CountOrZero, NotNegative, Share
from pysldl._utils.light_estimator import inherit_parameters
from pysldl.baselines.torch_training.classifier import BatchSize
from pysldl.baselines.torch_training.dense_batches import DenseBatches
from pysldl.baselines.torch_training.label_chunks import in_slices, of_labels, sum_over_labels
from pysldl.baselines.torch_training.label_specific import LabelSpecificClassifier
from pysldl.baselines.torch_training.layers import mlp
from pysldl.baselines.torch_training.loop import Objective

FEW_ROWS, SMALL_BATCH, BATCH = 4000, 16, 128
CONDITIONER_WIDTH = 256
COMPONENTS = 16
DELTA = 1e-6
SMALLEST = 1e-30


@inherit_parameters
@dataclass(eq=False, repr=False)
class PACA(LabelSpecificClassifier):
    r"""PACA: probabilistic label-specific feature learning [1]_.

    Features and labels of a row are both encoded as Gaussians over D latent numbers, which should agree. A sample
    :math:`z_x` of the first is mapped, together with the features, to a point :math:`\tilde z = g([x, z_x])`. Two
    normalizing flows that know the label give its densities :math:`p^\pm_k(\tilde z)`. Training minimizes
    :math:`L_{rec} + \gamma L_{reg} + \alpha L_{cls}`:

    * :math:`L_{rec}`, the error of features decoded from :math:`\tilde z`;
    * :math:`L_{reg}`, the divergence of the feature code from the label code, and the cross-entropy of labels decoded
      from the label code;
    * :math:`L_{cls} = -\sum_k \log\mathrm{softmax}([\log p^-_k, \log p^+_k])_{y_k}`.

    All are sums over features or labels and means over rows. New rows are scored by
    :math:`\log p^+_k - \log p^-_k` at the mean code.

    ``clip``, ``validation_fraction``, ``patience`` and ``scoring`` are our choice.

    Parameters
    ----------
    alpha, gamma : float, default=1.0
        The SLDL paper's settings.
    latent_dim : int, default=50
        D. Neither the SLDL paper nor a published configuration gives it, nor anything below; if no more is said we
        take the defaults of DELA, which is by the same authors and from the same code.
    dropout : float, default=0.1
        In the two encoders.
    binary : bool or None, default=None
        Whether features are 0 or 1 and their decoding is judged by cross-entropy, not by squared error; None looks.
    patience_after : int, default=1000
        Steps before patience begins to count: the quality on validation rows rests where the label prior is for the
        first few hundred, which is tens of epochs on a small data set, before it rises.
    minmax : bool, default=True
        Before that, scale every column to [0, 1], with the ranges of the training rows. Decoded features lie in [0, 1];
        so should those that are given.
    batch_size : int or None, default=None
        Rows per step; at least 2. None takes 16 if there are fewer than 4,000 rows to train on, else DELA's 128: a
        pass takes as long, and of a small data set fewer of them do.
    half_precision : bool or "auto", default="auto"
        Whether training multiplies in bfloat16 what it has for every label. ``"auto"`` and True do so on a GPU only,
        since the time of a CPU goes elsewhere.

    References
    ----------
    .. [1] J.-Y. Hang, M.-L. Zhang, Y. Feng, X. Song. End-to-end probabilistic label-specific feature learning for
           multi-label classification. AAAI 2022.

    Examples
    --------
    >>> from pysldl.baselines import PACA
    >>> X, Y = [[1, 0], [0, 1], [1, 0], [0, 1]], [[1, 0], [0, 1], [1, 0], [0, 1]]
    >>> PACA(latent_dim=4, epochs=20, random_state=0).fit(X, Y).predict_topk(X, 1)[0].ravel()
    array([0, 1, 0, 1])
    """

    alpha: NotNegative = 1.0
    gamma: NotNegative = 1.0
    latent_dim: Count = 50
    dropout: Share = 0.1
    binary: bool | None = None
    patience_after: CountOrZero = 1000
    _: KW_ONLY
    epochs: int = 200
    batch_size: BatchSize | None = None  # type: ignore[assignment]
    weight_decay: float = 1e-4

    def _rows_a_step(self, n_rows: int) -> int:
        return self.batch_size or (SMALL_BATCH if n_rows < FEW_ROWS else BATCH)

    @property
    def _widest(self) -> int:  # type: ignore[override]
        return 3 * COMPONENTS * self.latent_dim

    @property
    def _half(self) -> bool:
        return self._where.type == "cuda" and self.half_precision is not False

    def _build(self, n_features: int, n_labels: int) -> nn.Module:
        return PACANetwork(n_features, n_labels, self.latent_dim, self.dropout)

    def _logits(self, network: Any, x: Tensor) -> Tensor:
        return network.scores(x, self._labels_at_once(x))

    def _objective(self, network: Any, train: DenseBatches) -> Objective:
        binary = _is_binary(train.X) if self.binary is None else self.binary
        flows = [*network.positive.parameters(), *network.negative.parameters()]
        half = self._half

        def loss(x: Tensor, y: Tensor) -> Tensor:
            of_features, of_labels = network.encode_features(x), network.encode_labels(y)
            points = network.place(x, _sample(*of_features))

            def misfit(labels: slice, points: Tensor) -> Tensor:
                # The softmax over two densities is the sigmoid of their log odds.
                log_odds = network.log_odds(labels, points)
                return binary_cross_entropy_with_logits(log_odds, y[:, labels], reduction="sum") / len(x)

            reconstruction = reconstruction_error(network.feature_decoder(points), x, binary)
            labels_again = network.label_decoder(_sample(*of_labels))
            agreement = gaussian_divergence(*of_features, *of_labels)
            agreement = agreement + binary_cross_entropy_with_logits(labels_again, y, reduction="sum") / len(x)
            classification = sum_over_labels(
                misfit, points, parameters=flows, n_labels=y.shape[1], chunk=self._labels_at_once(x), half=half
            )
            return reconstruction + self.gamma * agreement + self.alpha * classification

        return loss


class PACANetwork(nn.Module):
    """Encoders and decoders of features and labels, a map into the space of prototypes, and two flows."""

    def __init__(self, n_features: int, n_labels: int, latent_dim: int, dropout: float) -> None:
        super().__init__()
        self.n_labels = n_labels
        self.features = mlp([n_features, 256, 512, 256], dropout=dropout)
        self.feature_mean = nn.Linear(256, latent_dim)
        self.feature_log_variance = nn.Linear(256, latent_dim)
        self.labels = mlp([n_labels, 512, 256], dropout=dropout)
        self.label_mean = nn.Linear(256, latent_dim)
        self.label_log_variance = nn.Linear(256, latent_dim)
        self.label_decoder = nn.Sequential(mlp([latent_dim, 256, 512]), nn.Linear(512, n_labels))
        self.placement = mlp([n_features + latent_dim, 256, 256, latent_dim], linear_output=True)
        self.feature_decoder = mlp([latent_dim, 256, 512, 256, n_features], linear_output=True)
        self.positive = LabelFlow(n_labels, latent_dim)
        self.negative = LabelFlow(n_labels, latent_dim)

    def encode_features(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and log variance of a row's latent code given its features, each of shape (batch, D)."""
        h = self.features(x)
        return self.feature_mean(h), self.feature_log_variance(h)

    def encode_labels(self, y: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and log variance of a row's latent code given its labels, each of shape (batch, D)."""
        h = self.labels(y)
        return self.label_mean(h), self.label_log_variance(h)

    def place(self, x: Tensor, z: Tensor) -> Tensor:
        """Points among the prototypes, of shape (batch, D)."""
        return self.placement(torch.cat([x, z], dim=1))

    def log_odds(self, labels: slice, points: Tensor) -> Tensor:
        """``log p+_k - log p-_k`` of points of shape (batch, D) for a slice of the labels, (batch, n_chunk)."""
        return self.positive.log_density(points, labels) - self.negative.log_density(points, labels)

    def scores(self, x: Tensor, chunk: int) -> Tensor:
        """Log odds of all labels at the mean code, of shape (batch, n_labels), of ``chunk`` labels at a time."""
        points = self.place(x, self.encode_features(x)[0])
        return in_slices(lambda labels: self.log_odds(labels, points), len(x), self.n_labels, chunk)


def gaussian_divergence(mean: Tensor, log_variance: Tensor, other_mean: Tensor, other_log_variance: Tensor) -> Tensor:
    """Mean over rows of ``KL(N(mean, variance) || N(other_mean, other_variance))``; all of shape (batch, D)."""
    other_variance = other_log_variance.exp() + 1e-8
    spread = (log_variance.exp() + (mean - other_mean).square()) / other_variance
    return 0.5 * (other_log_variance - log_variance + spread - 1.0).sum(dim=1).mean()


def reconstruction_error(decoded: Tensor, x: Tensor, binary: bool) -> Tensor:
    """Compute the error of decoded features (logits) against ``x`` in [0, 1], (batch, n_features), mean over rows.

    It is the cross-entropy for ``binary`` features, else the squared error, summed over the features.
    """
    if binary:
        return binary_cross_entropy_with_logits(decoded, x, reduction="sum") / len(x)
    return (torch.sigmoid(decoded) - x).square().sum() / len(x)


class Mapped(NamedTuple):
    """Points of shape (n_chunk, batch, D), and log|det J| that broadcasts to (n_chunk, batch)."""

    points: Tensor
    log_det: Tensor


def sigmoidal_map(u: Tensor, slope: Tensor, shift: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    r"""Map the real line monotonically by a sum of sigmoids; returns the values and the logarithm of the slope.

    .. math:: u' = \mathrm{logit}(s), \qquad s = (1 - \delta) \sum_j w_j p_j + \delta / 2, \qquad
              p_j = \sigma(a_j u + b_j),

    with positive slopes :math:`a = \mathrm{softplus}(\alpha)` and weights :math:`w = \mathrm{softmax}(\omega)`. A small
    :math:`\delta` keeps the logit finite. ``u`` has the shape (...); ``slope`` (before the softplus), ``shift`` and
    ``weight`` (before the softmax) have the shape (..., n_components).
    """
    a, w = softplus(slope), weight.softmax(dim=-1)
    t = torch.addcmul(shift, a, u.unsqueeze(-1))
    p = torch.sigmoid(t)
    s = (1.0 - DELTA) * (w * p).sum(dim=-1) + DELTA / 2
    # sigmoid(-t) and not 1 - p, which is 0 in single precision from t = 17 on.
    rise = (w * a * p * torch.sigmoid(-t)).sum(dim=-1).clamp_min(SMALLEST)
    log_s, log_rest = s.log(), (1.0 - s).log()
    return log_s - log_rest, rise.log() + math.log1p(-DELTA) - log_s - log_rest


class Conditioner(nn.Module):
    """A masked autoencoder (MADE): what it says of dimension i follows from the label and the dimensions before i.

    One hidden layer of ELU units. Input i has the degree i, hidden units have the degrees ``j mod (D - 1) + 1`` in
    increasing order; a hidden unit sees inputs of at most its degree, and dimension i sees hidden units below its own.
    The label enters the hidden layer as a vector of its own, unmasked.
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
        hidden = torch.tensor(sorted(unit % max(dim - 1, 1) + 1 for unit in range(width)))
        outputs = inputs.repeat_interleave(self.n_outputs)
        self.register_buffer("input_mask", (inputs <= hidden[:, None]).float(), persistent=False)
        self.register_buffer("output_mask", (hidden < outputs[:, None]).float(), persistent=False)

    def forward(self, z: Tensor, labels: slice) -> Tensor:
        """Of shape (n_chunk, batch, D, n_outputs), for points of shape (batch, D)."""
        of_points = linear(z, self.hidden.weight * self.input_mask, self.hidden.bias)
        of_label = of_labels(self.label, labels) + self.label_bias
        units = elu(of_points + of_label.unsqueeze(1))
        out = linear(units, self.output.weight * self.output_mask, self.output.bias)
        return out.unflatten(2, (z.shape[1], self.n_outputs))


class SigmoidalFlow(nn.Module):
    """Deep sigmoidal flow: every dimension goes through a monotone network made of 16 sigmoids."""

    def __init__(self, n_labels: int, dim: int) -> None:
        super().__init__()
        self.conditioner = Conditioner(n_labels, dim)
        # Three layers and not one, since slices of its output would not lie together in memory.
        self.slope, self.shift, self.weight = (nn.Linear(self.conditioner.n_outputs, COMPONENTS) for _ in range(3))

    def forward(self, z: Tensor, labels: slice) -> Mapped:
        """Map points of shape (batch, D)."""
        shape = self.conditioner(z, labels)
        layers = (layer(shape).to(z.dtype) for layer in (self.slope, self.shift, self.weight))
        points, log_slopes = sigmoidal_map(z.expand(shape.shape[:-1]), *layers)
        return Mapped(points, log_slopes.sum(dim=-1))


class LabelVector(nn.Module):
    """``R(e_k) = L2(ReLU(L1 e_k)) + L3 e_k`` for the one-hot code of a label; near ``start`` for all at first."""

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
    """``u <- a_k u + b_k``, with positive scales; the identity for every label at first, but for a thousandth."""

    def __init__(self, n_labels: int, dim: int) -> None:
        super().__init__()
        self.scale = LabelVector(n_labels, dim, start=math.log(math.expm1(1.0)))
        self.shift = LabelVector(n_labels, dim, start=0.0)

    def forward(self, u: Tensor, labels: slice) -> Mapped:
        """Map points of shape (n_chunk, batch, D)."""
        scale = softplus(self.scale(labels)).clamp_min(1e-30)
        log_det = scale.log().sum(dim=-1, keepdim=True)
        return Mapped(u * scale.unsqueeze(1) + self.shift(labels).unsqueeze(1), log_det)


class LabelFlow(nn.Module):
    """Densities of a point, one for every label."""

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


def _sample(mean: Tensor, log_variance: Tensor) -> Tensor:
    return mean + torch.exp(0.5 * log_variance) * torch.randn_like(mean)


def _is_binary(X: Any) -> bool:
    values = X if isinstance(X, np.ndarray) else X.data
    return bool(np.isin(values, (0, 1)).all())
