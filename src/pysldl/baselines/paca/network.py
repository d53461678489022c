"""The network of PACA: latent rows, and for every label a density of its positives and one of its negatives."""

import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits

from pysldl.baselines.paca.flows import LabelFlow
from pysldl.baselines.torch_training.label_chunks import in_slices
from pysldl.baselines.torch_training.layers import mlp

__all__ = ["PACANetwork", "gaussian_divergence", "reconstruction_error"]


class PACANetwork(nn.Module):
    """Encoders and decoders of features and labels, a map into the space of prototypes, and two flows.

    Parameters
    ----------
    n_features, n_labels : int
    latent_dim : int
        D, the width of the latent space.
    dropout : float
        In the two encoders.
    """

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
    """Error of the decoded features, summed over features and averaged over rows.

    Parameters
    ----------
    decoded : Tensor of shape (batch, n_features)
        Logits.
    x : Tensor of shape (batch, n_features)
        In [0, 1].
    binary : bool
        Cross-entropy for features that are 0 or 1, squared error for others.
    """
    if binary:
        return binary_cross_entropy_with_logits(decoded, x, reduction="sum") / len(x)
    return (torch.sigmoid(decoded) - x).square().sum() / len(x)
