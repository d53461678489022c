"""PACA: probabilistic label-specific features, learned end to end (Hang, Zhang, Feng and Song, AAAI 2022)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from pysldl._utils.progress import ProgressCallback
from pysldl.baselines.torch_training.classifier import Clip, OptimizerName, Scaling
from pysldl.baselines.torch_training.dense_batches import DenseBatches
from pysldl.baselines.torch_training.label_specific import LabelSpecificClassifier
from pysldl.baselines.torch_training.loop import Objective
from pysldl.exceptions import DataError

if TYPE_CHECKING:
    from torch import Tensor, nn

__all__ = ["PACA"]

FEW_ROWS, SMALL_BATCH, BATCH = 4000, 16, 128


class PACA(LabelSpecificClassifier):
    r"""PACA: every label has a density of its positive and one of its negative prototypes; their ratio classifies.

    Features and labels of a row are both encoded as Gaussians over D latent numbers, which shall agree. A sample
    :math:`z_x` of the first is mapped, together with the features, to a point :math:`\tilde z = g([x, z_x])`. Two
    normalizing flows that know the label give its densities :math:`p^\pm_k(\tilde z)`. Training minimizes
    :math:`L_{rec} + \gamma L_{reg} + \alpha L_{cls}`:

    * :math:`L_{rec}`, the error of features decoded from :math:`\tilde z`;
    * :math:`L_{reg}`, the divergence of the feature code from the label code, and the cross-entropy of labels decoded
      from the label code;
    * :math:`L_{cls} = -\sum_k \log\mathrm{softmax}([\log p^-_k, \log p^+_k])_{y_k}`.

    All are sums over features or labels and means over rows. New rows are scored by
    :math:`\log p^+_k - \log p^-_k` at the mean code.

    Parameters
    ----------
    alpha, gamma : float
        The paper's settings, 1 and 1.
    latent_dim : int
        D. Neither the paper nor a published configuration gives it, nor anything below; where no more is said we
        take the defaults of DELA, which is by the same authors and from the same code.
    dropout : float
        In the two encoders.
    binary : bool or None
        Whether features are 0 or 1 and their decoding is judged by cross-entropy, not by squared error; None looks.
    epochs, learning_rate, weight_decay, optimizer
        At most 200 passes of Adam.
    batch_size : int or None
        Rows of a step. None takes 16 where there are fewer than 4,000 to train on, else DELA's 128: a pass takes as
        long, and of a small data set fewer of them do.
    decay_every, warmup
        Halve the learning rate after every so many epochs; let it rise linearly before.
    selection : {"AP", "P@1", "hamming"}
        What decides on held-out rows which epoch is kept.
    patience : int or None
        Our choice.
    patience_after : int
        Steps before patience begins to count: the quality on held-out rows rests where the label prior is for the
        first few hundred, which is tens of epochs on a small data set, before it rises.
    validation_fraction, clip
        Our choice.
    scaling : {"minmax", "l2", "none"}
        Decoded features lie in [0, 1]; so should those that are given.
    label_chunk : int or None
        Labels at a time; None chooses by batch and device. Memory follows it; results do not, but for rounding.
    half_precision : bool or "auto"
        Products in bfloat16 while training, on a GPU. A CPU would take longer with them, whose time goes elsewhere.
    device, vectorizer, memory_limit, progress, random_state
        See :class:`~pysldl.baselines.torch_training.classifier.TorchClassifier`.
    """

    def __init__(
        self,
        *,
        alpha: float = 1.0,
        gamma: float = 1.0,
        latent_dim: int = 50,
        dropout: float = 0.1,
        binary: bool | None = None,
        epochs: int = 200,
        batch_size: int | None = None,
        learning_rate: float = 1e-3,
        weight_decay: float = 1e-4,
        optimizer: OptimizerName = "adam",
        decay_every: int | None = None,
        warmup: int = 0,
        selection: Literal["AP", "P@1", "hamming"] = "AP",
        patience: int | None = 15,
        patience_after: int = 1000,
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
            batch_size=batch_size,  # type: ignore[arg-type]
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
        self.alpha = alpha
        self.gamma = gamma
        self.latent_dim = latent_dim
        self.dropout = dropout
        self.binary = binary
        self.decay_every = decay_every
        self.warmup = warmup
        self.selection = selection
        self.patience_after = patience_after
        self.label_chunk = label_chunk
        self.half_precision = half_precision

    _optional = ("patience", "batch_size")

    def _rows_a_step(self, n_rows: int) -> int:
        return self.batch_size or (SMALL_BATCH if n_rows < FEW_ROWS else BATCH)

    @property
    def _widest(self) -> int:  # type: ignore[override]
        from pysldl.baselines.paca.flows import COMPONENTS

        return 3 * COMPONENTS * self.latent_dim

    @property
    def _half(self) -> bool:
        return self._where.type == "cuda" and self.half_precision is not False

    def _check_training(self) -> None:
        super()._check_training()
        if self.patience_after < 0:
            raise DataError(f"patience_after must be at least 0 steps, but is {self.patience_after!r}.")
        if self.latent_dim < 1:
            raise DataError(f"latent_dim must be at least 1, but is {self.latent_dim!r}.")

    def _build(self, n_features: int, n_labels: int) -> nn.Module:
        from pysldl.baselines.paca.network import PACANetwork

        return PACANetwork(n_features, n_labels, self.latent_dim, self.dropout)

    def _logits(self, network: Any, x: Tensor) -> Tensor:
        return network.scores(x, self._labels_at_once(x))

    def _objective(self, network: Any, train: DenseBatches) -> Objective:
        from torch.nn.functional import binary_cross_entropy_with_logits

        from pysldl.baselines.paca.network import gaussian_divergence, reconstruction_error
        from pysldl.baselines.torch_training.label_chunks import sum_over_labels

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


def _sample(mean: Tensor, log_variance: Tensor) -> Tensor:
    import torch

    return mean + torch.exp(0.5 * log_variance) * torch.randn_like(mean)


def _is_binary(X: Any) -> bool:
    values = X if isinstance(X, np.ndarray) else X.data
    return bool(np.isin(values, (0, 1)).all())
