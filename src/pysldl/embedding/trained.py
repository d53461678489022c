"""What the embeddings that are trained by a descent share: one fit, or a path of fits from one descent."""

import warnings
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Self

from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from pysldl._utils.progress import ProgressCallback
from pysldl.backend.threads import fixed_order_blas
from pysldl.embedding.adam import DescentResult
from pysldl.embedding.base import LabelEmbedding
from pysldl.embedding.graph_choice import Graph
from pysldl.exceptions import DataError
from pysldl.preprocessing.labels import as_indicator

__all__ = ["TrainedLabelEmbedding"]


class TrainedLabelEmbedding(LabelEmbedding):
    """Base of the embeddings with ``n_steps``: a subclass descends in ``_descend`` and keeps the end in ``_keep``."""

    n_steps: int
    tol: float | None
    graph_: Graph

    def fit_path(self, Y: Any, n_steps: Sequence[int], *, memory_limit: int | str | None = None) -> list[Self]:
        """Fitted embeddings for several numbers of steps, from one descent.

        Parameters
        ----------
        Y : indicator of shape (n_samples, n_labels)
        n_steps : sequence of int
            Ascending.
        memory_limit : int or str, optional
            As in :meth:`fit`.

        Returns
        -------
        list of fitted embeddings
            The same, bit for bit, as fitting with each number of steps.
        """
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
        """Take the end of a descent for the fitted state."""
        raise NotImplementedError

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
