"""Fit and predict on Dask: rows beyond one machine's memory, on the workers of a cluster.

Needs the extra ``dask``: ``pip install "pysldl[dask]"``.
"""

from pysldl._utils.lazy_import import lazy_exports

__all__ = ["DaskSLDLClassifier", "connect", "read_parts"]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "DaskSLDLClassifier": "pysldl.dask.classifier",
        "connect": "pysldl.dask.cluster",
        "read_parts": "pysldl.dask.parts",
    },
)
