"""Arrays that lie in files travel by name, and what is gone is let go."""

from pathlib import Path

import numpy as np
from scipy import sparse

from pysldl.dask import transport
from pysldl.dask.transport import forget_maps, n_bytes, new_array, new_unwritten_array, pack, unpack, unpacked


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


def test_an_array_in_memory_becomes_a_file_when_another_process_needs_it(tmp_path):
    array = new_unwritten_array(str(tmp_path), (100, 200), np.float64)
    array[...] = np.arange(20_000).reshape(100, 200)
    assert not list(tmp_path.iterdir())
    rows = pack(array[30:40], str(tmp_path))
    whole = pack(array, str(tmp_path))
    assert len(list(tmp_path.iterdir())) == 1 and rows.value.path == whole.value.path
    found = np.memmap(rows.value.path, np.float64, "r", rows.value.offset, rows.value.shape)
    assert np.array_equal(found, array[30:40])
    forget_maps(str(tmp_path))
    assert not [path for path in transport._places if path.startswith(str(tmp_path))]
    assert pack(array, str(tmp_path)).value.path != whole.value.path  # its place may be that of another array by now


def test_bytes_of_a_value_are_those_of_its_arrays_wherever_they_are(tmp_path):
    rows = sparse.csr_array(np.eye(20_000, 3))
    shared = {"rows": rows, "large": np.zeros(20_000), "number": 3}
    expected = rows.data.nbytes + rows.indices.nbytes + rows.indptr.nbytes + 160_000
    assert n_bytes(shared) == expected and n_bytes([pack(shared, str(tmp_path))]) == expected
    texts = np.array(["a"] * 9_000, object)
    assert n_bytes(pack(texts, str(tmp_path))) == 9_000 + 9_000 * 64  # text objects are larger than their bytes
