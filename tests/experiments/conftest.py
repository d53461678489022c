"""Fixtures for the experiments: the paper's tables, and a small made-up run."""

import os
import random
from pathlib import Path

import pytest
from fold_records import make_record
from small_world import small_file

from pysldl.experiments.run.runner import Source
from pysldl.experiments.stats.results import FoldRecord, Summary, read_summaries


@pytest.fixture(scope="session")
def paper_dir(request: pytest.FixtureRequest) -> Path:
    """Folder of the paper's printed results; the test skips where there is none."""
    named = os.environ.get("PYSLDL_PAPER")
    folder = Path(named) if named else request.getfixturevalue("data_dir").parent / "paper"
    if not (folder / "results.csv").is_file():
        pytest.skip(f"no results.csv in {folder}: set PYSLDL_PAPER to the folder that holds the paper's tables")
    return folder


@pytest.fixture(scope="session")
def paper_rows(paper_dir: Path) -> list[Summary]:
    return read_summaries(paper_dir / "results.csv")


@pytest.fixture
def source(tmp_path: Path) -> Source:
    """The small data set, in a file."""
    return Source(small_file(tmp_path))


@pytest.fixture
def records() -> list[FoldRecord]:
    """Three methods on three data sets, ten folds: SLDL clearly above "random", on a par with "w/o AC"."""
    chance = random.Random(0)
    made = []
    for level, dataset in ((0.5, "birds"), (0.6, "emotions"), (0.8, "a|b_c")):
        for fold in range(10):
            ease = chance.gauss(0, 0.02)
            for method, gain in (("random", -0.1), ("w/o AC", 0.0), ("SLDL", 0.0)):
                score = level + ease + gain + chance.gauss(0, 0.005)
                made.append(make_record(dataset, method, fold, score, fit_seconds=chance.uniform(0.1, 30)))
    return made
