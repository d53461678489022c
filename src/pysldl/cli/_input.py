"""The DATA argument of commands: options for reading it, the rows to use, and lists of numbers."""

import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from pysldl.estimator.settings import parse_assignments
from pysldl.exceptions import DataError, SLDLError

if TYPE_CHECKING:
    from pysldl.datasets import Dataset

STANDARD_INPUT = "-"


def _refuse_options(_: Any, word: str | None) -> None:
    if word is not None and word.startswith("-") and word != STANDARD_INPUT:
        raise ValueError(f"Unknown option {word}")


# Arguments of several commands, with their help. A word that begins with a hyphen is taken only for the lone one.
AnyData = Annotated[str, Parameter(allow_leading_hyphen=True, validator=_refuse_options)]
Data = Annotated[AnyData, Parameter(help="A file, a name of the catalog, or - for standard input.")]
ModelFolder = Annotated[Path, Parameter(help="Folder that `sldl fit` wrote.")]
Features = Annotated[
    Literal["auto", "raw", "tfidf"],
    Parameter(help="How to take raw term counts, as in eurlex57k and tibkat; auto does what was done in fitting."),
]


@Parameter(name="*")
@dataclass(frozen=True)
class Reading:
    """How to read DATA.

    Parameters
    ----------
    data_dir : Path, optional
        Folder that holds copies of the catalog's data sets; else the environment variable PYSLDL_DATA.
    input_format : str
        auto, npz, xc, arff, svmlight, jsonl or csv; auto detects from extension and first line.
    text : str, optional
        Field or column that holds the text (default: text); several, such as title,abstract, are joined.
    labels : str, optional
        Field or column that holds the labels (default: labels); for ARFF, MULAN's XML file or MEKA's number.
    read : list of str, optional
        Any other option of the format's reader as key=value: `--read separator='|'`, `--read delimiter=tab`,
        `--read header=false`, `--read encoding=latin-1`, `--read id=record`, `--read zero_based=true`.
    """

    data_dir: Path | None = None
    input_format: str = "auto"
    text: str | None = None
    labels: str | None = None
    read: list[str] | None = None

    def given(self) -> str:
        """Return the reader options that were given, as they are written; empty if there are none."""
        words = ["--text"] * (self.text is not None) + ["--labels"] * (self.labels is not None)
        words += ["--input-format"] * (self.input_format != "auto")
        return ", ".join([*words, *(f"--read {word}" for word in self.read or [])])

    def options(self) -> dict[str, Any]:
        """Keyword arguments of the format's reader."""
        words = ["text=" + repr(self.text)] if self.text is not None else []
        words += [f"labels={self.labels}"] if self.labels is not None else []
        return parse_assignments([*words, *(self.read or [])], "--read")


USUAL_READING = Reading()


def read_data(data: str, reading: Reading = USUAL_READING, *, n_features: int | None = None) -> "Dataset":
    """Read the data set of a file, of a name in the catalog, or of standard input (``-``).

    ``n_features`` is what a model expects; only svmlight files, which do not say how many they have, need it.
    """
    from pysldl.datasets import load_dataset, read_dataset
    from pysldl.datasets.readers import detect_format

    if not Path(data).is_file() and data != STANDARD_INPUT and (name := _catalog_name(data)) is not None:
        refused = reading.given()
        if refused:
            raise DataError(f"{refused}: {name} is a data set of the catalog, which is read without such options.")
        return load_dataset(name, reading.data_dir)
    with local_file(data) as path:
        options = reading.options()
        format = detect_format(path) if reading.input_format == "auto" else reading.input_format
        if format == "svmlight" and n_features is not None:
            options.setdefault("n_features", n_features)
        return read_dataset(path, format, **options)


def choose_rows(dataset: "Dataset", split: str | None, usual: str | None = None) -> "tuple[Dataset, str]":
    """Select the rows of a split; by default the ``usual`` split if there is one, else all. Also returns its name."""
    if split is None:
        split = usual if usual is not None and usual in dataset.splits else "all"
    return (dataset, split) if split == "all" else (dataset.split(split), split)


@contextmanager
def local_file(data: str) -> Iterator[Path]:
    """The path or pattern ``data``; standard input is put into a temporary file, and errors call it by its name."""
    from pysldl.datasets.parquet import is_arrow_path

    if data != STANDARD_INPUT:
        path = Path(data)
        if not path.exists() and not is_arrow_path(data):
            raise DataError(f"{data}: no such file, and no data set of that name (see: sldl datasets).")
        yield path
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "stdin")
        with path.open("wb") as file:
            shutil.copyfileobj(sys.stdin.buffer, file)
        try:
            yield path
        except SLDLError as error:
            raise type(error)(str(error).replace(str(path), "standard input")) from error


def split_words(text: str | None) -> list[str] | None:
    """The words between commas; None where the option was not given."""
    return None if text is None else [word.strip() for word in text.split(",") if word.strip()]


def parse_numbers(text: str | None, option: str, usual: tuple[int, ...]) -> tuple[int, ...]:
    """``"1,3,5"`` as numbers of at least 1, each once; the ``usual`` ones where the option was not given."""
    if text is None:
        return usual
    try:
        numbers = tuple(dict.fromkeys(int(word) for word in text.split(",")))
    except ValueError:
        numbers = ()
    if not numbers or min(numbers) < 1:
        raise DataError(f"{option} {text}: expected whole numbers of at least 1, such as 1,3,5.")
    return numbers


def parse_ranges(text: str, option: str, n: int, thing: str) -> list[int]:
    """``"17,100-120"`` as numbers of ``n`` things that are counted from 0, both ends included.

    Examples
    --------
    >>> parse_ranges("4,7-9", "--remove", 20, "training row")
    [4, 7, 8, 9]
    """
    numbers: list[int] = []
    for word in text.split(","):
        first, dash, last = word.strip().partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()) or (dash and int(last) < int(first)):
            raise DataError(f"{option} {text}: expected {thing} numbers and ranges of them, such as 3,5-7.")
        if int(last or first) >= n:
            raise DataError(f"{option} {text}: there is no {thing} {last or first}; the last is {n - 1}.")
        numbers.extend(range(int(first), int(last or first) + 1))
    return numbers


def _catalog_name(data: str) -> str | None:
    from pysldl.datasets import dataset_info

    try:
        return dataset_info(data).name
    except DataError:
        return None
