"""A backend for Annif, the subject indexing tool: ``backend=pysldl`` in its ``projects.cfg``.

Annif finds backends in a table of its own. :func:`register` adds this one to it; the command ``sldl-annif`` does so,
and is Annif's own command from there on. See ``docs/annif.md``.
"""

from typing import Any

from pysldl.exceptions import MissingDependencyError

__all__ = ["BACKEND", "register"]

BACKEND = "pysldl"


def register() -> None:
    """Register the backend ``pysldl`` with Annif; may be called repeatedly.

    Raises
    ------
    MissingDependencyError
        Annif is not installed, or is a version that keeps its backends elsewhere.
    """
    try:
        from annif import backend
    except ImportError as error:
        raise MissingDependencyError("The Annif backend needs Annif: pip install 'pysldl[annif]'.") from error
    table = getattr(backend, "_backend_fns", None)
    if not isinstance(table, dict):
        raise MissingDependencyError(
            "This version of Annif keeps its backends elsewhere; the backend pysldl is tested with Annif 1.4."
        )
    table[BACKEND] = _backend


def _backend() -> Any:
    """The class, imported when a project asks for it, as Annif does with its own."""
    from pysldl.annif.backend import SLDLBackend

    return SLDLBackend
