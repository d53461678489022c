"""The training loop of the neural baselines: steps, epochs, clipping, the best weights, and how a run may end."""

import math
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from pysldl._utils.progress import Progress, ProgressCallback
from pysldl.exceptions import SLDLError, SLDLWarning

Objective = Callable[[Tensor, Tensor], Tensor]
"""The loss of a batch of features and labels."""

Clipping = Callable[[list[Tensor]], Any]
"""Changes the gradients of the parameters, between the backward pass and the step."""

# Steps before a CUDA graph is recorded, in which the optimizer and the libraries below torch make what they keep.
STEPS_BEFORE_RECORDING = 3


class AdaptiveClipping:
    """Clip at five times the largest of the last five gradient norms, as the authors of FLEM do.

    What enters the memory is at most 1 and at most twice its maximum. The memory starts at infinity, so that the
    first five steps are not clipped. It lies where the gradients are: no step waits for a number to reach the host.
    """

    norms: Tensor | None = None

    def __call__(self, parameters: list[Tensor]) -> None:
        """Scale the gradients of ``parameters`` in place."""
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


class TrainingStep:
    """One step of gradient descent on a batch, and the sum of the losses so far, each times the rows of its batch.

    ``total`` stays on the device.
    """

    def __init__(self, objective: Objective, optimizer: Any, clip: Clipping | None) -> None:
        self.objective = objective
        self.optimizer = optimizer
        self.clip = clip
        self.parameters: list[Tensor] = [p for group in optimizer.param_groups for p in group["params"]]
        self.total = torch.zeros((), device=self.parameters[0].device)
        self.n_steps = 0

    def __call__(self, x: Tensor, y: Tensor) -> None:
        """Move the parameters once."""
        self._move(x, y)
        self.n_steps += 1

    def _move(self, x: Tensor, y: Tensor) -> None:
        self.optimizer.zero_grad(set_to_none=True)
        loss = self.objective(x, y)
        loss.backward()
        if self.clip is not None:
            self.clip(self.parameters)
        self.optimizer.step()
        self.total += loss.detach() * len(x)


class CUDAGraphStep(TrainingStep):
    """A step that a GPU replays as a whole, since launching its hundred small kernels takes longer than running them.

    Batches of the first one's shape are replayed; others, such as the last of an epoch, are not. Numbers that the
    optimizer takes from the host are part of the recording, so a new learning rate means a new one.
    """

    graph: Any = None
    batch: tuple[Tensor, Tensor] | None = None
    rates: list[float] | None = None

    def _move(self, x: Tensor, y: Tensor) -> None:
        if self.batch is None:
            self.batch = x.clone(), y.clone()
        if x.shape != self.batch[0].shape or self.n_steps < STEPS_BEFORE_RECORDING:
            super()._move(x, y)
            return
        rates = [group["lr"] for group in self.optimizer.param_groups]
        if rates != self.rates:
            self.graph, self.rates = torch.cuda.CUDAGraph(), rates
            self.optimizer.zero_grad(set_to_none=True)
            with torch.cuda.graph(self.graph, stream=torch.cuda.current_stream()):
                super()._move(*self.batch)
        self.batch[0].copy_(x)
        self.batch[1].copy_(y)
        self.graph.replay()


def new_step(objective: Objective, optimizer: Any, clip: Clipping | None) -> TrainingStep:
    """The fastest kind of step for the device of the parameters."""
    on_gpu = optimizer.param_groups[0]["params"][0].is_cuda
    return (CUDAGraphStep if on_gpu else TrainingStep)(objective, optimizer, clip)


@dataclass(frozen=True)
class TrainingResult:
    """How a run ended: epochs completed, the epoch whose weights were kept, and why it stopped.

    ``best_epoch`` counts from 1 and is 0 if the run was interrupted before its first epoch ended. ``stopped`` is
    "epochs", "patience" or "interrupt".
    """

    n_epochs: int
    best_epoch: int
    stopped: str


@dataclass(frozen=True)
class TrainingLoop:
    """Minimize an objective and keep the weights of the best epoch.

    Training stops when the validation quality has not risen for ``patience`` epochs, not counting those before
    ``patience_after`` steps; None never stops. ``learning_rate`` is only named in errors, since the optimizer has it.
    ``clip`` is called with the parameters between the backward pass and the step.
    """

    epochs: int
    patience: int | None
    learning_rate: float
    patience_after: int = 0
    clip: Clipping | None = None
    progress: ProgressCallback | None = None
    stage: str = "training"

    def run(
        self,
        network: nn.Module,
        objective: Objective,
        batches: Callable[[], Iterator[tuple[Tensor, Tensor]]],
        optimizer: Any,
        schedule: Any = None,
        judge: Callable[[], tuple[float, ...]] | None = None,
    ) -> TrainingResult:
        """Train ``network`` in place on the loss ``objective(x, y)`` of a batch.

        ``batches()`` gives the batches of one epoch, and ``schedule`` is stepped after every epoch. ``judge()`` is the
        quality on validation rows, compared as tuples, higher is better; without it the last weights are kept. The
        network is in evaluation mode while it runs, and no gradients are recorded.
        """
        step = new_step(objective, optimizer, self.clip)
        best: dict[str, Tensor] | None = None
        best_quality: tuple[float, ...] = ()
        n_epochs, best_epoch, last_free_epoch, stopped = 0, 0, 0, "epochs"
        try:
            for epoch in range(1, self.epochs + 1):
                network.train()
                loss = self._epoch(step, batches(), epoch)
                n_epochs = epoch
                if schedule is not None:
                    schedule.step()
                if self.progress is not None:
                    self.progress(Progress(self.stage, epoch, self.epochs, loss))
                if judge is None:
                    best_epoch = epoch
                    continue
                if step.n_steps < self.patience_after:
                    last_free_epoch = epoch
                network.eval()
                with torch.no_grad():
                    quality = judge()
                if best is None or quality > best_quality:
                    best, best_quality, best_epoch = trained_state(network), quality, epoch
                elif self.patience is not None and epoch - max(best_epoch, last_free_epoch) >= self.patience:
                    stopped = "patience"
                    break
        except KeyboardInterrupt:
            stopped = "interrupt"
            warnings.warn(
                f"{self.stage.capitalize()} was interrupted after {n_epochs} of {self.epochs} epochs; the best stays.",
                SLDLWarning,
                stacklevel=2,
            )
        if best is not None:
            network.load_state_dict(best, strict=False)
        network.eval()
        return TrainingResult(n_epochs, best_epoch, stopped)

    def _epoch(self, step: TrainingStep, batches: Iterator[tuple[Tensor, Tensor]], epoch: int) -> float:
        """The mean loss of one pass over the rows."""
        step.total.zero_()
        n_rows = 0
        for x, y in batches:
            step(x, y)
            n_rows += len(x)
        finite = torch.stack([torch.isfinite(p).all() for p in step.parameters]).all()
        total, sound = torch.stack([step.total, finite.to(step.total)]).tolist()
        mean = float(total) / max(n_rows, 1)
        if not math.isfinite(mean) or not sound:
            raise SLDLError(
                f"The loss of {self.stage} became {mean} in epoch {epoch} at learning_rate={self.learning_rate:g}. "
                "Try a learning rate ten times smaller, clip=1.0, or scaled features (normalize=True or minmax=True)."
            )
        return mean


def trained_state(network: nn.Module) -> dict[str, Tensor]:
    """A copy of what training changes: a network may name large buffers in ``fixed`` that stay as they are."""
    fixed = getattr(network, "fixed", ())
    return {name: tensor.detach().clone() for name, tensor in network.state_dict().items() if name not in fixed}
