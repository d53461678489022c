"""The half of a model that answers says what the whole model says."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from sklearn.preprocessing import normalize
from sklearn.utils.extmath import row_norms as sklearn_row_norms

from pysldl import SLDLClassifier
from pysldl.backend.linear_algebra import l2_normalize, row_norms
from pysldl.baselines import LabelPrior
from pysldl.datasets import make_asymmetric_multilabel
from pysldl.decoding import BlendDecoder, FeatureNeighborDecoder, JointNeighborDecoder, LinearReadout, NeighborDecoder
from pysldl.embedding import GaussianLabelEmbedding, IdentityLabelEmbedding
from pysldl.estimator.predictor import StagedPredictor
from pysldl.exceptions import ModelFormatError
from pysldl.mapping import RidgeMapping
from pysldl.persistence import load_model, load_predictor, save_model
from pysldl.persistence.manifest import load_manifest
from pysldl.ranking import LinearRanker

MODELS = {
    "features and ranker": SLDLClassifier(decoder=FeatureNeighborDecoder(10), ranker=LinearRanker(), online=True),
    "features": SLDLClassifier(decoder=FeatureNeighborDecoder(10)),
    "codes": SLDLClassifier(
        GaussianLabelEmbedding(4, n_steps=20), RidgeMapping(fit_intercept=True), NeighborDecoder(10)
    ),
    "both, and read-out": SLDLClassifier(
        IdentityLabelEmbedding(), decoder=BlendDecoder(JointNeighborDecoder(10), LinearReadout())
    ),
}


@pytest.fixture(scope="module")
def data() -> Any:
    return make_asymmetric_multilabel(150, 80, 12, random_state=0)


@pytest.mark.parametrize("kind", MODELS)
def test_a_half_answers_as_the_whole(kind: str, data: Any, tmp_path: Path) -> None:
    model = MODELS[kind].fit(data.X, data.Y, label_names=data.label_names, feature_names=data.feature_names)
    save_model(model, tmp_path / "model")
    whole, half = load_model(tmp_path / "model"), load_predictor(tmp_path / "model")
    assert type(half) is StagedPredictor
    X = sparse.csr_array(data.X, dtype=np.float32)
    for rows in (X[:1], X):
        for found, expected in zip(half.score_blocks(rows), whole.score_blocks(rows), strict=True):
            assert (found != expected).sum() == 0
    np.testing.assert_array_equal(half.predict_topk(X, 3, proba=True)[1], whole.predict_topk(X, 3, proba=True)[1])
    assert (half.predict(X) != whole.predict(X)).nnz == 0
    name = data.label_names[3]
    assert half.explain(X[:1], name) == whole.explain(X[:1], name)
    assert half.label_column(name) == 3


def test_what_has_no_half_is_loaded_whole(data: Any, tmp_path: Path) -> None:
    save_model(LabelPrior().fit(data.X, data.Y), tmp_path / "model")
    assert type(load_predictor(tmp_path / "model")) is LabelPrior


def test_a_folder_cannot_replace_a_method(data: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save_model(MODELS["features"].fit(data.X, data.Y), tmp_path / "model")

    def forged(*arguments: Any, **options: Any) -> Any:
        manifest = load_manifest(*arguments, **options)
        manifest.tree["state"]["explain"] = 1
        return manifest

    monkeypatch.setattr("pysldl.persistence.loading.load_manifest", forged)
    with pytest.raises(ModelFormatError, match="explain"):
        load_predictor(tmp_path / "model")


def test_lengths_are_those_of_scikit_learn_in_double_precision(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pysldl.backend.linear_algebra.BLOCK_VALUES", 64)
    X = sparse.random_array((50, 30), density=0.2, format="csr", dtype=np.float32, random_state=0)
    np.testing.assert_allclose(row_norms(X), sklearn_row_norms(X.astype(np.float64)), rtol=1e-7)
    np.testing.assert_allclose(l2_normalize(X).toarray(), normalize(X).toarray(), rtol=1e-6)
    np.testing.assert_allclose(l2_normalize(X.toarray()), normalize(X.toarray()), rtol=1e-6)


def test_reading_a_manifest_does_not_load_scikit_learn() -> None:
    script = "import sys, pysldl.persistence; print('sklearn' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], capture_output=True, text=True).stdout.strip() == "False"
