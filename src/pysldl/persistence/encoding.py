"""Turn a fitted model into a JSON tree; arrays and long lists of names go into separate files.

Null, booleans, whole numbers, finite floats, text and lists stand for themselves. Everything else is an object
whose ``kind`` says what it is; ``decoding`` reads it back.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from pysldl.exceptions import DataError
from pysldl.persistence.packing import can_pack, narrowed, pack
from pysldl.persistence.registry import is_estimator, name_of
from pysldl.persistence.tensors import can_store
from pysldl.persistence.vectorizers import is_vectorizer, parts_of_vectorizer

# Longer lists of one type leave the tree, so that people can read the manifest.
LONGEST_INLINE = 32

FILES_OF_NAMES = {
    "label_names_": "labels.json",
    "label_ids_": "labels.json",
    "feature_names_": "features.json",
    "feature_names_in_": "features.json",
    "vocabulary": "vocabulary.json",
    "vocabulary_": "vocabulary.json",
}
OTHER_NAMES = "strings.json"


class TreeEncoder:
    """Encode one model; ``arrays`` and ``strings`` collect what goes into other files.

    Arrays are named by the path of their attribute (``embedding_.components_``), texts by file and path.
    """

    def __init__(self) -> None:
        self.arrays: dict[str, NDArray[Any]] = {}
        self.strings: dict[str, dict[str, list[str]]] = {}
        self._stored: dict[int, tuple[NDArray[Any], dict[str, Any]]] = {}
        self._packed: dict[tuple[int, int], tuple[Any, NDArray[np.uint8], NDArray[Any]]] = {}

    def encode(self, value: Any, where: str) -> Any:
        """The JSON node of ``value``, found at the path ``where``."""
        if value is None or type(value) in (bool, int, str):
            return value
        if type(value) is float:
            return value if math.isfinite(value) else {"kind": "float", "value": str(value)}
        if type(value) is list:
            return self._list(value, where)
        if type(value) is tuple:
            return {"kind": "tuple", "items": [self.encode(v, f"{where}.{i}") for i, v in enumerate(value)]}
        if type(value) is dict:
            keys, values = list(value), list(value.values())
            return {
                "kind": "dict",
                "keys": self.encode(keys, f"{where}.keys"),
                "values": self.encode(values, f"{where}.values"),
            }
        if isinstance(value, np.generic):
            return self._scalar(value, where)
        if isinstance(value, np.ndarray):
            return self._array(value, where)
        if isinstance(value, (sparse.csr_array, sparse.csr_matrix)) and value.ndim == 2:
            return self._csr(value, where)
        if is_vectorizer(value):
            return self._vectorizer(value, where)
        if is_estimator(type(value)):
            return self.estimator(value, where)
        if isinstance(value, type) and issubclass(value, np.generic):
            return {"kind": "dtype", "value": np.dtype(value).name}
        raise _unsupported(value, where)

    def estimator(self, model: Any, where: str = "") -> dict[str, Any]:
        """The node of an estimator: class, parameters, and the fitted attributes that it has."""
        name = name_of(type(model))
        state = {attribute: getattr(model, attribute) for attribute in model._saved_state if hasattr(model, attribute)}
        params = model.get_params(deep=False)
        dropped = {
            key: {"kind": "dropped", "was": getattr(value, "__qualname__", type(value).__name__)}
            for key, value in params.items()
            if _is_dropped(value)
        }
        kept = {key: value for key, value in params.items() if key not in dropped}
        return {
            "kind": "estimator",
            "class": name,
            "params": self._items(kept, where) | dropped,
            "state": self._items(state, where),
        }

    def _vectorizer(self, vectorizer: Any, where: str) -> dict[str, Any]:
        params, state = parts_of_vectorizer(vectorizer, where)
        return {
            "kind": "vectorizer",
            "class": type(vectorizer).__name__,
            "params": self._items(params, where),
            "state": self._items(state, where),
        }

    def _items(self, values: Mapping[str, Any], where: str) -> dict[str, Any]:
        return {key: self.encode(value, f"{where}.{key}" if where else key) for key, value in values.items()}

    def _list(self, values: list[Any], where: str) -> Any:
        if len(values) > LONGEST_INLINE:
            if _all_are(str, values):
                return {"kind": "list", "of": self._names(values, where)}
            if _all_are(float, values):
                return {"kind": "list", "of": self._array(np.array(values), where)}
            if _all_are(int, values) and -(2**63) <= min(values) <= max(values) < 2**63:
                return {"kind": "list", "of": self._array(np.array(values, dtype=np.int64), where)}
        return [self.encode(value, f"{where}.{i}") for i, value in enumerate(values)]

    def _scalar(self, value: np.generic, where: str) -> dict[str, Any]:
        is_text = value.dtype.kind == "U"
        if not is_text and (value.dtype.kind == "c" or not can_store(value.dtype)):
            raise _unsupported(value, where)
        dtype = "str" if is_text else value.dtype.name
        return {"kind": "scalar", "dtype": dtype, "value": self.encode(value.item(), where)}

    def _array(self, array: NDArray[Any], where: str) -> dict[str, Any]:
        if type(array) is not np.ndarray:  # a matrix or a masked array would come back as something else
            raise _unsupported(array, where)
        if id(array) in self._stored:  # one array that several attributes share is stored once
            return self._stored[id(array)][1]
        if array.dtype.kind in "UO":
            node = self._string_array(array, where)
        elif can_store(array.dtype):
            # Products round differently in the other memory order, so the order is part of the model.
            fortran = array.flags.f_contiguous and not array.flags.c_contiguous
            self.arrays[where], scale = narrowed(array.T if fortran else array)
            node = {"kind": "array", "name": where, "order": "F" if fortran else "C"}
            if self.arrays[where].dtype != array.dtype:
                node = {"kind": "narrow", "of": node, "scale": scale}
        else:
            raise _unsupported(array, where, f"an array of {array.dtype}")
        self._stored[id(array)] = (array, node)
        return node

    def _string_array(self, array: NDArray[Any], where: str) -> dict[str, Any]:
        flat = array.ravel().tolist()
        if not _all_are(str, flat):
            raise _unsupported(array, where, f"an array of {array.dtype}")
        return {**self._names(flat, where), "kind": "strings", "shape": list(array.shape)}

    def _names(self, names: Sequence[str], where: str) -> dict[str, Any]:
        attribute = where.rpartition(".")[2]
        file = FILES_OF_NAMES.get(attribute, OTHER_NAMES)
        self.strings.setdefault(file, {})[where] = list(names)
        return {"kind": "names", "file": file, "name": where}

    def _csr(self, matrix: Any, where: str) -> dict[str, Any]:
        node: dict[str, Any] = {
            "container": "array" if isinstance(matrix, sparse.csr_array) else "matrix",
            "shape": [int(size) for size in matrix.shape],
            "indptr": self._array(matrix.indptr, f"{where}.indptr"),
        }
        if not can_pack(matrix):
            parts = {part: self._array(getattr(matrix, part), f"{where}.{part}") for part in ("data", "indices")}
            return {"kind": "csr", **node, **parts}
        packed = self._packed.get((id(matrix.indices), id(matrix.data)))
        if packed is None:
            packed = self._packed[id(matrix.indices), id(matrix.data)] = (matrix, *pack(matrix))
        parts = {
            part: self._array(value, f"{where}.{part}")
            for part, value in zip(("gaps", "data"), packed[1:], strict=True)
        }
        return {"kind": "packed_csr", **node, "dtype": matrix.dtype.name, **parts}


def _all_are(kind: type, values: Sequence[Any]) -> bool:
    return all(type(value) is kind for value in values)


def _is_dropped(value: Any) -> bool:
    """Whether a parameter concerns only the fit, and cannot be written: a generator's state, a callback."""
    if isinstance(value, (np.random.RandomState, np.random.Generator)):
        return True
    return callable(value) and not isinstance(value, type) and not is_estimator(type(value))


def _unsupported(value: Any, where: str, what: str | None = None) -> DataError:
    what = what or f"an object of type {type(value).__name__}"
    return DataError(f"The model cannot be saved: {where or 'it'} holds {what}, which has no place in a model folder.")
