"""The errors of the library. Each is one sentence on what is wrong and one on what to do.

All derive from :class:`SLDLError`, so that a program (the command line does this) can tell
"the input is wrong" from a defect, and each also derives from the built-in error that
scikit-learn users expect.
"""

__all__ = [
    "ClusterError",
    "DataError",
    "MemoryLimitError",
    "MissingDependencyError",
    "ModelFormatError",
    "NotAvailableError",
    "SLDLError",
    "SLDLWarning",
]


class SLDLError(Exception):
    """Base of every error that the library raises on purpose."""


class DataError(SLDLError, ValueError):
    """Input that cannot be used: a matrix, a label, an argument, or a line of a file."""


class ModelFormatError(SLDLError, ValueError):
    """A model folder that is damaged, foreign, or written by a newer library."""


class NotAvailableError(DataError, AttributeError):
    """A method that this model does not have, and why."""


class MemoryLimitError(SLDLError, MemoryError):
    """Work refused before the allocation that could not succeed."""


class MissingDependencyError(SLDLError, ImportError):
    """A feature that needs an extra which is not installed."""


class ClusterError(SLDLError, RuntimeError):
    """A Dask cluster that cannot be reached, was lost, or cannot do the work."""


class SLDLWarning(UserWarning):
    """Something was adjusted, and the result is still right."""
