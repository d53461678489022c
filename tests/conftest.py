"""Fixtures every test folder may use."""

import os
from pathlib import Path

import pytest

BESIDE_THE_REPOSITORY = Path(__file__).resolve().parents[2] / "shared" / "data"


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """Folder of the real data sets; the test skips where there is none."""
    folder = Path(os.environ.get("PYSLDL_DATA", BESIDE_THE_REPOSITORY))
    if not any(folder.glob("*.npz")):
        pytest.skip(f"no data sets in {folder}: set PYSLDL_DATA to the folder that holds them")
    return folder
