"""The library's own data file: one ``.npz`` with CSR arrays, names and splits, no pickles.

==================================================  ==============================================
``X_data``, ``X_indices``, ``X_indptr``, ``X_shape``  features, CSR
``Y_indices``, ``Y_indptr``, ``Y_shape``              label indicator, CSR, every stored value is 1
``label_names``, ``feature_names``                    bytes of a JSON list, or unicode; feature names are optional
``train_idx``, ``valid_idx``, ``test_idx``            row numbers of the splits that exist
``idf``                                               only with raw term counts
==================================================  ==============================================
"""

import json
import math
import os
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from pysldl._utils.files import open_atomic
from pysldl.datasets.dataset import Dataset
from pysldl.datasets.files import check_unpacked, require_file, stem
from pysldl.exceptions import DataError
from pysldl.preprocessing.labels import name_array

SPLIT_SUFFIX = "_idx"
MOST_ITEMS = 2**31 - 1


def read_npz(path: str | os.PathLike[str], name: str | None = None) -> Dataset:
    """Read a data set from the library's ``.npz`` file.

    Parameters
    ----------
    path : path
        File that :func:`write_npz` wrote.
    name : str, optional
        Default: the file's.
    """
    path = require_file(path)
    arrays = _load_arrays(path)
    label_names = _require(arrays, "label_names", path)
    Y_indices = _require(arrays, "Y_indices", path)
    return Dataset(
        name or stem(path),
        X=_matrix(arrays, "X", _require(arrays, "X_data", path), path),
        Y=_matrix(arrays, "Y", np.ones(Y_indices.shape, dtype=np.float32), path),
        label_names=_names(label_names, path),
        feature_names=None if "feature_names" not in arrays else _names(arrays["feature_names"], path),
        splits={key.removesuffix(SPLIT_SUFFIX): rows for key, rows in arrays.items() if key.endswith(SPLIT_SUFFIX)},
        idf=_idf(arrays.get("idf"), path),
        ids=_texts(arrays.get("ids"), path),
        titles=_texts(arrays.get("titles"), path),
    )


def write_npz(dataset: Dataset, path: str | os.PathLike[str]) -> None:
    """Write a data set as ``.npz``, atomically. Texts are not kept.

    Parameters
    ----------
    dataset : Dataset
        With features: texts are vectorized first.
    path : path
        File to write.
    """
    if dataset.X is None:
        raise DataError(f"data set {dataset.name!r} holds texts only: vectorize() it before writing.")
    X = csr_array(dataset.X)
    arrays: dict[str, Any] = {
        "X_data": X.data,
        "X_indices": X.indices,
        "X_indptr": X.indptr,
        "X_shape": np.array(X.shape, dtype=np.int64),
        "Y_indices": dataset.Y.indices,
        "Y_indptr": dataset.Y.indptr,
        "Y_shape": np.array(dataset.Y.shape, dtype=np.int64),
        "label_names": _as_bytes(dataset.label_names),
    }
    arrays |= {key + SPLIT_SUFFIX: rows.astype(np.int32) for key, rows in dataset.splits.items()}
    if dataset.feature_names is not None:
        arrays["feature_names"] = _as_bytes(dataset.feature_names)
    if dataset.idf is not None:
        arrays["idf"] = dataset.idf
    for key in ("ids", "titles"):
        if getattr(dataset, key) is not None:
            arrays[key] = _as_bytes(getattr(dataset, key))
    with open_atomic(path) as stream:
        np.savez_compressed(stream, **arrays)


def _idf(array: NDArray[Any] | None, path: Path) -> NDArray[Any] | None:
    if array is not None and array.dtype.kind not in "iuf":
        raise DataError(f"{path}: idf must be numbers, but is of type {array.dtype}.")
    return array


def _texts(array: NDArray[Any] | None, path: Path) -> list[str] | None:
    return None if array is None else name_array(_names(array, path)).ravel().tolist()


def _load_arrays(path: Path) -> dict[str, NDArray[Any]]:
    with path.open("rb") as stream:
        if stream.read(4) != b"PK\x03\x04":
            raise DataError(f"{path}: is not an npz file (wrong magic bytes).")
        stream.seek(0)
        try:
            with zipfile.ZipFile(stream) as archive:
                _check_members(archive, path)
            stream.seek(0)
            with np.load(stream, allow_pickle=False) as stored:
                return {key: stored[key] for key in stored.files}
        except DataError:
            raise
        except Exception as error:  # zipfile and NumPy raise what they meet, from SyntaxError to NotImplementedError
            raise DataError(f"{path}: the npz file is damaged or holds something else ({error}).") from error


def _check_members(archive: zipfile.ZipFile, path: Path) -> None:
    """Refuse arrays that say they are larger than their bytes, before memory is taken for them."""
    check_unpacked(path, sum(member.file_size for member in archive.infolist()))
    for member in archive.infolist():
        if not member.filename.endswith(".npy"):
            continue
        with archive.open(member) as stream:
            version = np.lib.format.read_magic(stream)
            read_header = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
            if version not in read_header:
                raise DataError(f"{path}: {member.filename} is an array of another kind than NumPy's plain ones.")
            shape, _, dtype = read_header[version](stream)
            if dtype.hasobject:
                raise DataError(f"{path}: {member.filename} holds Python objects, which are never loaded (no pickles).")
            if math.prod(shape) * dtype.itemsize != member.file_size - stream.tell():
                raise DataError(f"{path}: {member.filename} does not hold what its header says: the file is damaged.")


def _as_bytes(names: Sequence[str] | NDArray[np.object_]) -> NDArray[np.uint8]:
    """Names as a JSON list: an array of texts would give each of them the space of the longest."""
    return np.frombuffer(json.dumps(list(names)).encode(), dtype=np.uint8)


def _names(stored: NDArray[Any], path: Path) -> Any:
    """The names of :func:`_as_bytes`, or an array of texts as other programs write it."""
    if stored.dtype != np.uint8:
        return stored
    try:
        names = json.loads(stored.tobytes())
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path}: its names are not a JSON list ({error}).") from error
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise DataError(f"{path}: its names are not a JSON list of texts.")
    return names


def _require(arrays: dict[str, NDArray[Any]], key: str, path: Path) -> NDArray[Any]:
    if not isinstance(arrays.get(key), np.ndarray):
        raise DataError(f"{path}: holds no array {key!r}, so it is not a data set of this library.")
    return arrays[key]


def _matrix(arrays: dict[str, NDArray[Any]], which: str, data: NDArray[Any], path: Path) -> csr_array:
    indices, indptr, shape = (_require(arrays, f"{which}_{part}", path) for part in ("indices", "indptr", "shape"))
    try:
        if shape.shape != (2,) or shape.dtype.kind not in "iu" or not all(0 <= size <= MOST_ITEMS for size in shape):
            raise ValueError("its shape is not two sizes")
        if any(part.dtype.kind not in "iu" or part.ndim != 1 for part in (indices, indptr)):
            raise ValueError("its indices are not whole numbers")
        if len(indptr) != shape[0] + 1:
            raise ValueError("it has another number of rows than its shape says")
        if data.dtype.kind not in "biuf":
            raise ValueError(f"its values are of type {data.dtype}")
        matrix = csr_array((data, indices, indptr), shape=(int(shape[0]), int(shape[1])))
        matrix.check_format(full_check=True)
    except (TypeError, ValueError, IndexError) as error:
        raise DataError(f"{path}: the arrays of {which} do not make a CSR matrix ({error}).") from error
    return matrix
