"""Base classes of the label embeddings."""

import warnings
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field
from itertools import pairwise
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from pysldl._utils.constraints import AnnotatedParameters, Count, CountOrZero, NotNegative, Positive, Seed
from pysldl._utils.light_estimator import validate_parameters
from pysldl._utils.progress import ProgressCallback
from pysldl.backend.threads import fixed_order_blas
from pysldl.embedding.adam import DescentResult
from pysldl.embedding.label_graph import Graph, Weighting
from pysldl.exceptions import DataError
from pysldl.preprocessing.labels import as_indicator

PAIRS_PER_LABEL = 100
DRAWN_TOGETHER = 1 << 20


class LabelEmbedding(AnnotatedParameters, TransformerMixin, BaseEstimator):
    """Base of the embeddings: ``fit`` learns a vector for each label, ``transform`` sums those of a row's labels.

    ``components_`` is a float32 array of shape (n_labels, n_components); labels that never occur in training have
    zeros.
    """

    components_: Any
    _saved_state: tuple[str, ...] = ("components_",)

    def fit(
        self,
        Y: Any,
        y: object = None,
        *,
        progress: ProgressCallback | None = None,
        memory_limit: int | str | None = None,
    ) -> Self:
        """Learn a vector for each label from an indicator ``Y`` (n_samples, n_labels), dense or sparse.

        ``progress`` is called after every step of a descent. ``memory_limit`` (default: the free memory of the machine)
        decides between a dense and a sparse path. ``y`` is ignored.
        """
        validate_parameters(self)
        with fixed_order_blas():
            self._place(as_indicator(Y), progress, memory_limit)
        return self

    def transform(self, Y: Any) -> NDArray[np.float32] | sparse.csr_array:
        """Targets z of rows: the sum of their labels' vectors (Eq. 9), shape (n_samples, n_components)."""
        check_is_fitted(self)
        Y = as_indicator(Y)
        if Y.shape[1] != self.components_.shape[0]:
            raise DataError(
                f"Y has {Y.shape[1]} labels, but the embedding was fitted with {self.components_.shape[0]}."
            )
        return Y @ self.components_

    def extend(self, Y: Any) -> Self:
        """Learn vectors for labels that have none yet, without moving the others.

        ``Y`` holds all rows, old and new; columns beyond those of :meth:`fit` are new labels.
        """
        check_is_fitted(self)
        Y = as_indicator(Y)
        n_known = self.components_.shape[0]
        if Y.shape[1] < n_known:
            raise DataError(f"Y has {Y.shape[1]} labels, but the embedding holds {n_known} already.")
        self._widen(Y.shape[1] - n_known)
        seen = seen_labels(Y)
        new = seen[~self.components_[seen].any(axis=1)]
        if new.size:
            with fixed_order_blas():
                self._place_further(Y, new)
        return self

    def memory(self, n_labels: int, *, n_pairs: int | None = None, limit: int | str | None = None) -> int:
        """Return the bytes that :meth:`fit` needs at its peak, besides its input.

        ``n_pairs`` is the number of label pairs that share a row, for which a sparse graph holds one number each; an
        upper bound is the sum over rows of the squared number of labels. Without it, a hundred per label are assumed.
        """
        raise NotImplementedError

    def _place(self, Y: sparse.csr_array, progress: ProgressCallback | None, memory_limit: int | str | None) -> None:
        raise NotImplementedError

    def _widen(self, n_new: int) -> None:
        """Zeros for labels beyond the known ones; in any case arrays that may be written to."""
        self.components_ = np.pad(self.components_, ((0, n_new), (0, 0)))

    def _place_further(self, Y: sparse.csr_array, new: NDArray[np.intp]) -> None:
        """Draw the vectors of the labels ``new`` with the spread that the others have."""
        placed = self.components_[self.components_.any(axis=1)]
        rng = check_random_state(getattr(self, "random_state", None))
        draw = normal_rows(rng, 1.0, self.components_.shape, new)  # new labels go on where a larger draw would
        self.components_[new] = placed.mean(axis=0) + placed.std(axis=0) * draw


