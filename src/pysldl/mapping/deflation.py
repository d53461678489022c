"""The few directions in which features vary most together, taken out of the way of conjugate gradients."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Deflation", "deflation_directions"]

MOST_DIRECTIONS = 64
PASSES = 2


@dataclass(frozen=True)
class Deflation:
    """A correction of the diagonal preconditioner ``scale``: ``scale * r + V (gain * (Vᵀ r))``.

    With texts, a few dozen directions, those of the common words, hold eigenvalues far above all others, and the steps
    grow with the root of the largest. The correction brings them down to the smallest of theirs.

    Attributes
    ----------
    V : ndarray of shape (n_features, n_directions)
    gain : ndarray of shape (n_directions, 1), from -1 to 0
    """

    V: NDArray[Any]
    gain: NDArray[Any]

    def parts(self, residual: NDArray[Any]) -> NDArray[Any]:
        """The residual along the directions, (n_directions, n_columns)."""
        return self.V.T @ residual

    def energy(self, parts: NDArray[Any]) -> NDArray[np.float64]:
        """What the correction adds to ``residual · scale residual`` of every column."""
        return np.einsum("kj,kj->j", self.gain * parts, parts, dtype=np.float64)

    def correct(self, direction: NDArray[Any], parts: NDArray[Any]) -> None:
        """Add the correction of a residual with those parts to a direction, in place."""
        direction += self.V @ (self.gain * parts)


def deflation_directions(design: Any, alpha: float, scale: NDArray[Any], n_directions: int) -> Deflation:
    """Find them by subspace iteration with ``sqrt(scale) (XᵀX + alpha I) sqrt(scale)``, from random vectors.

    It takes three products with X and its transpose, of ``n_directions`` columns each.

    Parameters
    ----------
    design : Design
        In the precision in which the steps are taken.
    alpha : float
    scale : ndarray of shape (n_features,)
        The diagonal preconditioner.
    n_directions : int
    """
    root = np.sqrt(scale)[:, None]

    def scaled(P: NDArray[Any]) -> NDArray[Any]:
        P = root * P
        return root * (design.transposed_times(design.times(P)) + scale.dtype.type(alpha) * P)

    rng = np.random.default_rng(0)
    Q = rng.standard_normal((len(scale), n_directions), dtype=np.float32).astype(scale.dtype, copy=False)
    for _ in range(PASSES):
        Q = np.linalg.qr(scaled(Q))[0]
    values, turned = np.linalg.eigh(Q.T @ scaled(Q))
    values = np.maximum(values, 1e-12)
    gain = np.minimum(values[0] / values - 1.0, 0.0)
    return Deflation(root * (Q @ turned), gain[:, None].astype(scale.dtype))
