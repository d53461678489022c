"""Arrays that lie in files travel by name, and what is gone is let go."""

import time
import tracemalloc
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import sparse

from pysldl._utils.memory import resident_memory
from pysldl.dask import transport
from pysldl.dask.classifier import open_model
from pysldl.dask.transport import forget_maps, n_bytes, new_array, new_unwritten_array, pack, unpack, unpacked
from pysldl.dask.workspace import releasing_pages
from pysldl.neighbors import InvertedIndex
from pysldl.persistence import save_model


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


def test_a_model_is_unpacked_into_files_and_not_in_memory(tmp_path, monkeypatch):
    monkeypatch.setattr("pysldl.persistence.packing.ENTRIES_AT_ONCE", 1 << 12)  # what is unpacked at a time
    monkeypatch.setattr("pysldl.persistence.manifest.MOST_MANIFEST_BYTES", 1 << 16)  # room to read it into
    rng = np.random.default_rng(0)
    index = InvertedIndex().fit(sparse.csr_array(rng.integers(0, 2, (4000, 400)) * rng.random((4000, 400)) + 2**-9))
    save_model(index, tmp_path / "model")
    tracemalloc.start()
    packed = open_model(str(tmp_path / "model"), str(tmp_path / "arrays"))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (unpack(packed).postings_ != index.postings_).nnz == 0
    assert n_bytes(packed) > 12_000_000 and peak < 2_000_000


@pytest.fixture
def read_pages(tmp_path):
    """A map of 40 MB that was read, and how many bytes of it a process still has in memory."""
    before = resident_memory()[1]
    array = new_array(str(tmp_path), 10_000_000, np.float32)
    array[...] = 1
    assert resident_memory()[1] - before > 30_000_000
    yield lambda: resident_memory()[1] - before
    forget_maps(str(tmp_path))


def worker_with(memory_limit):
    monitor = SimpleNamespace(get_process_memory=lambda: resident_memory()[0])
    return lambda: SimpleNamespace(memory_manager=SimpleNamespace(memory_limit=memory_limit), monitor=monitor)


def test_a_worker_gives_pages_back_within_a_task_when_its_budget_is_nearly_full(monkeypatch, read_pages):
    monkeypatch.setattr("distributed.get_worker", worker_with(resident_memory()[0] * 1.2))
    monkeypatch.setattr("pysldl.dask.workspace.LEAST_GIVEN_BACK", 0.01)
    with releasing_pages():
        until = time.monotonic() + 20
        while read_pages() > 10_000_000 and time.monotonic() < until:
            time.sleep(0.01)
        assert read_pages() < 10_000_000


def test_a_worker_gives_pages_back_after_a_task_when_it_has_grown(monkeypatch, read_pages):
    limit = resident_memory()[0] * 2.5
    for share, given_back in ((2, False), (1, True)):
        monkeypatch.setattr("distributed.get_worker", worker_with(limit * share))
        with releasing_pages():
            assert read_pages() > 30_000_000
        assert (read_pages() < 10_000_000) == given_back
