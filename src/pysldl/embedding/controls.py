"""Embeddings that learn nothing from the relations between labels: the controls of every experiment."""

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils import check_random_state
from sklearn.utils.extmath import randomized_svd

from pysldl.embedding.base import LabelEmbedding, seen_labels
from pysldl.progress import ProgressCallback

__all__ = ["IdentityLabelEmbedding", "RandomLabelEmbedding", "SVDLabelEmbedding"]


class RandomLabelEmbedding(LabelEmbedding):
    """Independent normal vectors: where the Gaussian embedding starts, untrained.

    Parameters
    ----------
    n_components : int
        Width of the latent space (c_hat).
    scale : float
        Standard deviation of each number.
    random_state : int, RandomState or None
    """

    def __init__(self, n_components: int = 128, *, scale: float = 0.1, random_state: Any = None) -> None:
        self.n_components = n_components
        self.scale = scale
        self.random_state = random_state

    def memory(self, n_labels: int) -> int:
        """Bytes of the vectors, once in double precision while they are drawn."""
        return 12 * n_labels * self.n_components

    def _place(self, Y: sparse.csr_array, progress: ProgressCallback | None) -> None:
        draw = check_random_state(self.random_state).normal(0.0, self.scale, (Y.shape[1], self.n_components))
        self.components_ = np.zeros(draw.shape, dtype=np.float32)
        seen = seen_labels(Y)
        self.components_[seen] = draw[seen]

    def _place_further(self, Y: sparse.csr_array, new: NDArray[np.intp]) -> None:
        """What :meth:`fit` would have drawn for them, had they been there."""
        draw = check_random_state(self.random_state).normal(0.0, self.scale, self.components_.shape)
        self.components_[new] = draw[new]


class IdentityLabelEmbedding(LabelEmbedding):
    """No embedding: a row's target is its indicator. The latent space is as wide as there are labels.

    Attributes
    ----------
    components_ : csr_array of shape (n_labels, n_labels)
    """

    def memory(self, n_labels: int) -> int:
        """Bytes of the sparse identity."""
        return 12 * n_labels

    def _place(self, Y: sparse.csr_array, progress: ProgressCallback | None) -> None:
        self.components_ = sparse.csr_array(sparse.eye_array(Y.shape[1], dtype=np.float32))

    def extend(self, Y: Any) -> Self:
        return self.fit(Y)  # each label has its own axis: none moves


class SVDLabelEmbedding(LabelEmbedding):
    """Right singular vectors of Y: the best linear compression of the indicator.

    Parameters
    ----------
    n_components : int
        Width of the latent space (c_hat); reduced to the number of labels where there are fewer.
    random_state : int, RandomState or None
    """

    def __init__(self, n_components: int = 128, *, random_state: Any = None) -> None:
        self.n_components = n_components
        self.random_state = random_state

    def memory(self, n_labels: int) -> int:
        """Bytes of the factors of the randomised decomposition, with its ten extra columns."""
        return 4 * 8 * n_labels * (self.n_components + 10)

    def _place(self, Y: sparse.csr_array, progress: ProgressCallback | None) -> None:
        width = min(self.n_components, *Y.shape)
        _, _, right = randomized_svd(Y, width, random_state=self.random_state)
        self.components_ = np.ascontiguousarray(right.T, dtype=np.float32)
