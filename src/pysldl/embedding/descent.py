"""Adam until the loss stops falling."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pysldl.progress import Progress, ProgressCallback

__all__ = ["Descent", "DescentResult"]

Array = NDArray[np.floating]
Objective = Callable[[list[Array]], tuple[float, list[Array]]]


@dataclass(frozen=True)
class DescentResult:
    """Best parameters met, and the loss after every step."""

    parameters: list[Array]
    losses: list[float]
    converged: bool


@dataclass(frozen=True)
class Descent:
    """Full-batch Adam with early stopping.

    Parameters
    ----------
    learning_rate, weight_decay : float
        Weight decay is decoupled (AdamW).
    max_steps : int
        Cap on the number of steps.
    tol, patience : float, int
        Stop when the best loss has not fallen by the fraction ``tol`` during ``patience`` steps; ``tol=0`` runs
        all steps.
    """

    learning_rate: float
    max_steps: int
    tol: float
    patience: int
    weight_decay: float = 0.0
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8

    def minimise(
        self, objective: Objective, start: list[Array], progress: ProgressCallback | None = None
    ) -> DescentResult:
        """Run from ``start``; the best parameters seen are returned, not the last."""
        parameters = [p.copy() for p in start]
        first = [np.zeros_like(p) for p in parameters]
        second = [np.zeros_like(p) for p in parameters]
        losses: list[float] = []
        best, best_loss = [p.copy() for p in parameters], np.inf
        reference, since = np.inf, 0
        for step in range(1, self.max_steps + 1):
            loss, gradients = objective(parameters)
            losses.append(loss)
            if loss < best_loss:
                best_loss = loss
                for kept, p in zip(best, parameters, strict=True):
                    kept[...] = p
            if progress is not None:
                progress(Progress("embedding", step, self.max_steps, loss))
            if self.tol > 0:
                if best_loss <= reference * (1 - self.tol):
                    reference, since = best_loss, 0
                else:
                    since += 1
                if since >= self.patience or best_loss == 0:
                    return DescentResult(best, losses, converged=True)
            rate = self.learning_rate * np.sqrt(1 - self.beta2**step) / (1 - self.beta1**step)
            for p, g, m, v in zip(parameters, gradients, first, second, strict=True):
                m += (1 - self.beta1) * (g - m)
                v += (1 - self.beta2) * (g * g - v)
                if self.weight_decay:
                    p *= 1 - self.learning_rate * self.weight_decay
                p -= rate * m / (np.sqrt(v) + self.epsilon)
        return DescentResult(best if self.tol > 0 else parameters, losses, converged=False)
