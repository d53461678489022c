"""The features of a regression as an operator: centered on the fly, rows held out without a copy of the others."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import DTypeLike, NDArray
from scipy import sparse

from pysldl.backend.dispatch import as_int32_indices, primitive
from pysldl.backend.sparse_product import sparse_times
from pysldl.backend.threads import matmul

__all__ = ["DesignMatrix", "as_dense", "design_matrix"]


@primitive(torch="arrays")
def design_matrix(X: Any, mean: NDArray[np.floating] | None = None) -> "DesignMatrix":
    """The operator ``X - mean``, whose products are computed on the device where one is in use.

    Parameters
    ----------
    X : ndarray or csr_array of shape (n_samples, n_features)
    mean : ndarray of shape (n_features,), optional
        Taken off every row on the fly: an intercept costs no dense copy of sparse input.
    """
    return DesignMatrix(X, mean)


@dataclass(frozen=True)
class DesignMatrix:
    """See :func:`design_matrix`; ``without`` are rows that count as zero, because they are held out."""

    X: Any
    mean: NDArray[np.floating] | None
    without: NDArray[np.integer] | None = None

    @cached_property
    def transpose(self) -> Any:
        """``X`` by columns, so that each row of ``XᵀZ`` is one thread's."""
        return as_int32_indices(sparse.csr_array(self.X.T)) if sparse.issparse(self.X) else self.X.T

    def without_rows(self, rows: NDArray[np.integer]) -> Self:
        """The same, with some rows held out."""
        fewer = replace(self, without=rows)
        fewer.__dict__["transpose"] = self.transpose  # one serves both
        return fewer

    def only_rows(self, rows: NDArray[np.integer]) -> Self:
        """The operator of some rows."""
        return replace(self, X=self.X[rows], without=None)

    def single(self) -> Self:
        """The same in single precision."""
        if self.X.dtype == np.float32:
            return self
        mean = None if self.mean is None else self.mean.astype(np.float32)
        return replace(self, X=self.X.astype(np.float32), mean=mean)

    def double(self) -> Self:
        """The same for products with double precision; on the processor any design can have them."""
        return self

    def times(self, W: Any) -> Any:
        """``(X - mean) @ W``."""
        product = _times(self.X, W)
        if self.mean is not None:
            product -= (self.mean @ W).astype(product.dtype)
        if self.without is not None:
            product[self.without] = 0
        return product

    def transposed_times(self, Z: Any) -> Any:
        """``(X - mean).T @ Z``; with ``without``, rows of ``Z`` that are to be zero must be."""
        product = _times(self.transpose, Z)
        if self.mean is not None:
            product -= np.outer(self.mean, Z.sum(axis=0)).astype(product.dtype)
        return product

    def ridge_times(self, W: Any, alpha: float) -> Any:
        """``((X - mean).T @ (X - mean) + alpha I) @ W``."""
        product = self.transposed_times(self.times(W))
        product += alpha * W
        return product

    def residual(self, B: Any, W: Any, alpha: float) -> Any:
        """What ``W`` leaves of the right-hand side ``B`` of the normal equations."""
        return B - self.transposed_times(self.times(W)) - alpha * W

    def zeros(self, n_columns: int, dtype: DTypeLike) -> Any:
        """Weights of zero, (n_features, n_columns)."""
        return np.zeros((self.X.shape[1], n_columns), dtype=dtype)

    def gram(self) -> Any:
        """``(X - mean).T @ (X - mean)``, dense (n_features, n_features), float64."""
        gram = as_dense(self.X.T @ self.X) if sparse.issparse(self.X) else matmul(self.X.T, self.X)
        return gram if self.mean is None else gram - self.X.shape[0] * np.outer(self.mean, self.mean)

    def kernel(self) -> Any:
        """``(X - mean) @ (X - mean).T``, dense (n_samples, n_samples), float64."""
        kernel = as_dense(self.X @ self.X.T) if sparse.issparse(self.X) else matmul(self.X, self.X.T)
        if self.mean is None:
            return kernel
        across = self.X @ self.mean
        return kernel - across - across[:, None] + self.mean @ self.mean

    def dense_rows(self, rows: Any) -> Any:
        """Some rows, dense and centered, float64."""
        block = as_dense(self.X[rows])
        return block if self.mean is None else block - self.mean

    def column_squares(self) -> NDArray[np.float64]:
        """Diagonal of the Gram matrix, (n_features,)."""
        X = self.X
        if sparse.issparse(X):
            squares: NDArray[Any] = np.bincount(X.indices, weights=X.data.astype(np.float64) ** 2, minlength=X.shape[1])
        else:
            squares = np.einsum("ij,ij->j", X, X, dtype=np.float64)
        return squares if self.mean is None else np.maximum(squares - X.shape[0] * self.mean.astype(float) ** 2, 0.0)


def _times(X: Any, P: NDArray[Any]) -> NDArray[Any]:
    return sparse_times(X, P) if sparse.issparse(X) else matmul(X, P)


def as_dense(matrix: Any, dtype: DTypeLike | None = np.float64) -> NDArray[Any]:
    """A matrix, sparse or not, as an array of that type, or of its own where None is given."""
    return np.asarray(matrix.toarray() if sparse.issparse(matrix) else matrix, dtype=dtype)
