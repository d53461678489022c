"""The two terms of the paper's error bound (Theorem 1), measured: what the embedding and what the mapping loses."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from pysldl.backend.linear_algebra import as_dense

BLOCK_BYTES = 64 << 20


@dataclass(frozen=True, slots=True)
class ErrorBoundTerms:
    """The terms of Theorem 1 for one method on one data set."""

    dataset: str
    method: str
    embedding_error: float  # mean over the test rows of (E(z, z_tilde) - C(y, y_hat)**0.5)**2
    regression_error: float  # mean of E(z, z_hat)**2
    b: float  # the smallest constant for which the bound holds on every row


def mean_error_bound_terms(dataset: str, method: str, of_folds: Sequence[dict[str, float]]) -> ErrorBoundTerms:
    """Combine the terms of several folds: means of the errors, and the largest b."""
    embedding, regression = (
        fmean(terms[name] for terms in of_folds) for name in ("embedding_error", "regression_error")
    )
    return ErrorBoundTerms(dataset, method, embedding, regression, max(terms["b"] for terms in of_folds))


def error_bound_terms(
    Z: Any, Y: sparse.csr_array, Z_test: Any, Y_test: sparse.csr_array, codes: NDArray[np.float32]
) -> dict[str, float]:
    """Measure the terms of ``C(y, y_hat) <= b (E(z, z_tilde) - C^(1/2))^2 + b E(z, z_hat)^2`` over the test rows.

    The cost C is the number of labels in which two label sets differ, z_tilde is the training target nearest to the
    predicted code z_hat (``codes``), and y_hat its labels. ``Z`` and ``Z_test`` are the targets (Eq. 9) of the training
    and test rows. Predictions do not depend on the scale of the latent space, so distances are measured in the scale
    that makes the embedding error least; the identity embedding then has none. Returns the fields of
    :class:`ErrorBoundTerms`.
    """
    targets, truth = as_dense(Z, np.float32), as_dense(Z_test, np.float32)
    nearest = _nearest(codes, targets)
    shared = np.asarray(Y_test.multiply(Y[nearest]).sum(axis=1)).ravel()
    sizes, sizes_test = np.diff(Y.indptr), np.diff(Y_test.indptr)
    cost = sizes_test + sizes[nearest] - 2.0 * shared
    to_nearest = np.linalg.norm(truth - targets[nearest], axis=1).astype(np.float64)
    to_code = np.linalg.norm(truth - codes, axis=1).astype(np.float64)

    energy = float(to_nearest @ to_nearest)
    scale = float(to_nearest @ np.sqrt(cost)) / energy if energy > 0 else 1.0
    embedding = (scale * to_nearest - np.sqrt(cost)) ** 2
    regression = (scale * to_code) ** 2
    bound = embedding + regression
    ratios = np.divide(cost, bound, out=np.zeros_like(cost), where=bound > 0)
    terms = {
        "embedding_error": embedding.mean(),
        "regression_error": regression.mean(),
        "b": ratios.max(initial=0.0),
    }
    return {name: float(f"{value:.6g}") for name, value in terms.items()}  # distances are in single precision


def _nearest(codes: NDArray[np.float32], targets: NDArray[np.float32]) -> NDArray[np.intp]:
    """The target nearest to each code, (n_codes,); of equal ones the first."""
    half_squares = 0.5 * np.einsum("ij,ij->i", targets, targets)
    block = max(1, BLOCK_BYTES // (4 * len(targets)))
    starts = range(0, len(codes), block)
    return np.concatenate(
        [np.argmin(half_squares - codes[start : start + block] @ targets.T, axis=1) for start in starts]
    )
