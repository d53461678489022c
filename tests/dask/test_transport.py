"""Arrays that lie in files travel by name, and what is gone is let go."""

from pathlib import Path

import numpy as np
from scipy import sparse

from pysldl.dask import transport
from pysldl.dask.transport import new_array, pack, unpack, unpacked


def test_large_arrays_lie_in_files_and_small_ones_travel(tmp_path):
    large = np.arange(20_000, dtype=np.float64).reshape(100, 200).T  # not contiguous
    shared = {
        "large": large,
        "small": np.arange(3),
        "rows": sparse.csr_array(np.eye(200)),
        "names": np.array(["a"] * 9_000, object),
    }
    packed = pack(shared, str(tmp_path))
    found = unpack(packed)
    assert len(list(tmp_path.iterdir())) == 2  # the large one, and the lengths of the names
    assert np.array_equal(found["large"], large) and np.array_equal(found["small"], shared["small"])
    assert (found["rows"] != shared["rows"]).nnz == 0 and found["names"].tolist() == ["a"] * 9_000
    shared["small"][0] = 7
    assert packed.value["small"][0] == 0  # a copy, which keeps nothing else alive


def test_files_that_are_gone_are_let_go(tmp_path):
    array = new_array(str(tmp_path), 10, np.int64)
    path = next(path for path in transport._maps if path.startswith(str(tmp_path)))
    Path(path).unlink()
    assert unpacked("another stage", pack(("x",), str(tmp_path))) == ("x",)
    assert path not in transport._maps and path not in transport._places
    assert array.sum() == 0  # who has it keeps it
