"""DELA: label-specific features by learning which latent features do not matter to a label."""

from dataclasses import KW_ONLY, dataclass
from typing import Annotated, Any

import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits

from pysldl._utils.constraints import Count, NotNegative, Positive, Share, between
from pysldl._utils.light_estimator import inherit_parameters
from pysldl.baselines.torch_training.dense_batches import DenseBatches
from pysldl.baselines.torch_training.label_chunks import narrow, of_labels, sum_over_labels
from pysldl.baselines.torch_training.label_specific import LabelSpecificClassifier
from pysldl.baselines.torch_training.layers import LabelwiseLinear, dense_layer, mlp
from pysldl.baselines.torch_training.loop import Objective

HIDDEN = 256
WIDTH = 512


@inherit_parameters
@dataclass(eq=False, repr=False)
class DELA(LabelSpecificClassifier):
    r"""DELA: dual perspective of label-specific feature learning [1]_.

    An encoder gives every row a Gaussian :math:`N(z_i, \mathrm{diag}\,\sigma_i^2)` over D latent features. Every label
    k has random gates :math:`s_k` on them: 1 where noise may be let in, because the feature does not matter to k, and
    ``off_noise`` elsewhere. A decoder and a linear classifier a label read :math:`[x_i, z_i + s_k \odot \sigma_i \odot
    \epsilon_i]`. With c labels and n rows in a batch, training minimizes

    .. math::
        \frac{1}{n}\sum_{i,k} \mathrm{BCE}_{ik} + \beta\,\frac{1}{nc}\sum_{i,k}
        \mathrm{KL}\big(N(z_i, \mathrm{diag}(\sigma_i^2 s_k^2)) \,\|\, N(0, I)\big).

    New rows are scored without noise, by logits. Training takes time in proportion to rows times labels; scoring
    does not.

    ``clip``, ``validation_fraction`` and ``scoring`` are our choice. The authors use ``decay_every`` and ``warmup`` on
    some data sets.

    Parameters
    ----------
    beta : float, default=1.0
        The SLDL paper's setting, and the default of the authors' code. The authors choose less (0.0001 to 0.1) on most
        of their own data sets, where 1 regularizes more than is good.
    latent_dim : int, default=50
        D. Like everything below not given by the SLDL paper; if no more is said the default of the authors' code.
    temperature : float, default=2/3
        Of the relaxed gate samples.
    off_noise : float, default=0.5
        Share of the noise that remains where a gate is off; positive.
    dropout : float, default=0.0
        In the encoder.
    gate_rate : float, default=1.0
        Learning rate of the gates, relative to the rest.
    minmax : bool, default=True
        Before that, scale every column to [0, 1], with the ranges of the training rows. The authors' code takes the
        ranges of all rows.
    patience : int or None, default=15
        Stop when the quality on the validation rows has not risen for so many epochs. Our choice; the authors' code
        runs all epochs (None) and keeps the best.

    References
    ----------
    .. [1] J.-Y. Hang, M.-L. Zhang. Dual perspective of label-specific feature learning for multi-label classification.
           ICML 2022.

    Examples
    --------
    >>> from pysldl.baselines import DELA
    >>> X, Y = [[1, 0], [0, 1], [1, 0], [0, 1]], [[1, 0], [0, 1], [1, 0], [0, 1]]
    >>> DELA(epochs=10, random_state=0).fit(X, Y).predict_topk(X, 1)[0].ravel()
    array([0, 1, 0, 1])
    """

    beta: NotNegative = 1.0
    latent_dim: Count = 50
    temperature: Positive = 2 / 3
    off_noise: Annotated[float, between(0, 1, "right")] = 0.5
    dropout: Share = 0.0
    gate_rate: Positive = 1.0
    _: KW_ONLY
    epochs: int = 200
    weight_decay: float = 1e-4

    def _build(self, n_features: int, n_labels: int) -> nn.Module:
        return DELANetwork(n_features, n_labels, self.latent_dim, self.dropout)

    def _parameter_groups(self, network: Any) -> list[dict[str, Any]]:
        gates = [network.gates, *network.gate_map.parameters()]
        known = {id(parameter) for parameter in gates}
        others = [parameter for parameter in network.parameters() if id(parameter) not in known]
        return [{"params": others}, {"params": gates, "lr": self.gate_rate * self.learning_rate}]

    def _objective(self, network: Any, train: DenseBatches) -> Objective:
        decoding = [
            network.decoder_input.weight,
            *network.decoder_output.parameters(),
            *network.classifier.parameters(),
        ]
        half = self._half

        def loss(x: Tensor, y: Tensor) -> Tensor:
            z, log_variance = network.encode(x)
            gates = gate_sample(network.gate_logits(), self.temperature, self.off_noise)
            noise = torch.exp(0.5 * log_variance) * torch.randn_like(z)

            def misfit(labels: slice, base: Tensor, noise: Tensor, gates: Tensor) -> Tensor:
                logits = network.noisy_logits(labels, base, noise, gates)
                return binary_cross_entropy_with_logits(logits, y[:, labels], reduction="sum") / len(x)

            misfits = sum_over_labels(
                misfit,
                narrow(network.decoder_base(x, z), half),
                narrow(noise, half),
                narrow(gates, half),
                parameters=decoding,
                n_labels=y.shape[1],
                chunk=self._labels_at_once(x),
                half=half,
            )
            return misfits + self.beta * noise_divergence(z, log_variance, gates)

        return loss


class DELANetwork(nn.Module):
    """Encoder, noise gates of every label, a decoder that all labels share, and a classifier for each."""

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
        ``base`` is of shape (batch, 256), ``noise`` (batch, D) and ``gates`` (n_labels, D).
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

    The relaxation is the concrete distribution of that temperature, over ``logits`` of shape (n_labels, D).
    """
    tiny = torch.finfo(logits.dtype).eps
    uniform = torch.rand_like(logits).clamp(tiny, 1.0 - tiny)
    relaxed = torch.sigmoid((logits + uniform.logit()) / temperature)
    gates = (relaxed > 0.5).to(logits.dtype).clamp_min(off_noise)
    return gates + (relaxed - relaxed.detach())


def noise_divergence(z: Tensor, log_variance: Tensor, gates: Tensor) -> Tensor:
    """Mean over rows and labels of ``KL(N(z_i, diag(sigma_i^2 s_k^2)) || N(0, I))``.

    The mean of the products of a row's and a label's part is the product of their means, so that nothing of shape
    (batch, n_labels, D) is formed from rows of shape (batch, D) and gates of shape (n_labels, D).
    """
    of_rows = (z.square() - log_variance - 1.0).mean(dim=0)
    of_labels = -2.0 * torch.log(gates + 1e-6).mean(dim=0)
    of_both = log_variance.exp().mean(dim=0) * gates.square().mean(dim=0)
    return 0.5 * (of_rows + of_labels + of_both).sum()
