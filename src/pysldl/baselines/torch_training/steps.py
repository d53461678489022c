"""One step of gradient descent, and the same step recorded once and replayed."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["CUDAGraphStep", "Objective", "Step", "new_step"]

Objective = Callable[["Tensor", "Tensor"], "Tensor"]
Clipping = Callable[[list[Any]], None]

# Steps before the recording, in which the optimizer and the libraries below torch make what they keep.
STEPS_BEFORE = 3


class Step:
    """A step on a batch, and the sum of the losses so far.

    Parameters
    ----------
    objective : callable
        Loss of a batch ``(x, y)``.
    optimizer
    clip : callable, optional
        Called with the parameters between the backward pass and the step.

    Attributes
    ----------
    total : Tensor
        Sum of the losses, each times the rows of its batch. It stays on the device.
    n_steps : int
        Steps so far.
    """

    def __init__(self, objective: Objective, optimizer: Any, clip: Clipping | None) -> None:
        import torch

        self.objective = objective
        self.optimizer = optimizer
        self.clip = clip
        self.parameters: list[Any] = [p for group in optimizer.param_groups for p in group["params"]]
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


class CUDAGraphStep(Step):
    """A step that a GPU replays as a whole, since launching its hundred small kernels takes longer than running them.

    Batches of the first one's shape are replayed; others, such as the last of an epoch, are not. Numbers that the
    optimizer takes from the host are part of the recording, so a new learning rate means a new one.
    """

    def __init__(self, objective: Objective, optimizer: Any, clip: Clipping | None) -> None:
        super().__init__(objective, optimizer, clip)
        self.graph: Any = None
        self.batch: tuple[Tensor, Tensor] | None = None
        self.rates: list[float] = []

    def _move(self, x: Tensor, y: Tensor) -> None:
        if self.batch is None:
            self.batch = x.clone(), y.clone()
        if x.shape != self.batch[0].shape or self.n_steps < STEPS_BEFORE:
            super()._move(x, y)
            return
        rates = [group["lr"] for group in self.optimizer.param_groups]
        if self.graph is None or rates != self.rates:
            self._record()
            self.rates = rates
        self.batch[0].copy_(x)
        self.batch[1].copy_(y)
        self.graph.replay()

    def _record(self) -> None:
        import torch

        assert self.batch is not None
        self.graph = torch.cuda.CUDAGraph()
        self.optimizer.zero_grad(set_to_none=True)
        with torch.cuda.graph(self.graph, stream=torch.cuda.current_stream()):
            super()._move(*self.batch)


def new_step(objective: Objective, optimizer: Any, clip: Clipping | None) -> Step:
    """The fastest kind of step for the device of the parameters."""
    on_gpu = optimizer.param_groups[0]["params"][0].is_cuda
    return (CUDAGraphStep if on_gpu else Step)(objective, optimizer, clip)