@dataclass(eq=False, repr=False)
class TrainedLabelEmbedding(LabelEmbedding):
    """Base of the trained embeddings: a subclass minimizes its loss in ``_descend`` and sets the result in ``_keep``.

    Parameters
    ----------
    n_components : int, default=128
        Width of the latent space (c_hat).
    cooccurrence : {"binary", "count"}, default="binary"
        The paper links two labels that ever share a row; counting how often gives the walk more to follow.
    walk_steps, discount : int, float
        Length of the random walk, and the factor from one step to the next.
    learning_rate, weight_decay : float
        Of Adam; weight decay is decoupled (AdamW).
    n_steps : int, default=300
        Number of Adam steps.
    tol : float or None, default=None
        None takes all steps. A number asks for convergence instead: the descent stops when the lowest loss has not
        fallen by this fraction during ``patience`` steps, and warns if ``n_steps`` ends it before.
    patience : int, default=50
        Steps without a fall of the loss by ``tol`` after which the descent stops.
    graph : {"auto", "dense", "sparse"}, default="auto"
        ``"dense"`` follows all pairs of labels: time and memory grow with their square. ``"sparse"`` follows those that
        share a row. ``"auto"`` is dense for up to two thousand labels that occur, if that fits into memory.
    n_walk_labels : int, default=64
        Sparse: labels kept of every walk.
    random_state : int, RandomState or None, default=None
        Seed of everything random.
    """

    n_components: Count = 128
    _: KW_ONLY
    cooccurrence: Weighting = "binary"
    walk_steps: CountOrZero = 10
    discount: NotNegative = 0.5
    learning_rate: Positive = 1e-2
    weight_decay: NotNegative = 0.0
    n_steps: CountOrZero = 300
    tol: NotNegative | None = None
    patience: Count = 50
    graph: Literal["auto", "dense", "sparse"] = "auto"
    n_walk_labels: Count = 64
    random_state: Seed = None

    graph_: Graph = field(init=False)

    def fit_path(self, Y: Any, n_steps: Sequence[int], *, memory_limit: int | str | None = None) -> list[Self]:
        """Fit embeddings for several ascending numbers of steps by one descent.

        Each is the same, bit for bit, as fitting with that number of steps.
        """
        validate_parameters(self)
        steps = [int(number) for number in n_steps]
        if not steps or steps[0] < 0 or any(a >= b for a, b in pairwise(steps)):
            raise DataError(f"n_steps must be ascending numbers of steps, such as (100, 300, 1000), but is {steps}.")
        if self.tol is not None:
            raise DataError(f"fit_path counts steps, but tol={self.tol} may end the descent before: set tol=None.")
        longest = clone(self).set_params(n_steps=steps[-1])
        fitted = []
        with fixed_order_blas():
            Y = as_indicator(Y)
            result = longest._descend(Y, None, memory_limit, steps)
            for number, parameters in zip(steps, result.path, strict=True):
                embedding = clone(self).set_params(n_steps=number)
                embedding.graph_ = longest.graph_
                embedding._keep(Y, DescentResult(parameters, result.losses[:number], None))
                fitted.append(embedding)
        return fitted

    def _descend(
        self,
        Y: sparse.csr_array,
        progress: ProgressCallback | None,
        memory_limit: int | str | None,
        path: Sequence[int] = (),
    ) -> DescentResult:
        """Draw the labels that occur and move them; sets ``graph_``."""
        raise NotImplementedError

    def _keep(self, Y: sparse.csr_array, result: DescentResult) -> None:
        """Set the fitted attributes from the result of a descent; labels that do not occur are zero."""
        self.components_ = np.zeros((Y.shape[1], self.n_components), dtype=np.float32)
        self.components_[seen_labels(Y)] = result.parameters[0]
        self.losses_, self.converged_ = result.losses, result.converged

    def _place(self, Y: sparse.csr_array, progress: ProgressCallback | None, memory_limit: int | str | None) -> None:
        result = self._descend(Y, progress, memory_limit)
        self._keep(Y, result)
        if result.converged is False:
            warnings.warn(
                f"The loss still falls after n_steps={self.n_steps}: raise n_steps or tol, or set tol=None, for which "
                "the number of steps is a regularizer and convergence is not asked for.",
                ConvergenceWarning,
                stacklevel=3,
            )


def seen_labels(Y: sparse.csr_array) -> NDArray[np.intp]:
    """Columns of ``Y`` that occur at least once."""
    return np.flatnonzero(np.bincount(Y.indices, minlength=Y.shape[1]))


def normal_rows(
    rng: np.random.RandomState, scale: float, shape: tuple[int, int], rows: NDArray[np.integer]
) -> NDArray[np.float32]:
    """The ``rows`` (ascending) of a draw of (n_labels, n_components) normal numbers, without holding the others."""
    n_labels, n_components = shape
    kept = np.empty((len(rows), n_components), dtype=np.float32)
    block = max(1, DRAWN_TOGETHER // n_components)
    for start in range(0, n_labels, block):
        stop = min(start + block, n_labels)
        drawn = rng.normal(0.0, scale, (stop - start, n_components))
        inside = slice(*np.searchsorted(rows, (start, stop)))
        kept[inside] = drawn[rows[inside] - start]
    return kept


def assumed_pairs(n_labels: int, n_pairs: int | None) -> int:
    """Entries of the label graph: as counted, or an assumption."""
    return min(n_labels**2, PAIRS_PER_LABEL * n_labels) if n_pairs is None else min(n_labels**2, n_pairs)
