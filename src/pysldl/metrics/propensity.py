"""Propensities: how likely a true label is to be recorded, estimated from its training frequency.

The model is that of Jain, Prabhu and Varma, "Extreme multi-label loss functions for
recommendation, tagging, ranking and other missing label applications", KDD 2016.
"""

from math import isfinite, log
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pysldl.exceptions import DataError
from pysldl.preprocessing.labels import as_indicator


def inverse_propensity(Y: Any, A: float = 0.55, B: float = 1.5) -> NDArray[np.float64]:
    """Return the inverse propensity of every label of a training set.

    Parameters
    ----------
    Y : array-like or sparse of shape (n_samples, n_labels)
        Training labels, zeros and ones. Within cross-validation: those of the training fold.
    A, B : float
        Parameters of the propensity model. Customary are (0.55, 1.5) in general, (0.5, 0.4)
        for Wikipedia data and (0.6, 2.6) for Amazon data.

    Returns
    -------
    inv_propensity : ndarray of shape (n_labels,), float64
        At least 1; the rarer the label, the larger.

    See Also
    --------
    inverse_propensity_from_counts : The same, and its formula, from label frequencies.

    Examples
    --------
    >>> from pysldl.metrics import inverse_propensity
    >>> inverse_propensity([[1, 0], [1, 0], [1, 1], [1, 0]]).round(4)
    array([1.2504, 1.3863])
    """
    indicator = as_indicator(Y, "Y")
    n_samples, n_labels = indicator.shape
    counts = np.bincount(indicator.indices, minlength=n_labels)
    return inverse_propensity_from_counts(counts, n_samples, A, B)


def inverse_propensity_from_counts(
    counts: ArrayLike, n_samples: int, A: float = 0.55, B: float = 1.5
) -> NDArray[np.float64]:
    r"""Return the inverse propensity of labels whose training frequencies are known.

    .. math:: w_k = 1 + C (N_k + B)^{-A}, \qquad C = (\ln N - 1) (B + 1)^A

    Parameters
    ----------
    counts : array-like of shape (n_labels,)
        :math:`N_k`, the training rows that carry each label; 0 is allowed.
    n_samples : int
        :math:`N`, the training rows.
    A, B : float
        Parameters of the propensity model, as in :func:`inverse_propensity`.

    Returns
    -------
    inv_propensity : ndarray of shape (n_labels,), float64

    Notes
    -----
    For one or two training rows the formula's C is negative and the "probability" exceeds 1;
    C is then taken as 0, and all labels weigh 1.

    Examples
    --------
    >>> from pysldl.metrics import inverse_propensity_from_counts
    >>> inverse_propensity_from_counts([0, 1, 100], n_samples=1000).round(4)
    array([8.8242, 6.9078, 1.7704])
    """
    frequency = np.asarray(counts, dtype=np.float64)
    if frequency.ndim != 1 or frequency.size == 0:
        raise DataError(f"counts must have shape (n_labels,), got shape {frequency.shape}.")
    if n_samples < 1:
        raise DataError(f"n_samples must be at least 1, got {n_samples}.")
    if not (isfinite(A) and A >= 0):
        raise DataError(f"A must be finite and not negative, got {A}.")
    if not (isfinite(B) and B > 0):
        raise DataError(f"B must be finite and positive, got {B}.")
    possible = (frequency >= 0) & (frequency <= n_samples)
    if not possible.all():
        label = np.argmin(possible)
        raise DataError(
            f"counts must lie between 0 and n_samples = {n_samples}, label {label} has {frequency[label]:g}."
        )
    C = max(log(n_samples) - 1.0, 0.0) * (B + 1.0) ** A
    return np.asarray(1.0 + C * (frequency + B) ** -A)
