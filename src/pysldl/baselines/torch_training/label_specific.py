"""What PACA, DELA and CLIF share: features of its own for every label, computed for a few labels at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

from pysldl.baselines.torch_training.classifier import TorchClassifier
from pysldl.baselines.torch_training.dense_batches import DenseBatches
from pysldl.exceptions import DataError

if TYPE_CHECKING:
    from torch import Tensor, nn

__all__ = ["LabelSpecificClassifier"]


class LabelSpecificClassifier(TorchClassifier):
    """Base of the methods that learn label-specific features.

    Every row has one vector of features a label, so that intermediates of shape (batch, n_labels, width) would fill
    the memory. They are made for ``label_chunk`` labels at a time instead, in training and in scoring.

    Parameters
    ----------
    label_chunk : int or None
        Labels at a time; None chooses by the size of the batch and the device. Results do not depend on it, but for
        rounding.
    selection : {"AP", "P@1", "hamming"}
        What decides on held-out rows which epoch is kept.
    decay_every : int or None
        Halve the learning rate after every so many epochs.
    warmup : int
        Epochs over which the learning rate first rises linearly.
    half_precision : bool or "auto"
        Whether training multiplies what it has for every label in bfloat16. ``"auto"`` does so on a GPU; True asks for
        it on a CPU too, which must have AMX. New rows are always scored in single precision.
    """

    label_chunk: int | None = None
    decay_every: int | None = None
    warmup: int = 0
    half_precision: bool | Literal["auto"] = "auto"

    _widest: int
    """Numbers that the widest intermediate holds for one row and one label."""

    def _labels_at_once(self, x: Tensor) -> int:
        from pysldl.baselines.torch_training.label_chunks import labels_at_once

        return self.label_chunk if self.label_chunk is not None else labels_at_once(x, self._widest)

    @property
    def _half(self) -> bool:
        """Whether products are in half precision where this model is trained."""
        return self._where.type == "cuda" if self.half_precision == "auto" else bool(self.half_precision)

    def _scorer(self, network: nn.Module, train: DenseBatches) -> Callable[[Tensor], Tensor]:
        from pysldl.baselines.torch_training.label_chunks import half_products

        half = self._half

        def score(x: Tensor) -> Tensor:
            with half_products(x.device, half):  # as in training; scores of new rows are in single precision
                return self._logits(network, x).float()

        return score

    def _schedule(self, optimizer: Any) -> Any:
        if self.decay_every is None and self.warmup == 0:
            return None
        from torch.optim.lr_scheduler import LambdaLR

        return LambdaLR(optimizer, lambda epoch: learning_rate_factor(epoch, self.warmup, self.decay_every))

    def _check_training(self) -> None:
        super()._check_training()
        for name in ("label_chunk", "decay_every"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise DataError(f"{name} must be at least 1 or None, but is {value!r}.")
        if self.warmup < 0:
            raise DataError(f"warmup must be at least 0 epochs, but is {self.warmup!r}.")
        if self.half_precision not in (True, False, "auto"):
            raise DataError(f"half_precision must be True, False or 'auto', but is {self.half_precision!r}.")
        if self._half and self._where.type == "cpu":
            from pysldl.baselines.torch_training.label_chunks import require_half_products

            require_half_products()


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
