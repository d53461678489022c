"""The ranking loss minimised a few anchors at a time; only the labels that they rank move."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pysldl.embedding.hinge import consecutive_violations
from pysldl.embedding.truncated import TruncatedRanking
from pysldl.kernels.gaussian_pairs import pair_divergences, pull_anchors, pull_labels
from pysldl.kernels.row_adam import BETA1, BETA2, move_rows
from pysldl.progress import Progress, ProgressCallback

__all__ = ["BatchDescent", "Gaussians", "ranking_gradient"]

Labels = NDArray[np.integer]


class Gaussians:
    """Means and log-variances of all labels, with what their divergences need.

    Attributes
    ----------
    mu, log_var, precision : ndarrays of shape (n_labels, n_components), float32
    log_volume : ndarray of shape (n_labels,), float32
    """

    def __init__(self, mu: NDArray[np.float32], log_var: NDArray[np.float32]) -> None:
        self.mu, self.log_var = mu, log_var
        self.precision = np.exp(-log_var)
        self.log_volume = log_var.sum(axis=1)

    def refresh(self, rows: Labels) -> None:
        """Bring what is derived up to date after the log-variances of ``rows`` moved."""
        log_var = self.log_var[rows]
        self.log_volume[rows] = log_var.sum(axis=1)
        self.precision[rows] = np.exp(-log_var)


def ranking_gradient(
    gaussians: Gaussians, anchors: Labels, listed: Labels, margin: float, *, symmetric: bool = False
) -> tuple[float, Labels, NDArray[np.float32], NDArray[np.float32]]:
    """The ranking loss (Eq. 7) of some anchors, and its gradient by the labels that it moves.

    Parameters
    ----------
    anchors : ndarray of shape (n_anchors,)
    listed : ndarray of shape (n_anchors, n_listed)
        Labels in the order in which each anchor shall have them; -1 behind the end.
    margin : float
    symmetric : bool
        Jensen-Shannon instead of Kullback-Leibler divergence.

    Returns
    -------
    loss : float
        Mean over the anchors.
    rows : ndarray of shape (n_rows,)
        Labels with a gradient, ascending: the anchors, and all that they pull or push.
    by_mu, by_log_var : ndarrays of shape (n_rows, n_components)
    """
    g = gaussians
    D = pair_divergences(g.mu, g.precision, g.log_volume, anchors, listed, symmetric=symmetric)
    total, directions = consecutive_violations(D, margin, there=listed >= 0)
    pull = directions * D.dtype.type(1.0 / len(anchors))
    of_anchors = pull_anchors(pull, g.mu, g.precision, anchors, listed, symmetric=symmetric)

    source, slot = np.nonzero(directions)
    label = listed[source, slot]
    by_label = np.argsort(label, kind="stable")
    source, label, weight = source[by_label], label[by_label], pull[source, slot][by_label]
    rows = np.union1d(anchors, label)
    starts = np.searchsorted(label, np.append(rows, g.mu.shape[0]))
    gradients = pull_labels(starts, source, weight, rows, g.mu, g.precision, anchors, symmetric=symmetric)
    at = np.searchsorted(rows, anchors)
    for gradient, of_anchor in zip(gradients, of_anchors, strict=True):
        gradient[at] += of_anchor
    return total / len(anchors), rows, *gradients


@dataclass(frozen=True)
class BatchDescent:
    """Adam over batches of anchors, with the state and the number of steps of every label apart.

    A label moves when it is an anchor of the batch or stands on the wrong side of one. With all anchors in one batch
    this is :class:`~pysldl.embedding.descent.Descent` but for the best parameters, which are not kept apart here.

    Parameters
    ----------
    learning_rate, weight_decay : float
    max_steps : int
        Cap on the number of batches.
    tol, patience : float, int
        Stop when the mean loss of a pass over all anchors has not fallen by the fraction ``tol`` during ``patience``
        batches, and at least one pass; ``tol=0`` runs all steps.
    batch_size : int
        Anchors at a time.
    """

    learning_rate: float
    max_steps: int
    tol: float
    patience: int
    batch_size: int
    weight_decay: float = 0.0

    def minimise(
        self,
        gaussians: Gaussians,
        ranking: TruncatedRanking,
        margin: float,
        rng: np.random.RandomState,
        *,
        symmetric: bool = False,
        progress: ProgressCallback | None = None,
    ) -> tuple[list[float], bool]:
        """Move ``gaussians`` in place; returns the loss of every batch, and whether it stopped falling."""
        n_labels = ranking.n_labels
        parameters = (gaussians.mu, gaussians.log_var)
        first = [np.zeros_like(p) for p in parameters]
        second = [np.zeros_like(p) for p in parameters]
        steps = np.zeros(n_labels, dtype=np.int32)
        losses: list[float] = []
        best, since = np.inf, 0
        while len(losses) < self.max_steps:
            before = len(losses)
            order = rng.permutation(n_labels) if self.batch_size < n_labels else np.arange(n_labels)
            for start in range(0, n_labels, self.batch_size):
                if len(losses) == self.max_steps:
                    break
                anchors = order[start : start + self.batch_size]
                listed = ranking.of(anchors, rng)
                loss, rows, *gradients = ranking_gradient(gaussians, anchors, listed, margin, symmetric=symmetric)
                losses.append(loss)
                if progress is not None:
                    progress(Progress("embedding", len(losses), self.max_steps, loss))
                steps[rows] += 1
                rates = self._rates(steps[rows], len(losses))
                for p, m, v, gradient in zip(parameters, first, second, gradients, strict=True):
                    move_rows(p, m, v, rows, gradient, rates, 1.0 - self.learning_rate * self.weight_decay)
                gaussians.refresh(rows)
            mean = float(np.mean(losses[before:]))
            if self.tol > 0:
                since = 0 if mean <= best * (1 - self.tol) else since + len(losses) - before
                best = min(best, mean) if since == 0 else best
                if since >= self.patience or mean == 0:
                    return losses, True
        return losses, False

    def _rates(self, steps: NDArray[np.int32], step: int) -> NDArray[np.float32]:
        corrected = np.sqrt(1 - BETA2 ** steps.astype(np.float64)) / (1 - BETA1 ** steps.astype(np.float64))
        return (self.learning_rate * corrected).astype(np.float32)
