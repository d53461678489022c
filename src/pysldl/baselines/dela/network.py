"""The network of DELA: which latent features a label may ignore is learned by drowning them in noise."""

import torch
from torch import Tensor, nn

from pysldl.baselines.torch_training.label_chunks import of_labels
from pysldl.baselines.torch_training.layers import LabelwiseLinear, dense_layer, mlp

__all__ = ["DELANetwork", "gate_sample", "noise_divergence"]

HIDDEN = 256
WIDTH = 512


class DELANetwork(nn.Module):
    """Encoder, noise gates of every label, a decoder that all labels share, and a classifier for each.

    Parameters
    ----------
    n_features, n_labels : int
    latent_dim : int
        D, the width of the latent features.
    dropout : float
        In the encoder.
    """

    def __init__(self, n_features: int, n_labels: int, latent_dim: int, dropout: float) -> None:
        super().__init__()
        self.encoder = mlp([n_features, HIDDEN, WIDTH, HIDDEN], dropout=dropout)
        self.mean = nn.Linear(HIDDEN, latent_dim)
        self.log_variance = nn.Linear(HIDDEN, latent_dim)
        self.gates = nn.Parameter(torch.empty(n_labels, latent_dim).uniform_(-10.0, 10.0))
        self.gate_map = nn.Linear(latent_dim, latent_dim)
        nn.init.constant_(self.gate_map.bias, 2.0)
        self.decoder_input = dense_layer(n_features + latent_dim, HIDDEN)
        self.decoder_output = mlp([HIDDEN, WIDTH])
        self.classifier = LabelwiseLinear(n_labels, WIDTH)

    def encode(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and log variance of the latent features, each of shape (batch, D)."""
        h = self.encoder(x)
        return self.mean(h), self.log_variance(h)

    def gate_logits(self) -> Tensor:
        """Of shape (n_labels, D); high where a label wants the noise on."""
        return self.gate_map(self.gates)

    def decoder_base(self, x: Tensor, z: Tensor) -> Tensor:
        """What all labels share of the decoder's first layer, of shape (batch, 256)."""
        return self.decoder_input(torch.cat([x, z], dim=1))

    def noisy_logits(self, labels: slice, base: Tensor, noise: Tensor, gates: Tensor) -> Tensor:
        """Logits of a slice of the labels, of shape (batch, n_chunk), with the noise each of them lets in.

        The decoder sees ``[x_i, z_i + s_k * noise_i]``. Its first layer is linear, so its output is ``base`` plus the
        image of the noise: features and latent mean are multiplied once a row, not once a row and label.

        Parameters
        ----------
        labels : slice
        base : Tensor of shape (batch, 256)
        noise : Tensor of shape (batch, D)
        gates : Tensor of shape (n_labels, D)
        """
        of_latent = self.decoder_input.weight[:, -noise.shape[1] :]
        gated = of_labels(gates, labels).unsqueeze(2) * of_latent.T
        hidden = torch.relu(base + torch.matmul(noise, gated))
        return self.classifier(self.decoder_output(hidden), labels)

    def forward(self, x: Tensor) -> Tensor:
        """Logits of shape (batch, n_labels), without noise: all labels then see the same features."""
        z, _ = self.encode(x)
        hidden = torch.relu(self.decoder_base(x, z))
        return self.classifier.same_features(self.decoder_output(hidden))


def gate_sample(logits: Tensor, temperature: float, off_noise: float) -> Tensor:
    """Sample gates that are 1, or ``off_noise`` where they are off, with the gradient of a relaxed sample.

    Parameters
    ----------
    logits : Tensor of shape (n_labels, D)
    temperature : float
        Of the relaxation (the concrete distribution).
    off_noise : float
        Share of the noise that remains where a gate is off.
    """
    tiny = torch.finfo(logits.dtype).eps
    uniform = torch.rand_like(logits).clamp(tiny, 1.0 - tiny)
    relaxed = torch.sigmoid((logits + uniform.logit()) / temperature)
    gates = (relaxed > 0.5).to(logits.dtype).clamp_min(off_noise)
    return gates + (relaxed - relaxed.detach())


def noise_divergence(z: Tensor, log_variance: Tensor, gates: Tensor) -> Tensor:
    """Mean over rows and labels of ``KL(N(z_i, diag(sigma_i^2 s_k^2)) || N(0, I))``.

    The mean of the products of a row's and a label's part is the product of their means, so that nothing of shape
    (batch, n_labels, D) is formed.

    Parameters
    ----------
    z, log_variance : Tensor of shape (batch, D)
    gates : Tensor of shape (n_labels, D)
    """
    of_rows = (z.square() - log_variance - 1.0).mean(dim=0)
    of_labels = -2.0 * torch.log(gates + 1e-6).mean(dim=0)
    of_both = log_variance.exp().mean(dim=0) * gates.square().mean(dim=0)
    return 0.5 * (of_rows + of_labels + of_both).sum()
