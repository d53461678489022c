"""A model that was saved in the present format loads, and answers as it did."""

import json
from pathlib import Path

import numpy as np
import pytest

from pysldl.persistence import FORMAT_VERSION, load_model, read_manifest

GOLDEN = Path(__file__).parent / "golden" / f"v{FORMAT_VERSION}"


@pytest.mark.parametrize("mmap", [True, False])
def test_the_golden_model_answers_as_it_did(mmap: bool) -> None:
    expected = json.loads((GOLDEN / "expected.json").read_text(encoding="utf-8"))
    assert read_manifest(GOLDEN / "model").format_version == FORMAT_VERSION
    model = load_model(GOLDEN / "model", mmap=mmap)
    queries = expected["queries"]
    assert model.label_names_.tolist() == expected["label_names"]
    # Other machines may round products differently in the last digits.
    np.testing.assert_allclose(model.decision_function(queries), expected["scores"], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(model.predict_proba(queries), expected["probabilities"], rtol=1e-4, atol=1e-6)
    assert model.predict(queries) == expected["predicted"]
