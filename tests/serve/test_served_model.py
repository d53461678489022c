"""One version of a model: what it responds, whatever it keeps."""

import numpy as np
import pytest
from quick_models import fitted

from pysldl import SLDLClassifier, make_sldl
from pysldl.baselines.controls import LabelPrior
from pysldl.embedding import IdentityLabelEmbedding
from pysldl.persistence import save_model
from pysldl.serve import served_model
from pysldl.serve.errors import ServiceError
from pysldl.serve.schemas import RelationsQuery, SparseRow
from pysldl.serve.served_model import open_version

TEXT = "Distant cloud, rain, rainbow: OLD SKY!"


def test_labels_that_were_added_later(world, tmp_path):
    model = fitted(world, range(300), online=True)
    model.partial_fit(world.X[300:304], [["a new label"], ["a new label", "sky"], ["sky"], ["a new label"]])
    save_model(model, tmp_path / "model")
    served = open_version(tmp_path / "model")
    served.warm_up()
    facts = served.facts()
    assert facts.n_labels == 41 and sum(group["n_labels"] for group in facts.held_out["by_frequency"]) <= 40
    assert served.relations(RelationsQuery("a new label")).count == 3
    assert len(served.map().x) == 41
    assert served.explain(TEXT, "a new label", 5).label == "a new label"
    assert len(served.predict([TEXT], 41).predictions[0].labels) >= 3


def test_a_model_without_calibration(world, tmp_path):
    model = SLDLClassifier(IdentityLabelEmbedding(), calibrate=False, random_state=0)
    save_model(model.fit(world.X, world.Y, feature_names=world.feature_names.tolist()), tmp_path / "model")
    served = open_version(tmp_path / "model")
    (found,) = served.predict([TEXT], 3).predictions
    assert len(found.labels) == 3 and all(x.probability is None and x.chosen is None for x in found.labels)
    (above,) = served.predict([TEXT], 3, threshold=float(found.labels[1].score)).predictions
    assert len(above.labels) == 2
    assert served.facts().calibration is None and served.facts().held_out is None
    assert len(served.map().x) == 40 and served.explain(TEXT, "3", 2).probability is None


def test_duplicate_columns_of_a_sparse_row_add_up(word_model):
    served = open_version(word_model)
    once, twice = (served.features([SparseRow(pairs)]) for pairs in ([(3.0, 2.0)], [(3.0, 1.5), (3.0, 0.5)]))
    assert (once != twice).nnz == 0 and once.dtype == np.float32
    assert served.features([SparseRow([])]).shape == (1, 240)


@pytest.mark.parametrize(
    ("inputs", "code"),
    [([" "], "empty_text"), (["a", [0.0] * 240], "invalid_request"), (["a", "\n"], "empty_text")],
)
def test_inputs_that_are_refused(word_model, inputs, code):
    with pytest.raises(ServiceError) as refused:
        open_version(word_model).check_inputs(inputs)
    assert refused.value.code == code


def test_a_baseline_predicts_and_has_neither_explanations_nor_relations(world, tmp_path):
    save_model(LabelPrior().fit(world.X, world.Y, label_names=world.label_names), tmp_path / "model")
    served = open_version(tmp_path / "model")
    served.compile_loops()
    vector = [0.0] * 240
    (found,) = served.predict([vector], 2, labels=["sky", "cloud", "sky"]).predictions
    assert {label.label for label in found.labels} == {"sky", "cloud"} and found.features == 0
    for ask in (lambda: served.explain(vector, "sky", 3), lambda: served.relations(RelationsQuery("sky")), served.map):
        with pytest.raises(ServiceError) as refused:
            ask()
        assert refused.value.code == "not_supported"


def test_only_some_labels_of_sparse_scores(world, tmp_path):
    model = make_sldl("fast").fit(world.X, world.Y, label_names=world.label_names, feature_names=world.feature_names)
    save_model(model, tmp_path / "model")
    served = open_version(tmp_path / "model")
    (every,), (only,) = (
        served.predict([TEXT], 40).predictions,
        served.predict([TEXT], 40, labels=["sky", "cloud"]).predictions,
    )
    assert [x.label for x in only.labels] == [x.label for x in every.labels if x.label in ("sky", "cloud")] != []
    served.compile_loops()
    assert served.predict([TEXT], 40).predictions == [every]


def test_curves_are_thinned_with_both_ends():
    assert served_model._thinned(np.empty(0)) == []
    thinned = served_model._thinned(np.arange(10_000))
    assert len(thinned) == 400 and (thinned[0], thinned[-1]) == (0, 9999)
