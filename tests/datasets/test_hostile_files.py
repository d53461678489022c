"""Files that were made to break a reader, or that fuzzing found: one clear error each, soon and without much memory."""

import gzip
import io
import time
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pysldl.datasets import read_dataset
from pysldl.datasets.files import UNPACK_LIMIT
from pysldl.exceptions import DataError

HEAD = "@relation 'x: -C 1'\n@attribute a {0,1}\n@attribute b numeric\n@data\n1,2\n"
MANY = 20_000


def npz(content: dict[str, Any], members: dict[str, bytes] | None = None) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, array in content.items():
            written = io.BytesIO()
            np.save(written, array)
            archive.writestr(f"{name}.npy", written.getvalue())
        for name, data in (members or {}).items():
            archive.writestr(name, data)
    return stream.getvalue()


GOOD: dict[str, Any] = {
    "X_data": np.ones(2),
    "X_indices": np.array([0, 1]),
    "X_indptr": np.array([0, 1, 2]),
    "X_shape": np.array([2, 2]),
    "Y_indices": np.array([0, 1]),
    "Y_indptr": np.array([0, 1, 2]),
    "Y_shape": np.array([2, 2]),
    "label_names": np.array(["a", "b"]),
}
WITHOUT_DATA = {key: array for key, array in GOOD.items() if key != "X_data"}


def header(shape: str) -> bytes:
    text = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}".encode().ljust(117) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + bytes(8)


def with_flags(offset: int, value: int) -> bytes:
    """An archive whose first member has another byte in its entry of the directory and in its own header."""
    content = bytearray(npz(GOOD))
    content[content.find(b"PK\x01\x02") + offset] = value
    content[offset - 2] = value
    return bytes(content)


HOSTILE = {
    "spaces.arff": HEAD + "1" + " " * MANY + "x,'2\n",
    "quotes.arff": HEAD + "'a\\" * MANY + "\n",
    "digits.arff": HEAD.replace("-C 1", "-C " + "9" * 5000),
    "index.arff": HEAD + "{0 1," + "9" * 5000 + " 1}\n",
    "deep.jsonl": "[" * 100_000,
    "deeper.jsonl": '{"text": "a", "labels": ' + "[" * 100_000 + "}\n",
    "nan.svm": "nan 1:1\n",
    "inf.svm": "1 1:1\ninf,2 2:1\n",
    "far.svm": "1 2147483648:1\n",
    "digits.svm": "1 1:1 " + "9" * 5000 + ":1\n",
    "header.txt": "1 3 9223372036854775808\n0 1:1\n",
    "index.txt": "1 5 5\n4294967297 1:1\n",
    "labels.txt": "1 2147483647 2147483647\n1 1:1\n",
    "columns.npz": npz(GOOD | {"X_shape": np.array([2, 10**12])}),
    "nan.npz": npz(GOOD | {"X_shape": np.array([2.0, np.nan])}),
    "scalar.npz": npz(GOOD | {"X_shape": np.array(5)}),
    "promise.npz": npz(WITHOUT_DATA, {"X_data.npy": header("(100000000000,)")}),
    "braces.npz": npz(WITHOUT_DATA, {"X_data.npy": b"\x93NUMPY\x01\x00\x20\x00" + b"{" * 32}),
    "encrypted.npz": with_flags(8, 1),
    "method.npz": with_flags(10, 99),
    "complex.npz": npz(GOOD | {"X_data": np.array([1j, 2])}),
    "dates.npz": npz(GOOD | {"X_data": np.array(["2020", "2021"], "M8[Y]")}),
    "idf.npz": npz(GOOD | {"idf": np.array(["x", "y"])}),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_one_clear_error_that_names_the_file(name: str, tmp_path: Path) -> None:
    content = HOSTILE[name]
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    started = time.process_time()
    with pytest.raises(DataError, match=name):
        read_dataset(path)
    assert time.process_time() - started < 3


def test_labels_in_an_encoding_that_nobody_knows(tmp_path: Path) -> None:
    (tmp_path / "d.arff").write_text(HEAD.replace(": -C 1", ""))
    (tmp_path / "d.xml").write_text('<?xml version="1.0" encoding="klingon"?><labels><label name="a"/></labels>')
    with pytest.raises(DataError, match=r"d\.xml, line 1: .*klingon"):
        read_dataset(tmp_path / "d.arff")


@pytest.mark.parametrize("name", ["d.txt.gz", "d.jsonl.gz", "d.npz"])
def test_a_file_that_unpacks_to_far_more_than_its_size(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pysldl.datasets.files.UNPACKED_OF_ANY_FILE", 1 << 20)
    monkeypatch.setenv(UNPACK_LIMIT, "50")
    contents = {
        "d.txt.gz": lambda: gzip.compress(b"2 5 5\n0 1:1\n1 " + b"2:1 " * 1_000_000),
        "d.jsonl.gz": lambda: gzip.compress(b'{"labels": ["a"], "text": "' + b"a" * 4_000_000 + b'"}\n'),
        "d.npz": lambda: npz(GOOD | {"more": np.zeros(4_000_000, np.uint8)}),
    }
    (tmp_path / name).write_bytes(contents[name]())
    with pytest.raises(DataError, match=f"{name}: unpacks to more than 50 times its size.*{UNPACK_LIMIT}"):
        read_dataset(tmp_path / name)
    monkeypatch.setenv(UNPACK_LIMIT, "1000000")
    assert read_dataset(tmp_path / name).n_labels >= 1
    monkeypatch.setenv(UNPACK_LIMIT, "much")
    with pytest.raises(DataError, match="must be a whole number"):
        read_dataset(tmp_path / name)
