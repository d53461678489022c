"""How far a reader has to walk through the source to follow one fit, or one fold of the reproduction.

Every function of the library is listed in the order of its first call. Counted are the functions, the files that they
are in, and the returns: steps to a folder that the walk has left before, from function to function, and from file to
file in the order in which they are first entered. What is called while modules are imported does not count. The second
line leaves out the layers that a reader looks up and does not follow: primitives (backend) and helpers (_utils).

    python benchmarks/walk.py            # both walks
    python benchmarks/walk.py --list     # with the functions in order
    python benchmarks/walk.py --record
"""

import argparse
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import pysldl
from pysldl import make_sldl
from pysldl.cli import run
from pysldl.datasets import make_asymmetric_multilabel, write_npz
from records import add_record_option, write_rows

SOURCE = Path(pysldl.__file__).resolve().parent
LOOKED_UP = ("backend/", "_utils/")


@dataclass
class Walk:
    """The functions of the library in the order of their first call."""

    functions: list[tuple[str, str]]

    @property
    def files(self) -> list[str]:
        """The files, each once."""
        return list(dict.fromkeys(file for file, _ in self.functions))

    @property
    def returns(self) -> int:
        """Steps from function to function that lead to a folder that the walk has left before."""
        return _returns(file for file, _ in self.functions)

    @property
    def file_returns(self) -> int:
        """The same for the files in the order in which they are first entered."""
        return _returns(self.files)

    def followed(self) -> "Walk":
        """The walk without primitives and helpers."""
        return Walk([step for step in self.functions if not step[0].startswith(LOOKED_UP)])

    def as_row(self, name: str) -> dict[str, Any]:
        """The figures as a row of a record."""
        counted = {"functions": len(self.functions), "files": len(self.files)}
        return {"walk": name, **counted, "returns": self.returns, "file_returns": self.file_returns}

    def __str__(self) -> str:
        return (
            f"{len(self.functions)} functions in {len(self.files)} files, {self.returns} returns "
            f"({self.file_returns} from file to file)"
        )


def _returns(files: Iterable[str]) -> int:
    seen: set[str] = set()
    count, current = 0, None
    for file in files:
        folder = str(Path(file).parent)
        count += folder != current and folder in seen
        seen.add(folder)
        current = folder
    return count


def walk_of(work: Callable[[], Any]) -> Walk:
    """Follow ``work`` through the library."""
    found: dict[tuple[str, str], None] = {}

    def note(frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event != "call" or code.co_name.startswith("<") or not code.co_filename.startswith(str(SOURCE)):
            return
        found.setdefault((str(Path(code.co_filename).relative_to(SOURCE)), code.co_qualname))

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return Walk(list(found))


def paper_fit() -> Callable[[], Any]:
    """A fit of the preset ``paper`` on the synthetic data."""
    data = make_asymmetric_multilabel(random_state=0)

    def fit() -> Any:
        return make_sldl("paper", embedding__n_components=8).fit(data.X, data.Y)

    fit()  # modules are imported and loops compiled before the walk
    return fit


def one_fold() -> Callable[[], Any]:
    """One fold of ``sldl reproduce`` with the preset ``paper``, with its report."""
    folder = Path(tempfile.mkdtemp())
    data = make_asymmetric_multilabel(n_samples=120, random_state=0)
    write_npz(data, folder / "synthetic.npz")

    def reproduce(out: str = "out") -> Any:
        arguments = ["reproduce", "--datasets", str(folder / "synthetic.npz"), "--out", str(folder / out)]
        return run(
            [
                *arguments,
                "--methods",
                "sldl",
                "--folds",
                "2",
                "--first-folds",
                "1",
                "--c-hats",
                "4",
                "--n-steps",
                "10",
                "--ks",
                "10",
                "--jobs",
                "1",
            ]
        )

    reproduce("warm-up")
    return reproduce


def main() -> None:
    """Print the figures of both walks."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", action="store_true", help="also print the functions in order")
    add_record_option(parser, "walk.csv")
    options = parser.parse_args()
    rows = []
    for name, prepare in {"fit of `paper`": paper_fit, "one fold of `reproduce`, with its report": one_fold}.items():
        walk = walk_of(prepare())
        print(f"{name}: {walk}\n    without primitives and helpers: {walk.followed()}")
        rows += [walk.as_row(name), walk.followed().as_row(f"{name}, without `backend` and `_utils`")]
        if options.list:
            for file, function in walk.functions:
                print(f"    {file}: {function}")
    if options.record:
        write_rows(options.record, rows, ("walk",))


if __name__ == "__main__":
    main()
