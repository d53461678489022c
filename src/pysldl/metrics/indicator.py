"""The true labels of the metrics: checked once, CSR from then on."""

from typing import Any

import numpy as np
from scipy.sparse import csr_array, issparse

from pysldl.exceptions import DataError

__all__ = ["as_indicator"]


def as_indicator(Y: Any, name: str) -> Any:
    """Return `Y` as a canonical CSR array whose stored entries are exactly the positives.

    Parameters
    ----------
    Y : array-like or sparse of shape (n_samples, n_labels)
        Zeros and ones. It is not modified.
    name : str
        What the caller calls it, for the error message.

    Returns
    -------
    indicator : csr_array of shape (n_samples, n_labels)
        Column indices sorted within each row, none twice, no stored zero.
    """
    if not issparse(Y):
        try:
            Y = np.asarray(Y)
        except ValueError as error:
            raise DataError(f"{name} must be an indicator matrix; its rows differ in length.") from error
    if Y.ndim != 2:
        raise DataError(f"{name} must have shape (n_samples, n_labels), got shape {Y.shape}.")
    if 0 in Y.shape:
        raise DataError(f"{name} is empty: shape {Y.shape}.")
    if Y.dtype.kind not in "biuf":
        raise DataError(f"{name} must hold zeros and ones, got dtype {Y.dtype}.")

    indicator = csr_array(Y)
    needs_cleaning = not indicator.has_canonical_format or not indicator.data.all()
    if needs_cleaning:
        indicator = indicator.copy()  # csr_array shares the caller's arrays
        indicator.sum_duplicates()
        indicator.eliminate_zeros()
    not_one = indicator.data != 1
    if not_one.any():
        value = indicator.data[np.argmax(not_one)]
        raise DataError(f"{name} must hold only zeros and ones, found {value}.")
    return indicator
