"""DELA: dual perspective of label-specific feature learning (Hang and Zhang, ICML 2022)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from pysldl._utils.progress import ProgressCallback
from pysldl.baselines.torch_training.classifier import Clip, OptimizerName, Scaling
from pysldl.baselines.torch_training.dense_batches import DenseBatches
from pysldl.baselines.torch_training.label_specific import LabelSpecificClassifier
from pysldl.baselines.torch_training.loop import Objective
from pysldl.exceptions import DataError

if TYPE_CHECKING:
    from torch import Tensor, nn

__all__ = ["DELA"]


class DELA(LabelSpecificClassifier):
    r"""DELA: label-specific features by learning which latent features do not matter to a label.

    An encoder gives every row a Gaussian :math:`N(z_i, \mathrm{diag}\,\sigma_i^2)` over D latent features. Every label
    k has random gates :math:`s_k` on them: 1 where noise may be let in, because the feature does not matter to k, and
    ``off_noise`` elsewhere. A decoder and a linear classifier a label read :math:`[x_i, z_i + s_k \odot \sigma_i \odot
    \epsilon_i]`. With c labels and n rows in a batch, training minimizes

    .. math::
        \frac{1}{n}\sum_{i,k} \mathrm{BCE}_{ik} + \beta\,\frac{1}{nc}\sum_{i,k}
        \mathrm{KL}\big(N(z_i, \mathrm{diag}(\sigma_i^2 s_k^2)) \,\|\, N(0, I)\big).

    New rows are scored without noise, by logits. Training takes time in proportion to rows times labels; scoring
    does not.

    Parameters
    ----------
    beta : float
        The paper's setting, 1, and the default of the authors' code. The authors choose less (0.0001 to 0.1) on most
        of their own data sets, where 1 regularizes more than is good.
    latent_dim : int
        D. Like everything below not given by the paper; where no more is said the default of the authors' code.
    temperature : float
        Of the relaxed gate samples.
    off_noise : float
        Share of the noise that remains where a gate is off; positive.
    dropout : float
        In the encoder.
    gate_rate : float
        Learning rate of the gates, relative to the rest.
    epochs, batch_size, learning_rate, weight_decay, optimizer
        200 passes of Adam.
    decay_every, warmup
        Halve the learning rate after every so many epochs; let it rise linearly before. Off, although the authors
        use them on some data sets.
    selection : {"AP", "P@1", "hamming"}
        What decides on held-out rows which epoch is kept.
    patience : int or None
        Our choice; the authors' code runs all epochs (None) and keeps the best.
    validation_fraction, clip
        Our choice.
    scaling : {"l2", "minmax", "none"}
        To [0, 1] by the ranges of the training rows; the authors' code takes the ranges of all rows.
    label_chunk : int or None
        Labels at a time; None chooses by batch and device. Memory follows it; results do not, but for rounding.
    half_precision : bool or "auto"
        Products in bfloat16 while training: ``"auto"`` on a GPU, True also on a CPU with AMX.
    device, vectorizer, memory_limit, progress, random_state
        See :class:`~pysldl.baselines.torch_training.classifier.TorchClassifier`.
    """

    _widest = 512

    def __init__(
        self,
        *,
        beta: float = 1.0,
        latent_dim: int = 50,
        temperature: float = 2 / 3,
        off_noise: float = 0.5,
        dropout: float = 0.0,
        gate_rate: float = 1.0,
        epochs: int = 200,
        batch_size: int = 128,
        learning_rate: float = 1e-3,
        weight_decay: float = 1e-4,
        optimizer: OptimizerName = "adam",
        decay_every: int | None = None,
        warmup: int = 0,
        selection: Literal["AP", "P@1", "hamming"] = "AP",
        patience: int | None = 15,
        validation_fraction: float = 0.1,
        clip: Clip = None,
        scaling: Scaling = "minmax",
        label_chunk: int | None = None,
        half_precision: bool | Literal["auto"] = "auto",
        device: str = "auto",
        vectorizer: Any = None,
        memory_limit: int | str | None = None,
        progress: ProgressCallback | None = None,
        random_state: Any = None,
    ) -> None:
        super().__init__(
            epochs=epochs,
            batch_size=batch_size,
            learning_rate=learning_rate,
            weight_decay=weight_decay,
            optimizer=optimizer,
            clip=clip,
            scaling=scaling,
            validation_fraction=validation_fraction,
            patience=patience,
            device=device,
            vectorizer=vectorizer,
            memory_limit=memory_limit,
            progress=progress,
            random_state=random_state,
        )
        self.beta = beta
        self.latent_dim = latent_dim
        self.temperature = temperature
        self.off_noise = off_noise
        self.dropout = dropout
        self.gate_rate = gate_rate
        self.decay_every = decay_every
        self.warmup = warmup
        self.selection = selection
        self.label_chunk = label_chunk
        self.half_precision = half_precision

    def _check_training(self) -> None:
        super()._check_training()
        if not 0 < self.off_noise <= 1:
            raise DataError(f"off_noise must be above 0 and at most 1, but is {self.off_noise!r}.")
        if not self.temperature > 0:
            raise DataError(f"temperature must be positive, but is {self.temperature!r}.")

    def _build(self, n_features: int, n_labels: int) -> nn.Module:
        from pysldl.baselines.dela.network import DELANetwork

        return DELANetwork(n_features, n_labels, self.latent_dim, self.dropout)

    def _parameter_groups(self, network: Any) -> list[dict[str, Any]]:
        gates = [network.gates, *network.gate_map.parameters()]
        known = {id(parameter) for parameter in gates}
        others = [parameter for parameter in network.parameters() if id(parameter) not in known]
        return [{"params": others}, {"params": gates, "lr": self.gate_rate * self.learning_rate}]

    def _objective(self, network: Any, train: DenseBatches) -> Objective:
        import torch
        from torch.nn.functional import binary_cross_entropy_with_logits

        from pysldl.baselines.dela.network import gate_sample, noise_divergence
        from pysldl.baselines.torch_training.label_chunks import narrow, sum_over_labels

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
