"""Full-batch Adam for a given number of steps, or until the loss stops falling."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pysldl._utils.progress import Progress, ProgressCallback
from pysldl.backend.label_embedding import BETA1, BETA2, EPSILON

Array = NDArray[Any]
Objective = Callable[[list[Array]], tuple[float, list[Array]]]


@dataclass(frozen=True)
class DescentResult:
    """The end of a descent.

    ``parameters`` are those after the last step or, with a tolerance, those of the lowest loss; ``losses`` are the
    losses before every step. ``converged`` tells whether the loss stopped falling, None if there was no tolerance.
    ``path`` has the parameters after each of the requested numbers of steps.
    """

    parameters: list[Array]
    losses: list[float]
    converged: bool | None
    path: list[list[Array]] = field(default_factory=list)


@dataclass(frozen=True)
class Descent:
    """Adam on all parameters at once, in double precision; weight decay is decoupled (AdamW).

    With ``tol``, the descent stops when the best loss has not fallen by that fraction during ``patience`` steps; None
    takes all ``n_steps``.
    """

    learning_rate: float
    n_steps: int
    tol: float | None = None
    patience: int = 50
    weight_decay: float = 0.0

    def minimize(
        self,
        objective: Objective,
        start: Sequence[NDArray[Any]],
        progress: ProgressCallback | None = None,
        *,
        path: Sequence[int] = (),
    ) -> DescentResult:
        """Descend from ``start``; ``objective`` maps parameters to the loss and its gradients.

        ``path`` asks for the parameters after these ascending numbers of steps.
        """
        parameters = [p.astype(np.float64) for p in start]
        first = [np.zeros_like(p) for p in parameters]
        second = [np.zeros_like(p) for p in parameters]
        kept = [[p.copy() for p in parameters] for n in path if n == 0]
        losses: list[float] = []
        best, best_loss = [p.copy() for p in parameters], np.inf
        reference, since = np.inf, 0
        power1 = power2 = 1.0
        for step in range(1, self.n_steps + 1):
            loss, gradients = objective(parameters)
            losses.append(loss)
            if progress is not None:
                progress(Progress("embedding", step, self.n_steps, loss))
            if self.tol is not None:
                if loss < best_loss:
                    best_loss = loss
                    for to, p in zip(best, parameters, strict=True):
                        to[...] = p
                if best_loss <= reference * (1 - self.tol):
                    reference, since = best_loss, 0
                else:
                    since += 1
                if since >= self.patience or best_loss == 0:
                    return DescentResult(best, losses, converged=True)
            power1, power2 = power1 * BETA1, power2 * BETA2  # not **, of which every library has its own
            rate = self.learning_rate * float(np.sqrt(1 - power2)) / (1 - power1)
            for p, g, m, v in zip(parameters, gradients, first, second, strict=True):
                m += (1 - BETA1) * (g - m)
                v += (1 - BETA2) * (g * g - v)
                if self.weight_decay:
                    p *= 1 - self.learning_rate * self.weight_decay
                p -= rate * m / (np.sqrt(v) + EPSILON)
            kept.extend([p.copy() for p in parameters] for n in path if n == step)
        return DescentResult(
            parameters if self.tol is None else best, losses, None if self.tol is None else False, kept
        )
