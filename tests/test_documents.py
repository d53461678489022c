"""The Python examples of the README and the documents run, and their figures are those of the records."""

import re
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

from pysldl import make_sldl
from pysldl.datasets import make_asymmetric_multilabel
from pysldl.exceptions import SLDLWarning

ROOT = Path(__file__).parent.parent
EXAMPLES = {
    f"{path.name}-{number}": example
    for path in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
    for number, example in enumerate(re.findall(r"^```python\n(.*?)^```", path.read_text(), re.DOTALL | re.MULTILINE))
}


@pytest.fixture(scope="module")
def known():
    """What examples speak of without making it."""
    texts = ["clouds over the sea", "rain from gray clouds", "a cat on a mat", "cats and dogs"] * 60
    labels = [["cloud", "sky", "sea"], ["rain", "cloud", "sky"], ["cat"], ["cat", "dog"]] * 60
    data = make_asymmetric_multilabel(n_samples=200, random_state=0)
    return {
        "texts": texts,
        "labels": labels,
        "more_texts": ["a green parrot"] * 4,
        "more_labels": [["parrot"]] * 4,
        "clf": make_sldl("fast").fit(texts, labels),
        "X": data.X,
        "Y": data.Y,
    }


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_example_runs(name, known, tmp_path, monkeypatch, capsys):
    if "CLIF" in EXAMPLES[name]:
        pytest.importorskip("torch")
    monkeypatch.chdir(tmp_path)
    if "parquet" in EXAMPLES[name]:
        pytest.importorskip("pyarrow")
        pytest.importorskip("distributed")
        frame = pytest.importorskip("pandas").DataFrame({"text": known["texts"], "labels": known["labels"]})
        for folder in ("records", "new"):
            (tmp_path / folder).mkdir()
            frame.to_parquet(tmp_path / folder / "part.parquet")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SLDLWarning)  # a few rows are not enough for everything
        exec(EXAMPLES[name], {"__name__": "example", **known})


def test_there_are_examples():
    assert {"README.md-0", "baselines.md-0", "online.md-0"} <= EXAMPLES.keys()


def test_documents_say_what_the_records_say():
    script = ROOT / "benchmarks" / "documents.py"
    checked = subprocess.run([sys.executable, script, "--check"], capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_records_are_small():
    sizes = [path.stat().st_size for path in (ROOT / "results").rglob("*") if path.is_file()]
    assert sizes and sum(sizes) < 5_000_000
