"""Every test that docs/trial.md names is there."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "trial.md"
NAMED = re.findall(r"`((?:tests/)?[\w/]+\.py)(?:::(\w+))?`", PAGE.read_text()) if PAGE.is_file() else []


def test_every_row_of_the_trial_names_a_test_that_exists():
    if not NAMED:
        pytest.skip("the documents are not part of an installed package")
    missing = []
    for file, name in NAMED:
        path = ROOT / file if "/" in file else Path(__file__).parent / file
        if not path.is_file() or (name and f"def {name}(" not in path.read_text()):
            missing.append(f"{file}::{name}")
    assert not missing
    rows = [line for line in PAGE.read_text().splitlines() if re.match(r"\| *\d", line)]
    assert {int(line.split("|")[1]) for line in rows} == set(range(1, 17))  # all items of the trial
    assert all(".py" in line or "make test" in line for line in rows)
