"""Base class of PACA, DELA and CLIF: features of its own for every label, computed for a few labels at a time."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from torch import Tensor, nn
from torch.optim.lr_scheduler import LambdaLR

from pysldl._utils.constraints import Count, CountOrZero
from pysldl._utils.light_estimator import inherit_parameters
from pysldl.baselines.torch_training.classifier import Scoring, TorchClassifier
from pysldl.baselines.torch_training.dense_batches import DenseBatches
from pysldl.baselines.torch_training.label_chunks import half_products, labels_at_once, require_half_products


@inherit_parameters
@dataclass(eq=False, repr=False, kw_only=True)
class LabelSpecificClassifier(TorchClassifier):
    """Base of the methods that learn label-specific features.

    Every row has one feature vector per label, so that intermediates of shape (batch, n_labels, width) would fill
    the memory. They are made for ``label_chunk`` labels at a time instead, in training and in scoring.

    Parameters
    ----------
    decay_every : int or None, default=None
        Halve the learning rate after every so many epochs.
    warmup : int, default=0
        Epochs over which the learning rate first rises linearly.
    label_chunk : int or None, default=None
        Labels whose features are computed at a time; None chooses by the size of the batch and the device. Memory
        follows it; results do not, but for rounding.
    half_precision : bool or "auto", default="auto"
        Whether training multiplies what it has for every label in bfloat16. ``"auto"`` does so on a GPU; True asks for
        it on a CPU too, which must have AMX. New rows are always scored in single precision.
    """

    normalize: bool = False
    minmax: bool = True
    patience: int | None = 15
    scoring: Scoring = "AP"
    decay_every: Count | None = None
    warmup: CountOrZero = 0
    label_chunk: Count | None = None
    half_precision: bool | Literal["auto"] = "auto"

    _widest = 512
    """Numbers that the widest intermediate holds for one row and one label."""

    def _labels_at_once(self, x: Tensor) -> int:
        return self.label_chunk if self.label_chunk is not None else labels_at_once(x, self._widest)

    @property
    def _half(self) -> bool:
        """Whether products are in half precision where this model is trained."""
        return self._where.type == "cuda" if self.half_precision == "auto" else bool(self.half_precision)

    def _scorer(self, network: Any, train: DenseBatches) -> Callable[[Tensor], Tensor]:
        half = self._half

        def score(x: Tensor) -> Tensor:
            with half_products(x.device, half):  # as in training; scores of new rows are in single precision
                return self._logits(network, x).float()

        return score

    def _schedule(self, optimizer: Any) -> Any:
        if self.decay_every is None and self.warmup == 0:
            return None
        return LambdaLR(optimizer, lambda epoch: learning_rate_factor(epoch, self.warmup, self.decay_every))

    def _fit_network(self, train: DenseBatches, held: DenseBatches | None) -> nn.Module:
        if self._half and train.where.type == "cpu":
            require_half_products()
        return super()._fit_network(train, held)


def learning_rate_factor(epoch: int, warmup: int, decay_every: int | None) -> float:
    """Share of the learning rate used in an epoch, counted from 0: a linear rise, then halved at every step.

    Examples
    --------
    >>> [learning_rate_factor(epoch, warmup=2, decay_every=2) for epoch in range(6)]
    [0.5, 1.0, 1.0, 1.0, 0.5, 0.5]
    """
    if epoch < warmup:
        return (epoch + 1) / warmup
    return 1.0 if decay_every is None else 0.5 ** ((epoch - warmup) // decay_every)
