"""Work in parts gives what work at once gives."""

import numpy as np
import pytest
from scipy import sparse

from pysldl.backend.label_problems import label_problems, shard_problems
from pysldl.backend.threads import at_most_threads, n_threads
from pysldl.backend.workspace import Workspace, row_parts


@pytest.mark.parametrize("n_shards", [1, 3, 7])
def test_shards_of_labels_hold_the_rows_of_all(n_shards, monkeypatch):
    monkeypatch.setattr("pysldl.backend.label_problems.ROWS_AT_ONCE", 13)
    rng = np.random.RandomState(0)
    Y = sparse.random_array((50, 11), density=0.2, random_state=rng, format="csr")
    Y = sparse.csr_array(Y > 0).astype(np.float32)
    candidates = rng.randint(-1, 11, (50, 4)).astype(np.int32)
    options = {"everywhere": np.array([2, 6], dtype=np.int32), "left_out": np.arange(5, 20)}
    whole = label_problems(candidates, Y, **options)
    for first in range(n_shards):
        part = shard_problems((first, n_shards), candidates, Y, **options)
        for label in range(11):
            expected = whole.rows[whole.indptr[label] : whole.indptr[label + 1]]
            found = part.rows[part.indptr[label] : part.indptr[label + 1]]
            assert found.tolist() == (expected.tolist() if label % n_shards == first else [])


def _square(part, values, out):
    out[part] = values[part] ** 2
    return part.stop


def test_a_local_workspace_does_the_parts_in_order():
    workspace = Workspace()
    out = workspace.empty((7,), np.int64)
    assert workspace.map("squares", _square, row_parts(7, 3), np.arange(7), out) == [3, 6, 7]
    assert out.tolist() == [0, 1, 4, 9, 16, 25, 36]


def test_threads_are_limited_within_a_block_only():
    before = n_threads()
    with at_most_threads(1):
        assert n_threads() == 1
    assert n_threads() == before
