"""The options that say how to read DATA, the same for every command that does."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from pysldl.estimator.settings import parse_assignments

__all__ = ["STANDARD_INPUT", "Data", "Reading"]

STANDARD_INPUT = "-"


def _refuse_options(_: Any, word: str | None) -> None:
    if word is not None and word.startswith("-") and word != STANDARD_INPUT:
        raise ValueError(f"there is no option {word}")


# A word that begins with a hyphen is taken only for the sake of the lone one.
Data = Annotated[str, Parameter(allow_leading_hyphen=True, validator=_refuse_options)]


@Parameter(name="*")
@dataclass(frozen=True)
class Reading:
    """How to read DATA.

    Parameters
    ----------
    data_dir : Path, optional
        Folder that holds copies of the catalog's data sets; else the environment variable PYSLDL_DATA.
    input_format : str
        auto, npz, xc, arff, svmlight, jsonl or csv; auto goes by the name and the first line.
    text : str, optional
        Field or column that holds the text (default: text).
    labels : str, optional
        Field or column that holds the labels (default: labels); for ARFF, MULAN's XML file or MEKA's number.
    read : list of str, optional
        Any other option of the format's reader as key=value: `--read separator='|'`, `--read delimiter=tab`,
        `--read zero_based=true`.
    """

    data_dir: Path | None = None
    input_format: str = "auto"
    text: str | None = None
    labels: str | None = None
    read: list[str] | None = None

    def given(self) -> str:
        """The options for the reader of a file that were given, as they are written; empty where there are none."""
        words = ["--text"] * (self.text is not None) + ["--labels"] * (self.labels is not None)
        words += ["--input-format"] * (self.input_format != "auto")
        return ", ".join([*words, *(f"--read {word}" for word in self.read or [])])

    def options(self) -> dict[str, Any]:
        """Keyword arguments of the format's reader."""
        words = ["text=" + repr(self.text)] if self.text is not None else []
        words += [f"labels={self.labels}"] if self.labels is not None else []
        return parse_assignments([*words, *(self.read or [])], "--read")
