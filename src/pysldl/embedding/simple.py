"""Embeddings that ignore the relations between labels: the controls of the experiments."""

from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils import check_random_state
from sklearn.utils.extmath import randomized_svd

from pysldl._utils.constraints import Count, Positive, Seed
from pysldl._utils.progress import ProgressCallback
from pysldl.embedding.base import DRAWN_TOGETHER, LabelEmbedding, normal_rows, seen_labels


@dataclass(eq=False, repr=False)
class RandomLabelEmbedding(LabelEmbedding):
    """Independent normal vectors: where the Gaussian embedding starts, untrained.

    Parameters
    ----------
    n_components : int
        Width of the latent space (c_hat).
    scale : float
        Standard deviation of each number.
    random_state : int, RandomState or None
        Seed of everything random.

    Examples
    --------
    >>> embedding = RandomLabelEmbedding(4, random_state=0).fit(np.eye(3))
    >>> bool((embedding.transform(np.array([[1, 1, 0]]))[0] == embedding.components_[:2].sum(axis=0)).all())
    True
    """

    n_components: Count = 128
    _: KW_ONLY
    scale: Positive = 0.1
    random_state: Seed = None

    def memory(self, n_labels: int, *, n_pairs: int | None = None, limit: int | str | None = None) -> int:
        """Bytes of the vectors, and once more while they are drawn."""
        return 8 * n_labels * self.n_components + 8 * DRAWN_TOGETHER

    def _place(self, Y: sparse.csr_array, progress: ProgressCallback | None, memory_limit: int | str | None) -> None:
        self.components_ = np.zeros((Y.shape[1], self.n_components), dtype=np.float32)
        self._draw(seen_labels(Y))

    def _place_further(self, Y: sparse.csr_array, new: NDArray[np.intp]) -> None:
        """What :meth:`fit` would have drawn for them, had they been there."""
        self._draw(new)

    def _draw(self, labels: NDArray[np.intp]) -> None:
        rng = check_random_state(self.random_state)
        self.components_[labels] = normal_rows(rng, self.scale, self.components_.shape, labels)


class IdentityLabelEmbedding(LabelEmbedding):
    """No embedding: a row's target is its indicator. The latent space is as wide as there are labels.

    Attributes
    ----------
    components_ : csr_array of shape (n_labels, n_labels)

    Examples
    --------
    >>> IdentityLabelEmbedding().fit_transform(np.array([[1, 0, 1]])).toarray()
    array([[1., 0., 1.]], dtype=float32)
    """

    def memory(self, n_labels: int, *, n_pairs: int | None = None, limit: int | str | None = None) -> int:
        """Bytes of the sparse identity."""
        return 12 * n_labels

    def _place(self, Y: sparse.csr_array, progress: ProgressCallback | None, memory_limit: int | str | None) -> None:
        self.components_ = sparse.csr_array(sparse.eye_array(Y.shape[1], dtype=np.float32))

    def extend(self, Y: Any) -> Self:
        """Give every new label an axis of its own, and move no other."""
        return self.fit(Y)  # each label has its own axis: none moves


@dataclass(eq=False, repr=False)
class SVDLabelEmbedding(LabelEmbedding):
    """Right singular vectors of Y: the best linear compression of the indicator.

    Parameters
    ----------
    n_components : int
        Width of the latent space (c_hat); reduced to the number of labels if there are fewer.
    random_state : int, RandomState or None
        Seed of everything random.

    Examples
    --------
    >>> SVDLabelEmbedding(2, random_state=0).fit(np.eye(3)[[0, 0, 1, 2]]).components_.shape
    (3, 2)
    """

    n_components: Count = 128
    _: KW_ONLY
    random_state: Seed = None

    def memory(self, n_labels: int, *, n_pairs: int | None = None, limit: int | str | None = None) -> int:
        """Bytes of the factors of the randomized decomposition, with its ten extra columns."""
        return 4 * 8 * n_labels * (self.n_components + 10)

    def _place(self, Y: sparse.csr_array, progress: ProgressCallback | None, memory_limit: int | str | None) -> None:
        width = min(self.n_components, *Y.shape)
        _, _, right = randomized_svd(Y, width, random_state=self.random_state)
        self.components_ = np.ascontiguousarray(right.T, dtype=np.float32)
