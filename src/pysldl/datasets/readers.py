"""Read any supported file format; the format is detected by file name and content."""

import os
from collections.abc import Callable
from inspect import signature
from pathlib import Path
from typing import Any

from pysldl.datasets.annif_corpus import is_annif_corpus, read_annif
from pysldl.datasets.arff import read_arff
from pysldl.datasets.dataset import Dataset
from pysldl.datasets.files import open_binary, require_file
from pysldl.datasets.npz import read_npz
from pysldl.datasets.parquet import ARROW_SUFFIXES, is_arrow_path, read_parquet
from pysldl.datasets.svmlight import read_svmlight
from pysldl.datasets.text import read_csv, read_jsonl
from pysldl.datasets.xc import is_xc_header, read_xc
from pysldl.exceptions import DataError

READERS: dict[str, Callable[..., Dataset]] = {
    "npz": read_npz,
    "xc": read_xc,
    "arff": read_arff,
    "svmlight": read_svmlight,
    "jsonl": read_jsonl,
    "csv": read_csv,
    "parquet": read_parquet,
    "annif": read_annif,
}

FORMAT_OF_SUFFIX = {
    ".npz": "npz",
    ".arff": "arff",
    ".json": "jsonl",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".svm": "svmlight",
    ".libsvm": "svmlight",
    ".svmlight": "svmlight",
    ".csv": "csv",
    ".tsv": "csv",
    **dict.fromkeys(ARROW_SUFFIXES, "parquet"),
}


def read_dataset(path: str | os.PathLike[str], format: str = "auto", **options: Any) -> Dataset:
    """Read a data set from a file.

    Parameters
    ----------
    path : path
        Text formats may be packed as ``.gz``. Parquet and Arrow may be a folder of files, or a pattern for them; a
        folder of ``.txt`` files with ``.key`` or ``.tsv`` files beside them is a corpus of Annif.
    format : {"auto", "npz", "xc", "arff", "svmlight", "jsonl", "csv", "parquet", "annif"}
        "auto" detects it from the suffix, and from the first line if that does not say it.
    **options
        Passed on to the format's reader, for example ``labels="emotions.xml"`` or ``test_path=...``.
    """
    if format == "auto":
        format = detect_format(path)
    if format not in READERS:
        raise DataError(f"format {format!r} is unknown; choose one of {', '.join(READERS)}.")
    try:
        return READERS[format](path, **options)
    except DataError as error:
        if os.fspath(path) in str(error):
            raise
        raise DataError(f"{path}: {error}") from error
    except TypeError as error:
        if "unexpected keyword argument" not in str(error):
            raise
        known = [name for name in signature(READERS[format]).parameters if name != "path"]
        unknown = next(name for name in options if name not in known)
        raise DataError(f"{path}: unknown option {unknown!r}; {format} accepts {', '.join(known)}.") from error


def detect_format(path: str | os.PathLike[str]) -> str:
    """Detect the format of a file by its suffix or, failing that, its first line."""
    if is_arrow_path(path):
        return "parquet"
    if is_annif_corpus(path):
        return "annif"
    path = require_file(path)
    suffix = Path(path.name.removesuffix(".gz")).suffix.lower()
    if suffix in FORMAT_OF_SUFFIX:
        return FORMAT_OF_SUFFIX[suffix]
    with open_binary(path) as stream:
        start = stream.read(1 << 12)
    if start.startswith(b"PK\x03\x04"):
        return "npz"
    first_line = start.decode("utf-8-sig", errors="replace").split("\n")[0].strip()
    if is_xc_header(first_line):
        return "xc"
    if first_line.lower().startswith(("@relation", "%")):
        return "arff"
    if first_line.startswith(("{", "[")):
        return "jsonl"
    if ":" in first_line and "\0" not in first_line and "\ufffd" not in first_line:
        return "svmlight"
    raise DataError(
        f"{path}: its format cannot be told from the name or the first line; use format= (in the shell: "
        f"--input-format) with one of {', '.join(READERS)}."
    )
