"""The descent of the labels' parameters by Adam: of all labels at once, or in small batches of anchors."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from pysldl._utils.progress import Progress, ProgressCallback
from pysldl.backend.divergence import (
    ROWS_AT_ONCE,
    Gaussians,
    js_backward_listed,
    js_of_listed,
    kl_backward_listed,
    kl_of_listed,
)
from pysldl.backend.label_embedding import BETA1, BETA2, EPSILON, adam_update_rows, consecutive_violations
from pysldl.embedding.truncated_walk import TruncatedRanking

Array = NDArray[Any]
Objective = Callable[[list[Array]], tuple[float, list[Array]]]

Labels = NDArray[np.integer]


@dataclass(frozen=True)
class DescentResult:
    """The result of a descent.

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


def ranking_gradient(
    gaussians: Gaussians, anchors: Labels, listed: Labels, margin: float, *, symmetric: bool = False
) -> tuple[float, Labels, NDArray[np.float64], NDArray[np.float64]]:
    """Compute the ranking loss (Eq. 7) of some anchors, and its gradient by the labels that it moves.

    ``listed`` (n_anchors, n_listed) holds the labels in the order that each anchor should have them, -1 behind the end;
    ``symmetric`` takes the Jensen-Shannon divergence. Returns the mean loss of the anchors, the labels with a gradient
    in ascending order (the anchors, and all that they pull or push), and their gradients by ``mu`` and ``log_var``.
    """
    D = (js_of_listed if symmetric else kl_of_listed)(gaussians, anchors, listed)
    total, pulls = consecutive_violations(D, margin, there=listed >= 0)
    source, slot = np.nonzero(pulls)
    label = listed[source, slot]
    rows = np.union1d(anchors, label)
    if symmetric:
        gradients = js_backward_listed(gaussians, anchors, listed, pulls, rows)
    else:
        G = sparse.csr_array(
            (pulls[source, slot].astype(np.float64), (source, np.searchsorted(rows, label))),
            shape=(len(anchors), len(rows)),
        )
        gradients = kl_backward_listed(gaussians, anchors, rows, G)
    for gradient in gradients:
        gradient /= len(anchors)
    return total / len(anchors), rows, *gradients


@dataclass(frozen=True)
class BatchDescent:
    """Adam over batches of ``batch_size`` anchors, with a separate state and step count for every label.

    A label moves if it is an anchor of the batch or violates the ranking of one. With all anchors in one batch this is
    :class:`~pysldl.embedding.adam.Descent`, except that the parameters of the lowest loss are not kept. ``n_steps``
    counts batches. With ``tol``, the descent stops when the mean loss of a pass over all anchors has not fallen by that
    fraction during ``patience`` batches, and at least one pass.
    """

    learning_rate: float
    n_steps: int
    tol: float | None
    patience: int
    batch_size: int
    weight_decay: float = 0.0

    def minimize(
        self,
        mu: NDArray[np.float32],
        log_var: NDArray[np.float32],
        ranking: TruncatedRanking,
        margin: float,
        rng: np.random.RandomState,
        *,
        symmetric: bool = False,
        progress: ProgressCallback | None = None,
        path: Sequence[int] = (),
    ) -> DescentResult:
        """Move means and log-variances in place; ``path`` asks for copies after so many steps, ascending."""
        n_labels = ranking.n_labels
        parameters, gaussians = [mu, log_var], Gaussians.empty_like(mu)
        for start in range(0, n_labels, ROWS_AT_ONCE):
            gaussians.refresh(log_var, np.arange(start, min(start + ROWS_AT_ONCE, n_labels)))
        first = [np.zeros_like(p) for p in parameters]
        second = [np.zeros_like(p) for p in parameters]
        kept = [[p.copy() for p in parameters] for n in path if n == 0]
        steps = np.zeros(n_labels, dtype=np.int32)
        rate_after = self._rates()
        losses: list[float] = []
        best, since = np.inf, 0
        while len(losses) < self.n_steps:
            before = len(losses)
            order = rng.permutation(n_labels) if self.batch_size < n_labels else np.arange(n_labels)
            for start in range(0, n_labels, self.batch_size):
                if len(losses) == self.n_steps:
                    break
                anchors = order[start : start + self.batch_size]
                listed = ranking.of(anchors, rng)
                loss, rows, *gradients = ranking_gradient(gaussians, anchors, listed, margin, symmetric=symmetric)
                losses.append(loss)
                if progress is not None:
                    progress(Progress("embedding", len(losses), self.n_steps, loss))
                steps[rows] += 1
                rates = rate_after[steps[rows]]
                for p, m, v, gradient in zip(parameters, first, second, gradients, strict=True):
                    adam_update_rows(p, m, v, rows, gradient, rates, 1.0 - self.learning_rate * self.weight_decay)
                gaussians.refresh(log_var, rows)
                kept.extend([p.copy() for p in parameters] for n in path if n == len(losses))
            mean = float(np.mean(losses[before:]))
            if self.tol is not None:
                since = 0 if mean <= best * (1 - self.tol) else since + len(losses) - before
                best = min(best, mean) if since == 0 else best
                if since >= self.patience or mean == 0:
                    return DescentResult(parameters, losses, converged=True, path=kept)
        return DescentResult(parameters, losses, None if self.tol is None else False, kept)

    def _rates(self) -> NDArray[np.float64]:
        """The learning rate of a row that makes its first, second, ... step; entry 0 is not used."""
        ones = np.ones(self.n_steps)  # products one after the other, not powers, of which every library has its own
        power1, power2 = np.cumprod(BETA1 * ones), np.cumprod(BETA2 * ones)
        return np.append(0.0, self.learning_rate * np.sqrt(1 - power2) / (1 - power1))
