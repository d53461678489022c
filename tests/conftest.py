"""Fixtures every test folder may use; which tests depend on arithmetic, and what is skipped without extras."""

import io
import json
import os
import re
import sys
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from machines.number_tests import NUMBERS

ROOT = Path(__file__).resolve().parent.parent
# Set by `make test-core`: there a test that stops because an extra is missing is skipped, with that as the reason.
WITHOUT_EXTRAS = "PYSLDL_TEST_WITHOUT_EXTRAS" in os.environ
MISSING_EXTRA = re.compile(
    r"needs? [^.]*pip install .?.pysldl\[\w+\]|No module named '(faiss|jinja2|matplotlib|numba|starlette|torch|uvicorn)"
)
BESIDE_THE_REPOSITORY = Path(__file__).resolve().parents[2] / "shared" / "data"


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """Folder of the real data sets; the test skips where there is none."""
    folder = Path(os.environ.get("PYSLDL_DATA", BESIDE_THE_REPOSITORY))
    if not any(folder.glob("*.npz")):
        pytest.skip(f"no data sets in {folder}: set PYSLDL_DATA to the folder that holds them")
    return folder


class Outcome(NamedTuple):
    """What a command line came to."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        return json.loads(self.out)

    @property
    def lines(self) -> list[Any]:
        return [json.loads(line) for line in self.out.splitlines()]


@pytest.fixture
def sldl(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Outcome]:
    """Run ``sldl`` with these words in this process; the exit code and what was printed."""
    from pysldl.cli import run

    monkeypatch.delenv("SLDL_DEBUG", raising=False)
    monkeypatch.delenv("PYSLDL_DATA", raising=False)
    monkeypatch.setenv("COLUMNS", "120")

    def run_words(*words: object, stdin: bytes | None = None) -> Outcome:
        if stdin is not None:
            monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        capsys.readouterr()
        code = run([str(word) for word in words])
        return Outcome(code, *capsys.readouterr())

    return run_words


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests and doctests whose outcome depends on arithmetic."""
    for item in items:
        path = item.path.relative_to(ROOT).as_posix()
        if path.startswith(NUMBERS):
            item.add_marker(pytest.mark.numbers)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, pytest.TestReport]:
    """Skip instead of failing where an extra is missing and the suite is meant to run without."""
    report = yield
    if WITHOUT_EXTRAS and report.failed and call.excinfo is not None:
        found = MISSING_EXTRA.search(f"{call.excinfo.value}\n{report.capstderr}")
        if found is not None:
            report.outcome = "skipped"
            report.longrepr = (str(item.path), 0, f"Skipped: {found[0]}")
    return report


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Look for doctests in the package only: helpers of the tests have none."""
    return True if collection_path.suffix == ".py" and not collection_path.name.startswith("test_") else None
