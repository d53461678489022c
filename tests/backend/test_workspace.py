"""Work in parts gives what work at once gives."""

import numpy as np

from pysldl.backend.threads import at_most_threads, n_threads
from pysldl.backend.workspace import Workspace, row_parts


def _square(part, values, out):
    out[part] = values[part] ** 2
    return part.stop


def test_a_local_workspace_does_the_parts_in_order():
    workspace = Workspace()
    out = workspace.empty((7,), np.int64)
    assert workspace.map("squares", _square, row_parts(7, 3), np.arange(7), out) == [3, 6, 7]
    assert out.tolist() == [0, 1, 4, 9, 16, 25, 36]
    assert workspace.for_pass(out) is workspace


def test_threads_are_limited_within_a_block_only():
    before = n_threads()
    with at_most_threads(1):
        assert n_threads() == 1
    assert n_threads() == before
