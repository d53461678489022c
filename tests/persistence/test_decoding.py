"""Nodes of the tree that do not describe what they should are refused, whatever their checksums say."""

from typing import Any

import numpy as np
import pytest

from pysldl.exceptions import ModelFormatError
from pysldl.persistence.decoding import TreeDecoder

ROWS = {
    "data": np.ones(2, dtype=np.float32),
    "indices": np.array([0, 2], dtype=np.int32),
    "indptr": np.array([0, 1, 2], dtype=np.int32),
    "gaps": np.array([0, 2], dtype=np.uint8),
}


def array(name: str) -> dict[str, Any]:
    return {"kind": "array", "name": name, "order": "C"}


def decode_matrix(kind: str = "csr", shape: Any = (2, 3), **changed: Any) -> Any:
    node = {"kind": kind, "container": "array", "shape": list(shape), "dtype": changed.pop("dtype", "float32")}
    node |= {part: array(part) for part in ROWS}
    return TreeDecoder("model", ROWS | changed, {}).decode(node)


@pytest.mark.parametrize("kind", ["csr", "packed_csr"])
def test_a_matrix_that_is_whole(kind: str) -> None:
    assert decode_matrix(kind).toarray().tolist() == [[1, 0, 0], [0, 0, 1]]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"shape": (3, 3)}, "other arrays than its shape needs"),
        ({"shape": (2, 3.0)}, "other arrays than its shape needs"),
        ({"indptr": np.array([0.0, 1.0, 2.0])}, "arrays of other types"),
        ({"indices": np.array([0, 2, 1], dtype=np.int32)}, "other arrays than its shape needs"),
        ({"indices": np.array([0.0, 2.0])}, "arrays of other types"),
        ({"data": np.ones(2, dtype=np.complex64)}, "arrays of other types"),
        ({"indptr": np.array([0, 1, 1], dtype=np.int32)}, "values that belong to no row"),
        ({"kind": "packed_csr", "dtype": "object"}, "a packed matrix has other arrays"),
    ],
)
def test_a_matrix_whose_arrays_do_not_fit(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(ModelFormatError, match=message):
        decode_matrix(**changed)


def test_an_index_beyond_the_shape_is_refused() -> None:
    with pytest.raises(ValueError, match="must be <"):
        decode_matrix(indices=np.array([0, 3], dtype=np.int32))


@pytest.mark.parametrize("value", [1.5, 300])
def test_a_number_that_its_type_cannot_hold(value: float) -> None:
    with pytest.raises(OverflowError):
        TreeDecoder("model", {}, {}).decode({"kind": "scalar", "dtype": "int8", "value": value})


def test_long_lists_of_numbers_and_texts() -> None:
    decoder = TreeDecoder(
        "model", {"numbers": np.arange(40)}, {"strings.json": {"texts": ["a", "b"], "wrong": ["a", 1]}}
    )
    assert decoder.decode({"kind": "list", "of": array("numbers")}) == list(range(40))
    names = {"kind": "names", "file": "strings.json", "name": "texts"}
    assert decoder.decode({"kind": "list", "of": names}) == ["a", "b"]
    with pytest.raises(ModelFormatError, match="must hold lists of texts"):
        decoder.decode({"kind": "list", "of": names | {"name": "wrong"}})


def test_a_kind_that_nobody_knows() -> None:
    with pytest.raises(ModelFormatError, match="unknown kind"):
        TreeDecoder("model", {}, {}).decode({"kind": "pickle", "value": "gASV"})
