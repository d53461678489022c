"""The one training loop of the neural baselines: epochs, clipping, the best weights, and the ways a run may end."""

from __future__ import annotations

import math
import warnings
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pysldl.exceptions import SLDLError, SLDLWarning
from pysldl.progress import Progress, ProgressCallback

if TYPE_CHECKING:
    from torch import Tensor, nn

__all__ = ["AdaptiveClipping", "FixedClipping", "Outcome", "TrainingLoop"]

Objective = Callable[["Tensor", "Tensor"], "Tensor"]
Batches = Callable[[], Iterator[tuple["Tensor", "Tensor"]]]


@dataclass(frozen=True)
class Outcome:
    """How a run ended.

    Attributes
    ----------
    n_epochs : int
        Epochs that were completed.
    best_epoch : int
        Epoch whose weights were kept, from 1; 0 where the run was interrupted before its first epoch ended.
    stopped : {"epochs", "patience", "interrupt"}
        Why it ended.
    losses : list of float
        Mean training loss of every epoch.
    """

    n_epochs: int
    best_epoch: int
    stopped: str
    losses: list[float]


@dataclass(frozen=True)
class FixedClipping:
    """Scale the gradient down to the norm ``bound``."""

    bound: float

    def __call__(self, parameters: list[Any]) -> None:
        from torch.nn.utils import clip_grad_norm_

        clip_grad_norm_(parameters, self.bound)


class AdaptiveClipping:
    """Clip at five times the largest of the last five gradient norms, as the authors of FLEM do.

    What enters the memory is at most 1 and at most twice its maximum. The memory starts at infinity, so that the
    first five steps are not clipped.
    """

    def __init__(self) -> None:
        self.norms: deque[float] = deque([math.inf], maxlen=5)

    def __call__(self, parameters: list[Any]) -> None:
        from torch.nn.utils import clip_grad_norm_

        largest = max(self.norms)
        norm = float(clip_grad_norm_(parameters, 5.0 * largest))
        self.norms.append(min(norm, 2.0 * largest, 1.0))


@dataclass(frozen=True)
class TrainingLoop:
    """Minimise an objective and keep the weights of the best epoch.

    Parameters
    ----------
    epochs : int
    patience : int or None
        Stop when the validation quality has not risen for so many epochs; None never does.
    learning_rate : float
        Named where training fails; the optimiser holds the one that is used.
    clip : callable, optional
        Called with the parameters between the backward pass and the step.
    progress : callable, optional
    stage : str
        What progress reports call this run.
    """

    epochs: int
    patience: int | None
    learning_rate: float
    clip: Callable[[list[Any]], None] | None = None
    progress: ProgressCallback | None = None
    stage: str = "training"

    def run(
        self,
        network: nn.Module,
        objective: Objective,
        batches: Batches,
        optimizer: Any,
        schedule: Any = None,
        judge: Callable[[], tuple[float, ...]] | None = None,
    ) -> Outcome:
        """Train ``network`` in place.

        Parameters
        ----------
        network : nn.Module
        objective : callable
            Loss of a batch ``(x, y)``.
        batches : callable
            Gives the batches of one epoch.
        optimizer, schedule
            A schedule is stepped after every epoch.
        judge : callable, optional
            Quality on validation rows, higher is better, compared as tuples. Without it the last weights are kept.
            The network is in evaluation mode while it runs, and no gradients are recorded.
        """
        best: dict[str, Tensor] | None = None
        best_quality: tuple[float, ...] = ()
        best_epoch, stopped, losses = 0, "epochs", []
        try:
            for epoch in range(1, self.epochs + 1):
                losses.append(self._epoch(network, objective, batches(), optimizer, epoch))
                if schedule is not None:
                    schedule.step()
                if self.progress is not None:
                    self.progress(Progress(self.stage, epoch, self.epochs, losses[-1]))
                if judge is None:
                    best_epoch = epoch
                    continue
                quality = _judged(network, judge)
                if best is None or quality > best_quality:
                    best, best_quality, best_epoch = _copy_of(network), quality, epoch
                elif self.patience is not None and epoch - best_epoch >= self.patience:
                    stopped = "patience"
                    break
        except KeyboardInterrupt:
            stopped = "interrupt"
            warnings.warn(
                f"{self.stage.capitalize()} was interrupted after {len(losses)} of {self.epochs} epochs; the model "
                "keeps the best weights it had.",
                SLDLWarning,
                stacklevel=2,
            )
        if best is not None:
            network.load_state_dict(best)
        network.eval()
        return Outcome(len(losses), best_epoch, stopped, losses)

    def _epoch(self, network: nn.Module, objective: Objective, batches: Any, optimizer: Any, epoch: int) -> float:
        import torch

        network.train()
        parameters = [p for group in optimizer.param_groups for p in group["params"]]
        total, n_rows = torch.zeros((), device=parameters[0].device), 0
        for x, y in batches:
            optimizer.zero_grad(set_to_none=True)
            loss = objective(x, y)
            loss.backward()
            if self.clip is not None:
                self.clip(parameters)
            optimizer.step()
            total += loss.detach() * len(x)
            n_rows += len(x)
        mean = float(total) / max(n_rows, 1)
        if not math.isfinite(mean) or not all(bool(torch.isfinite(p).all()) for p in parameters):
            raise SLDLError(
                f"The loss of {self.stage} became {mean} in epoch {epoch} at learning_rate={self.learning_rate:g}. "
                "Try a learning rate ten times smaller, clip=1.0, or scaled features (scaling='l2' or 'minmax')."
            )
        return mean


def _judged(network: nn.Module, judge: Callable[[], tuple[float, ...]]) -> tuple[float, ...]:
    import torch

    network.eval()
    with torch.no_grad():
        return judge()


def _copy_of(network: nn.Module) -> dict[str, Tensor]:
    return {name: tensor.detach().clone() for name, tensor in network.state_dict().items()}
