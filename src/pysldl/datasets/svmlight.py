"""svmlight files with several labels per row: ``1,3 4:0.5 17:2``."""

import os
from pathlib import Path

import numpy as np
from sklearn.datasets import load_svmlight_file

from pysldl.datasets.dataset import Dataset
from pysldl.datasets.files import open_binary, stem
from pysldl.exceptions import DataError
from pysldl.preprocessing.labels import indicator_of_names, name_array

LARGEST = float(np.finfo(np.float32).max)

MOST_FEATURES = 2**31 - 2  # columns are 32-bit numbers


def read_svmlight(
    path: str | os.PathLike[str],
    *,
    n_features: int | None = None,
    zero_based: bool | str = "auto",
    name: str | None = None,
) -> Dataset:
    """Read a multi-label svmlight file with scikit-learn's parser.

    Parameters
    ----------
    path : path
        ``.gz`` is unpacked while reading.
    n_features : int, optional
        Number of features; default: as many as the largest index asks for.
    zero_based : bool or "auto"
        Whether features are counted from 0; "auto": only if a feature 0 occurs.
    name : str, optional
        Default: the file's.
    """
    with open_binary(path) as stream:
        try:
            X, rows = load_svmlight_file(
                stream, multilabel=True, n_features=n_features, zero_based=zero_based, dtype=np.float32
            )
        except (ValueError, OverflowError) as error:
            fault = _first_fault(path) or f": cannot be read ({error})"
            raise DataError(f"{path}{fault}.") from error
    if not X.shape[0]:
        raise DataError(f"{path}: holds no rows.")
    if not np.isfinite(X.data).all() or not all(abs(label) <= LARGEST for row in rows for label in row):
        raise DataError(f"{path}{_first_fault(path)}.")
    labels = sorted({label for row in rows for label in row})
    names = name_array([f"{label:g}" if label % 1 else str(int(label)) for label in labels])
    name_of = dict(zip(labels, names.tolist(), strict=True))
    Y = indicator_of_names(([name_of[label] for label in row] for row in rows), names)
    return Dataset(name or stem(Path(path)), X, Y, names)


def _first_fault(path: str | os.PathLike[str]) -> str | None:
    """What is wrong with the first broken line of a file, as ``, line 3: ...``."""
    with open_binary(path) as stream:
        for number, line in enumerate(stream, start=1):
            fault = _fault(line.decode("utf-8", errors="replace").partition("#")[0])
            if fault:
                return f", line {number}: {fault}"
    return None


def _fault(line: str) -> str | None:
    words = line.split()
    if not words:
        return None
    labels = [] if ":" in words[0] or line[:1].isspace() else words.pop(0).split(",")
    for label in labels:
        if not _is_float32(label):
            return f"the label {label!r} is not a number"
    previous = -1
    for word in words:
        feature, _, value = word.partition(":")
        if feature == "qid":
            continue
        if not feature.isdecimal():
            return f"expected 'feature:value', found {word!r}"
        if fault := value_fault(feature, value):
            return fault
        if len(feature) > len(str(MOST_FEATURES)) or int(feature) > MOST_FEATURES:
            return f"feature {feature[:20]} is beyond {MOST_FEATURES}, the most that there can be"
        if int(feature) <= previous:
            return f"feature {feature} comes after feature {previous}, but features must ascend"
        previous = int(feature)
    return None


def value_fault(feature: str, value: str) -> str | None:
    """What is wrong with the value of a feature, or None."""
    return None if _is_float32(value) else f"the value of feature {feature} is not a finite float32 number: {value!r}"


def _is_float32(word: str) -> bool:
    try:
        return abs(float(word)) <= LARGEST
    except ValueError:
        return False
