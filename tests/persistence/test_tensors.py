"""The safetensors file: what we write, the reference package reads, and the reverse."""

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from pysldl.exceptions import ModelFormatError
from pysldl.persistence.tensors import DTYPES, read_tensors, tensors_size, write_tensors

safetensors = pytest.importorskip("safetensors.numpy", reason="safetensors is not installed (extra dev)")
reference_load, reference_save = safetensors.load, safetensors.save

shapes = hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4)
arrays = st.sampled_from(list(DTYPES.values())).flatmap(lambda dtype: hnp.arrays(dtype, shapes))
files = st.dictionaries(st.text(min_size=1, max_size=6).filter(lambda n: n != "__metadata__"), arrays, max_size=5)


def written(content: dict[str, Any]) -> bytes:
    stream = io.BytesIO()
    write_tensors(stream, content)
    return stream.getvalue()


def assert_same(found: dict[str, Any], expected: dict[str, Any]) -> None:
    assert found.keys() == expected.keys()
    for name, array in expected.items():
        assert found[name].dtype == array.dtype
        assert found[name].shape == array.shape
        assert found[name].tobytes() == array.tobytes()


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=files, mapped=st.booleans())
def test_round_trip_and_agreement_with_the_reference_package(
    content: dict[str, Any], mapped: bool, tmp_path: Path
) -> None:
    path = tmp_path / "file"
    path.write_bytes(written(content))
    assert path.stat().st_size == tensors_size(content)
    found = read_tensors(path, mapped=mapped)
    assert_same(found, content)
    assert all(array.flags.aligned and array.flags.writeable for array in found.values() if array.size)
    assert_same(reference_load(path.read_bytes()), content)

    path.write_bytes(reference_save(content))
    assert_same(read_tensors(path, mapped=mapped), content)


def test_arrays_start_aligned(tmp_path: Path) -> None:
    content = {"flags": np.ones(3, bool), "small": np.ones(5, np.float32), "wide": np.ones(7)}
    path = tmp_path / "file"
    path.write_bytes(written(content))
    length = int.from_bytes(path.read_bytes()[:8], "little")
    assert (8 + length) % 64 == 0
    assert all(array.flags.aligned for array in read_tensors(path, mapped=True).values())


def test_an_unaligned_array_of_another_writer_is_copied(tmp_path: Path) -> None:
    header = {"b": ("U8", [1], [0, 1]), "f": ("F32", [2], [1, 9])}
    content = np.array([1.5, -2.0], "<f4").tobytes()
    path = tmp_path / "file"
    path.write_bytes(raw_file(header, b"\x07" + content))
    found = read_tensors(path, mapped=True)
    assert found["f"].flags.aligned
    assert found["f"].tolist() == [1.5, -2.0]


def test_big_endian_and_strided_arrays_keep_their_values() -> None:
    big = np.arange(6, dtype=">i4").reshape(2, 3)
    strided = np.arange(20.0)[::3]
    found = reference_load(written({"big": big, "strided": strided}))
    assert found["big"].tolist() == big.tolist()
    assert found["strided"].tolist() == strided.tolist()


def raw_file(entries: dict[str, tuple[Any, Any, Any]], data: bytes) -> bytes:
    header = {n: {"dtype": d, "shape": s, "data_offsets": o} for n, (d, s, o) in entries.items()}
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        (("F32", [2], [0, 4]), "does not lie within"),  # shape and bytes disagree
        (("F32", [4], [0, 16]), "does not lie within"),  # past the end
        (("F32", [2**62], [0, 2**64]), "does not lie within"),
        (("F32", [2], [8, 0]), "does not lie within"),
        (("F32", [-2], [0, 8]), "damaged header"),
        (("F32", [2], [-8, 0]), "damaged header"),
        (("F32", [2.0], [0, 8]), "damaged header"),
        (("F32", [True], [0, 4]), "damaged header"),
        (("F32", [2], [0]), "damaged header"),
        (("F32", "2", [0, 8]), "damaged header"),
        (("F31", [2], [0, 8]), "damaged header"),
        ((["F32"], [2], [0, 8]), "damaged header"),
    ],
)
def test_bounds_are_checked(entry: tuple[Any, Any, Any], message: str, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(raw_file({"a": entry}, bytes(8)))
    with pytest.raises(ModelFormatError, match=message):
        read_tensors(path, mapped=True)


@pytest.mark.parametrize(
    "content",
    [b"", b"\x01", bytes(8), (2**63).to_bytes(8, "little"), b"\x02" + bytes(7) + b"[]", b"\x02" + bytes(7) + b"{\xff"],
    ids=["empty", "short", "no header", "huge header", "list", "not UTF-8"],
)
def test_what_is_no_safetensors_file(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(content)
    with pytest.raises(ModelFormatError, match=str(path)):
        read_tensors(path, mapped=True)
