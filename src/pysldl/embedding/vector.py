"""Labels as plain vectors: the ablation "without Gaussian embedding"."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils import check_random_state

from pysldl.embedding.base import LabelEmbedding, seen_labels
from pysldl.embedding.descent import Descent
from pysldl.embedding.transfer import Weighting, cooccurrence, transfer_matrix
from pysldl.progress import ProgressCallback

__all__ = ["VectorLabelEmbedding"]


class VectorLabelEmbedding(LabelEmbedding):
    """Label vectors whose inner products reproduce the transfer matrix in the least squares sense.

    The paper replaces "latent multivariate Gaussian distributions" and the ranking loss "with latent embedding vectors
    and mean square error" and says no more. Here the squared error is between ``e_i · e_j`` and the transfer
    probability from i to j, scaled so that the strongest of each row is 1; the pair of a label with itself is left
    out, as in the ranking.

    Parameters
    ----------
    n_components, cooccurrence, walk_steps, discount, init_scale, random_state
    learning_rate, weight_decay, max_steps, tol, patience
        As in :class:`GaussianLabelEmbedding`.

    Attributes
    ----------
    components_ : ndarray of shape (n_labels, n_components)
    losses_ : list of float
    converged_ : bool
    """

    _saved_state = ("components_", "losses_", "converged_")

    def __init__(
        self,
        n_components: int = 128,
        *,
        cooccurrence: Weighting = "binary",
        walk_steps: int = 10,
        discount: float = 0.5,
        learning_rate: float = 1e-2,
        weight_decay: float = 0.0,
        max_steps: int = 1000,
        tol: float = 5e-3,
        patience: int = 50,
        init_scale: float = 0.1,
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.cooccurrence = cooccurrence
        self.walk_steps = walk_steps
        self.discount = discount
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.max_steps = max_steps
        self.tol = tol
        self.patience = patience
        self.init_scale = init_scale
        self.random_state = random_state

    def memory(self, n_labels: int) -> int:
        """Bytes at the peak: half a dozen (n_labels, n_labels) arrays and the optimiser's copies."""
        return 24 * n_labels**2 + 40 * n_labels * self.n_components

    def _place(self, Y: sparse.csr_array, progress: ProgressCallback | None) -> None:
        seen = seen_labels(Y)
        target = transfer_matrix(cooccurrence(Y[:, seen], self.cooccurrence), self.walk_steps, self.discount)
        np.fill_diagonal(target, 0.0)
        strongest = target.max(axis=1, keepdims=True, initial=0.0)
        np.divide(target, strongest, out=target, where=strongest > 0)

        rng = check_random_state(self.random_state)
        start = rng.normal(0.0, self.init_scale, (Y.shape[1], self.n_components)).astype(np.float32)[seen]
        descent = Descent(self.learning_rate, self.max_steps, self.tol, self.patience, weight_decay=self.weight_decay)
        result = descent.minimise(lambda parameters: squared_error(parameters[0], target), [start], progress)
        self.components_ = np.zeros((Y.shape[1], self.n_components), dtype=np.float32)
        self.components_[seen] = result.parameters[0]
        self.losses_ = result.losses
        self.converged_ = result.converged


def squared_error(E: NDArray[Any], target: NDArray[Any]) -> tuple[float, list[NDArray[Any]]]:
    """Mean over pairs i ≠ j of ``(e_i · e_j - target_ij)²``, and its gradient with respect to ``E``."""
    residual = E @ E.T
    residual -= target
    np.fill_diagonal(residual, 0.0)
    n_pairs = max(len(E) * (len(E) - 1), 1)
    loss = float(np.sum(residual * residual, dtype=np.float64)) / n_pairs
    return loss, [(2.0 / n_pairs) * ((residual + residual.T) @ E).astype(E.dtype, copy=False)]
