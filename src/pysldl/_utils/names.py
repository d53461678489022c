"""Names of labels and features, each in the space that it needs."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["name_array"]


def name_array(names: Any) -> NDArray[np.object_]:
    """Return an array of Python's own texts; in one of a fixed width, every name would take the space of the longest.

    Parameters
    ----------
    names : array-like
        Names, or numbers to be used as names.

    Examples
    --------
    >>> name_array(["sky", "cloud"])
    array(['sky', 'cloud'], dtype=object)
    >>> name_array(range(3)).tolist()
    ['0', '1', '2']
    """
    array = np.asarray(names, dtype=object)
    texts = np.empty(array.size, dtype=object)
    texts[:] = [str(name) for name in array.ravel().tolist()]
    return texts.reshape(array.shape)
