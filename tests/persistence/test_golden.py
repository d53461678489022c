"""Models saved by every released format load, and answer as they did."""

import json
from pathlib import Path

import numpy as np
import pytest

from pysldl.persistence import FORMAT_VERSION, load_model, read_manifest
from pysldl.persistence.loading import READERS

GOLDEN = Path(__file__).parent / "golden"


@pytest.mark.parametrize("version", READERS)
@pytest.mark.parametrize("mmap", [True, False])
def test_golden_models_answer_as_they_did(version: int, mmap: bool) -> None:
    folder = GOLDEN / f"v{version}"
    expected = json.loads((folder / "expected.json").read_text(encoding="utf-8"))
    assert read_manifest(folder / "model").format_version == version
    model = load_model(folder / "model", mmap=mmap)
    queries = expected["queries"]
    assert model.label_names_.tolist() == expected["label_names"]
    # Other machines may round products differently in the last digits.
    np.testing.assert_allclose(model.decision_function(queries), expected["scores"], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(model.predict_proba(queries), expected["probabilities"], rtol=1e-4, atol=1e-6)
    assert model.predict(queries) == expected["predicted"]


def test_the_present_format_has_a_reader_and_a_golden_model() -> None:
    assert max(READERS) == FORMAT_VERSION
    assert {path.name for path in GOLDEN.glob("v*")} == {f"v{version}" for version in READERS}
