"""Fit and predict on Dask: rows beyond one machine's memory, on the workers of a cluster.

Needs the extra ``dask``: ``pip install "pysldl[dask]"``.
"""

from pysldl._utils.lazy_import import lazy_exports

__all__ = ["connect"]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "connect": "pysldl.dask.cluster",
    },
)
