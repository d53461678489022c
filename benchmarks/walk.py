"""How far a reader has to walk through the source to follow one fit, or one fold of the reproduction.

Every function of the library is listed in the order of its first call. Counted are the functions, the files that they
are in, and the returns: steps to a folder that the walk has left before. Properties, comprehensions and what is called
while modules are imported do not count.

    python benchmarks/walk.py            # both walks
    python benchmarks/walk.py --list     # with the functions in order
"""

import argparse
import sys
import tempfile
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import pysldl
from pysldl import make_sldl
from pysldl.datasets import make_asymmetric_multilabel

SOURCE = Path(pysldl.__file__).resolve().parent


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
        """Steps to a folder that the walk has left before."""
        folders = [str(Path(file).parent) for file, _ in self.functions]
        seen: set[str] = set()
        count, current = 0, None
        for folder in folders:
            if folder != current and folder in seen:
                count += 1
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
    """One fold of ``sldl reproduce`` with the preset ``paper``, without the report."""
    from pysldl.cli import run

    folder = Path(tempfile.mkdtemp())
    data = make_asymmetric_multilabel(n_samples=120, random_state=0)
    from pysldl.datasets import write_npz

    write_npz(data, folder / "synthetic.npz")

    def reproduce(out: str = "out") -> Any:
        arguments = ["reproduce", "--data", str(folder / "synthetic.npz"), "--out", str(folder / out)]
        return run([*arguments, "--methods", "sldl", "--folds", "0", "--c-hats", "4", "--ks", "10", "--quiet"])

    reproduce("warm-up")
    return reproduce


def main() -> None:
    """Print the figures of both walks."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", action="store_true", help="also print the functions in order")
    options = parser.parse_args()
    for name, prepare in {"paper fit": paper_fit, "one fold of reproduce": one_fold}.items():
        walk = walk_of(prepare())
        print(f"{name}: {len(walk.functions)} functions in {len(walk.files)} files, {walk.returns} returns")
        if options.list:
            for file, function in walk.functions:
                print(f"    {file}: {function}")


if __name__ == "__main__":
    main()
