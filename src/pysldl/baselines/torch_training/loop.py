"""The one training loop of the neural baselines: epochs, clipping, the best weights, and the ways a run may end."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pysldl._utils.progress import Progress, ProgressCallback
from pysldl.baselines.torch_training.steps import Objective, Step, new_step
from pysldl.exceptions import SLDLError, SLDLWarning

if TYPE_CHECKING:
    from torch import Tensor, nn

__all__ = ["AdaptiveClipping", "FixedClipping", "Objective", "Outcome", "TrainingLoop"]

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
    first five steps are not clipped. It lies where the gradients are: no step waits for a number to reach the host.
    """

    norms: Tensor | None = None

    def __call__(self, parameters: list[Any]) -> None:
        import torch

        gradients = [p.grad for p in parameters if p.grad is not None]
        if self.norms is None:
            self.norms = torch.tensor([0.0, 0.0, 0.0, 0.0, math.inf], device=gradients[0].device)
        largest = self.norms.max()
        norm = torch.linalg.vector_norm(torch.stack([torch.linalg.vector_norm(g) for g in gradients]))
        share = (5.0 * largest / (norm + 1e-6)).clamp_max(1.0)
        for gradient in gradients:
            gradient.mul_(share)
        newest = torch.minimum(norm, 2.0 * largest).clamp_max(1.0)
        self.norms.copy_(torch.cat([self.norms[1:], newest[None]]))


@dataclass(frozen=True)
class TrainingLoop:
    """Minimize an objective and keep the weights of the best epoch.

    Parameters
    ----------
    epochs : int
    patience : int or None
        Stop when the validation quality has not risen for so many epochs; None never does.
    patience_after : int
        Steps before which no epoch counts as one without progress.
    learning_rate : float
        Named where training fails; the optimizer holds the one that is used.
    clip : callable, optional
        Called with the parameters between the backward pass and the step.
    progress : callable, optional
    stage : str
        What progress reports call this run.
    """

    epochs: int
    patience: int | None
    learning_rate: float
    patience_after: int = 0
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
        step = new_step(objective, optimizer, self.clip)
        best: dict[str, Tensor] | None = None
        best_quality: tuple[float, ...] = ()
        best_epoch, last_free_epoch, stopped, losses = 0, 0, "epochs", []
        try:
            for epoch in range(1, self.epochs + 1):
                network.train()
                losses.append(self._epoch(step, batches(), epoch))
                if schedule is not None:
                    schedule.step()
                if self.progress is not None:
                    self.progress(Progress(self.stage, epoch, self.epochs, losses[-1]))
                if judge is None:
                    best_epoch = epoch
                    continue
                if step.n_steps < self.patience_after:
                    last_free_epoch = epoch
                quality = _judged(network, judge)
                if best is None or quality > best_quality:
                    best, best_quality, best_epoch = _copy_of(network), quality, epoch
                elif self.patience is not None and epoch - max(best_epoch, last_free_epoch) >= self.patience:
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
            network.load_state_dict(best, strict=False)
        network.eval()
        return Outcome(len(losses), best_epoch, stopped, losses)

    def _epoch(self, step: Step, batches: Any, epoch: int) -> float:
        import torch

        step.total.zero_()
        n_rows = 0
        for x, y in batches:
            step(x, y)
            n_rows += len(x)
        finite = torch.stack([torch.isfinite(p).all() for p in step.parameters]).all()
        total, sound = torch.stack([step.total, finite.to(step.total)]).tolist()
        mean = total / max(n_rows, 1)
        if not math.isfinite(mean) or not sound:
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
    """What training changes: a network may name large buffers that stay as they are."""
    fixed = getattr(network, "fixed", ())
    return {name: tensor.detach().clone() for name, tensor in network.state_dict().items() if name not in fixed}
