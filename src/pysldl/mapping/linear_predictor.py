"""From features to codes by one product."""

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from pysldl.backend.linear_algebra import dense_rows, sparse_times, times_axes
from pysldl.backend.nearest import pair_products
from pysldl.backend.threads import ROWS_PER_BLOCK, matmul

SUMS_AT_ONCE = 1 << 20
MOST_PRODUCTS = 1 << 31  # of two numbers, of weights and what is asked for: a tenth of a second
PRODUCTS_KEPT = 2  # a decoder asks for the axes of its neighbors and for its read-out

T = TypeVar("T")
Weights = tuple[NDArray[Any], NDArray[Any] | None, NDArray[Any] | None]


def landmark_squares(X: Any, landmarks: sparse.csr_array) -> NDArray[np.float64]:
    """The squared products of rows with landmarks, (n_rows, n_landmarks), added up in double precision."""
    across = landmarks.T.toarray().astype(np.float64)
    if sparse.issparse(X):
        products = sparse_times(sparse.csr_array(X), across, dtype=np.float64)
    else:
        products = matmul(np.asarray(X, dtype=np.float64), across)
    products *= products
    return products


class LinearPredictor:
    """The predicting half of :class:`~pysldl.mapping.RidgeMapping`: ``X @ coef_ + intercept_``.

    Where there are ``landmarks_``, products with those, squared, times ``landmark_coef_`` come beside.
    """

    fit_intercept: bool
    coef_: NDArray[np.float32]
    intercept_: NDArray[np.float32]
    one_dimensional_: bool
    landmarks_: sparse.csr_array | None = None
    landmark_coef_: NDArray[np.float32] | None = None

    def predict(self, X: Any) -> NDArray[np.float32]:
        """Latent codes ``X W`` (Eqs. 17 and 18), of shape (n_samples, n_components)."""
        codes = np.empty((X.shape[0], self.coef_.shape[1]), dtype=np.result_type(X.dtype, np.float32))
        self._put_products(X, self._weights(), codes)
        return codes.ravel() if self.one_dimensional_ else codes

    def predict_times(self, X: Any, B: NDArray[np.float32]) -> NDArray[np.float32]:
        """``predict(X) @ B``, of shape (n_samples, B.shape[1]), summed in double precision and rounded once.

        Rows are multiplied by the weights times ``B``, which are kept, unless that product itself would take long.
        """
        if self._takes_long(B):
            return times_axes(self.predict(X), B)
        found = np.empty((X.shape[0], B.shape[1]), dtype=np.float32)
        self._put_products(X, self._kept("_products", B, self._times), found)
        return found

    def predict_times_at(self, X: Any, B: NDArray[np.float32], columns: NDArray[np.integer]) -> NDArray[np.float32]:
        """Return :meth:`predict_times` at some columns of each row, of the shape of ``columns``."""
        if self._takes_long(B):
            return pair_products(self.predict(X), columns, np.ascontiguousarray(B.T))
        by_column = self._kept("_products_by_column", B, self._times_by_column)
        squares = None if self.landmarks_ is None else landmark_squares(X, self.landmarks_)
        found = np.empty(columns.shape, dtype=np.float32)
        for start in range(0, X.shape[0], ROWS_PER_BLOCK):
            part = slice(start, start + ROWS_PER_BLOCK)
            rows = [dense_rows(X[part]).astype(np.float64), *([] if squares is None else [squares[part]])]
            if self.fit_intercept:
                rows.append(np.ones((len(rows[0]), 1)))
            found[part] = pair_products(np.hstack(rows), columns[part], by_column)
        return found

    def _takes_long(self, B: NDArray[np.float32]) -> bool:
        return sum(0 if part is None else len(part) for part in self._weights()) * B.size > MOST_PRODUCTS

    def _kept(self, name: str, B: NDArray[np.float32], make: Callable[[NDArray[np.float32]], T]) -> T:
        """What is made of the present weights and ``B``, which is kept."""
        kept = self.__dict__.setdefault(name, [])
        made: T | None = next((product for coef, of, product in kept if coef is self.coef_ and of is B), None)
        if made is None:
            made = make(B)
            self.__dict__[name] = [(self.coef_, B, made), *kept[: PRODUCTS_KEPT - 1]]
        return made

    def _times(self, B: NDArray[np.float32]) -> Weights:
        """The weights times ``B``."""
        wide = B.astype(np.float64)
        of_features, *others = (
            None if part is None else matmul(part.astype(np.float64), wide) for part in self._weights()
        )
        assert of_features is not None
        return of_features.astype(np.float32), others[0], others[1]

    def _times_by_column(self, B: NDArray[np.float32]) -> NDArray[np.float64]:
        """The same, one row for each column of ``B``."""
        return np.hstack([part.T.astype(np.float64) for part in self._times(B) if part is not None])

    def _weights(self) -> Weights:
        """What features, squared products with landmarks, and each row as such are multiplied by."""
        of_landmarks = None if self.landmarks_ is None else self.landmark_coef_
        return self.coef_, of_landmarks, self.intercept_[None] if self.fit_intercept else None

    def _put_products(self, X: Any, weights: Weights, out: NDArray[Any]) -> None:
        """Write products of rows with ``weights``, summed in double precision and rounded once.

        So codes are the same on every processor.
        """
        of_features, of_landmarks, of_rows = weights
        factor = of_features if sparse.issparse(X) else of_features.astype(np.float64)
        at_once = max(1, SUMS_AT_ONCE // max(out.shape[1], 1))
        for start in range(0, X.shape[0], at_once):
            part = slice(start, start + at_once)
            rows = X if X.shape[0] <= at_once else X[part]
            sums = (
                sparse_times(rows, factor, dtype=np.float64)
                if sparse.issparse(X)
                else matmul(np.asarray(rows, dtype=np.float64), factor)
            )
            if self.landmarks_ is not None and of_landmarks is not None:
                sums += matmul(landmark_squares(rows, self.landmarks_), of_landmarks.astype(np.float64, copy=False))
            if of_rows is not None:
                sums += of_rows
            out[part] = sums

    def weights_at(self, row: sparse.csr_array) -> NDArray[Any]:
        """Weights of the features of one row, (n_nonzeros, n_components): with its values they add up to its code.

        A landmark's weight times the squared product is shared by the features as the product is.
        """
        weights: NDArray[Any] = self.coef_[row.indices]
        if self.landmarks_ is not None and self.landmark_coef_ is not None:
            own = self.landmarks_[:, row.indices].toarray()
            weights = weights + own.T @ ((own @ row.data)[:, None] * self.landmark_coef_)
        return weights


class LandmarkPredictor(LinearPredictor):
    """The predicting half of :class:`~pysldl.mapping.LandmarkRidge`."""
