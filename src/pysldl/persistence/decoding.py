"""Rebuild a model from its JSON tree, arrays and names."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from pysldl.exceptions import ModelFormatError
from pysldl.persistence.packing import unpack_indices, unpack_values, widened
from pysldl.persistence.registry import find_class
from pysldl.persistence.vectorizers import restore_vectorizer
from pysldl.preprocessing.labels import name_array

SCALARS = ("bool", *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)))
CONTAINERS: dict[str, Any] = {"array": sparse.csr_array, "matrix": sparse.csr_matrix}
SCALARS += ("float16", "float32", "float64", "str")
INDEX_TYPES = (np.dtype(np.int32), np.dtype(np.int64))
MOST_COLUMNS = 2**31


class TreeDecoder:
    """Decode the tree of one model; ``source`` names its folder in errors.

    ``strings`` maps the name of a file to its lists of texts by name.
    """

    def __init__(
        self,
        source: str,
        arrays: Mapping[str, NDArray[Any]],
        strings: Mapping[str, Mapping[str, list[str]]],
    ) -> None:
        self.source = source
        self.arrays = arrays
        self.strings = strings
        self._unpacked: dict[str, Any] = {}

    def decode(self, node: Any) -> Any:
        """The value of a node."""
        match node:
            case None | bool() | int() | float() | str():
                return node
            case list():
                return [self.decode(item) for item in node]
            case {"kind": "float", "value": str(value)}:
                return float(value)
            case {"kind": "tuple", "items": items}:
                return tuple(self.decode(item) for item in items)
            case {"kind": "dict", "keys": keys, "values": values}:
                return dict(zip(self.decode(keys), self.decode(values), strict=True))
            case {"kind": "list", "of": inner}:
                return self._long_list(inner)
            case {"kind": "scalar", "dtype": dtype, "value": value} if dtype in SCALARS:
                return self._scalar(dtype, self.decode(value))
            case {"kind": "dtype", "value": dtype} if dtype in SCALARS:
                return np.dtype(dtype).type
            case {"kind": "array", "name": name, "order": order}:
                return self.arrays[name].T if order == "F" else self.arrays[name]
            case {"kind": "narrow", "of": {"kind": "array", "name": name} as inner, "scale": int(scale)}:
                if name not in self._unpacked:  # one array that several attributes share is one again
                    self._unpacked[name] = widened(self.decode(inner), scale)
                return self._unpacked[name]
            case {"kind": "strings", "shape": shape}:
                # Not of a fixed width, which would give every text the space of the longest.
                return name_array(self._names(node)).reshape(shape)
            case {"kind": "csr"}:
                return self._csr(node)
            case {"kind": "packed_csr", "gaps": {"name": name}}:
                if name not in self._unpacked:  # one matrix that several attributes share is one again
                    self._unpacked[name] = self._packed_csr(node)
                return self._unpacked[name]
            case {"kind": "vectorizer", "class": name}:
                return restore_vectorizer(name, self._items(node["params"]), self._items(node["state"]))
            case {"kind": "estimator"}:
                return self.estimator(node)
            case {"kind": "dropped"}:
                return None
        raise ModelFormatError(f"{self.source}: holds a value of an unknown kind, {str(node)[:80]}.")

    def estimator(self, node: Mapping[str, Any]) -> Any:
        """The estimator of a node; only classes of the registry, their parameters and saved attributes."""
        cls: Any = find_class(node["class"])
        if cls is None:
            raise ModelFormatError(
                f"{self.source}: holds a {str(node['class'])[:80]!r}, which is no class of this library. Is an extra "
                "not installed, or a class of your own not registered?"
            )
        model = cls(**self._items(node["params"]))
        for attribute, value in self._items(node["state"]).items():
            if attribute not in cls._saved_state:
                raise ModelFormatError(f"{self.source}: sets {attribute!r}, which no {cls.__name__} has.")
            setattr(model, attribute, value)
        return model

    def _items(self, nodes: Mapping[str, Any]) -> dict[str, Any]:
        return {name: self.decode(node) for name, node in nodes.items()}

    def _long_list(self, node: Mapping[str, Any]) -> list[Any]:
        return list(self._names(node)) if node["kind"] == "names" else self.decode(node).tolist()

    def _names(self, node: Mapping[str, Any]) -> list[str]:
        names = self.strings[node["file"]][node["name"]]
        if not isinstance(names, list) or not all(type(name) is str for name in names):
            raise ModelFormatError(f"{self.source}: {node['file']} must hold lists of texts.")
        return names

    def _csr(self, node: Mapping[str, Any]) -> Any:
        data, indices, indptr = (self.decode(node[part]) for part in ("data", "indices", "indptr"))
        self._check_shape(node["shape"], indptr)
        return self._matrix(node, data, indices, indptr)

    def _packed_csr(self, node: Mapping[str, Any]) -> Any:
        gaps, data, indptr = (self.decode(node[part]) for part in ("gaps", "data", "indptr"))
        self._check_shape(node["shape"], indptr)
        if node["dtype"] not in SCALARS:
            raise ModelFormatError(f"{self.source}: a packed matrix has other arrays than its shape needs.")
        indices = unpack_indices(gaps, indptr, node["shape"][1])
        return self._matrix(node, unpack_values(data, len(indices), np.dtype(node["dtype"])), indices, indptr)

    def _scalar(self, dtype: str, value: Any) -> Any:
        scalar = np.dtype(dtype).type(value)
        if scalar.dtype.kind in "iu" and int(scalar) != value:  # NumPy 1 wraps around
            raise OverflowError(f"{value} is no {dtype}")
        return scalar

    def _check_shape(self, shape: Any, indptr: Any) -> None:
        """Check the shape before a matrix is made, which takes memory for as many rows as are stated."""
        n_rows, n_columns = shape
        whole = type(n_rows) is int and type(n_columns) is int and 0 <= n_columns < MOST_COLUMNS
        if not whole or indptr.shape != (n_rows + 1,):
            raise ModelFormatError(f"{self.source}: a sparse matrix has other arrays than its shape needs.")
        if indptr.dtype not in INDEX_TYPES:
            raise ModelFormatError(f"{self.source}: a sparse matrix has arrays of other types than it needs.")

    def _matrix(self, node: Mapping[str, Any], data: Any, indices: Any, indptr: Any) -> Any:
        if indices.shape != data.shape or data.ndim != 1:
            raise ModelFormatError(f"{self.source}: a sparse matrix has other arrays than its shape needs.")
        if indices.dtype not in INDEX_TYPES or data.dtype.kind not in "biuf":
            raise ModelFormatError(f"{self.source}: a sparse matrix has arrays of other types than it needs.")
        matrix = CONTAINERS[node["container"]](tuple(node["shape"]), dtype=data.dtype)
        # Not through the constructor, which copies 64-bit indices to 32-bit ones where they fit.
        matrix.data, matrix.indices, matrix.indptr = data, indices, indptr
        # In full, whoever wrote the file: an index beyond the shape would make a product read outside of the array.
        matrix.check_format(full_check=True)
        if len(data) != indptr[-1]:
            raise ModelFormatError(f"{self.source}: a sparse matrix has values that belong to no row.")
        return matrix
