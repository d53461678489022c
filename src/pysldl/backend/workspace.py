"""Where a fit keeps what grows with the rows, and who does the work that can be cut into parts."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

import numpy as np
from numpy.typing import DTypeLike, NDArray

T = TypeVar("T")


class Workspace:
    """The memory and the cores of one process; :class:`pysldl.dask.workspace.DaskWorkspace` has those of a cluster.

    A stage writes its long loops once, as a function of a part and of arrays that all parts share. What comes out may
    depend on the parts, but never on who does them or in which order, so that a fit on a cluster has the bits of a
    local one. Work over labels, whose results do not depend on the cut, is to be cut into ``n_shards`` parts.

    Examples
    --------
    >>> def double(part, values, out):
    ...     out[part] = 2 * values[part]
    >>> workspace = Workspace()
    >>> out = workspace.empty(4, np.int64)
    >>> workspace.map("doubling", double, row_parts(4, 3), np.arange(4), out)
    [None, None]
    >>> out
    array([0, 2, 4, 6])
    """

    n_shards: int = 1

    def for_pass(self, *read: Any) -> "Workspace":
        """Who goes through arrays once: a workspace of one process, where it would take longer to send parts of them.

        ``read`` are arrays and sparse matrices, or containers of them.
        """
        return self

    def empty(self, shape: int | tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
        """Make an array that parts can write into, each into places of its own."""
        return np.empty(shape, dtype)

    def map(self, stage: str, function: Callable[..., T], parts: Sequence[Any], *shared: Any) -> list[T]:
        """``[function(part, *shared) for part in parts]``; reports of progress call the work ``stage``.

        The function is defined at the top of a module, and may run twice for a part where a worker was lost. Parts are
        small: slices of rows, numbers of shards. Of the shared arrays only those of :meth:`empty` may be written to.
        """
        return [function(part, *shared) for part in parts]


_current: ContextVar[Workspace | None] = ContextVar("workspace", default=None)


@contextmanager
def use_workspace(workspace: Workspace) -> Iterator[None]:
    """Within the block, stages do their long loops in ``workspace``."""
    before = _current.set(workspace)
    try:
        yield
    finally:
        _current.reset(before)


def current_workspace() -> Workspace:
    """Return the workspace of the innermost :func:`use_workspace`; this process where there is none.

    Examples
    --------
    >>> current_workspace().n_shards
    1
    """
    return _current.get() or Workspace()


def shared_parts(n_rows: int, least: int, most: int) -> list[slice]:
    """``range(n_rows)`` in slices for the current workspace: about one for every four of its shards.

    They have ``least`` to ``most`` rows; the last has what is left. For work whose results do not depend on the cut.

    Examples
    --------
    >>> shared_parts(5, 1, 3)
    [slice(0, 3, None), slice(3, 5, None)]
    """
    size = -(-4 * n_rows // current_workspace().n_shards)
    return row_parts(n_rows, min(max(size, least), most))


def row_parts(n_rows: int, size: int) -> list[slice]:
    """``range(n_rows)`` in slices of ``size`` rows, the last with what is left.

    Examples
    --------
    >>> row_parts(5, 2)
    [slice(0, 2, None), slice(2, 4, None), slice(4, 5, None)]
    """
    return [slice(start, min(start + size, n_rows)) for start in range(0, n_rows, size)]
