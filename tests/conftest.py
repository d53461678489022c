"""Fixtures every test folder may use, and the mark of the tests whose outcome depends on arithmetic."""

import os
from pathlib import Path

import pytest

from machines.number_tests import NUMBERS

ROOT = Path(__file__).resolve().parent.parent
BESIDE_THE_REPOSITORY = Path(__file__).resolve().parents[2] / "shared" / "data"


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """Folder of the real data sets; the test skips where there is none."""
    folder = Path(os.environ.get("PYSLDL_DATA", BESIDE_THE_REPOSITORY))
    if not any(folder.glob("*.npz")):
        pytest.skip(f"no data sets in {folder}: set PYSLDL_DATA to the folder that holds them")
    return folder


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests and doctests whose outcome depends on arithmetic."""
    for item in items:
        path = item.path.relative_to(ROOT).as_posix()
        if path.startswith(NUMBERS):
            item.add_marker(pytest.mark.numbers)


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Look for doctests in the package only: helpers of the tests have none."""
    return True if collection_path.suffix == ".py" and not collection_path.name.startswith("test_") else None
