"""One version of a model: what it responds, whatever it keeps."""

import time
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from quick_models import fitted

from pysldl import SLDLClassifier, make_sldl
from pysldl.baselines.controls import LabelPrior
from pysldl.embedding import IdentityLabelEmbedding
from pysldl.persistence import current_version, save_model
from pysldl.preprocessing.vocabulary import Concept, Vocabulary
from pysldl.serve import served_model
from pysldl.serve.bodies import json_bytes
from pysldl.serve.errors import ServiceError
from pysldl.serve.limits import Limits
from pysldl.serve.schemas import LabelsQuery, RelationsQuery, SparseRow, SuggestForm
from pysldl.serve.served_model import ServedModel, open_version


def opened(path):
    return open_version(current_version(path), path.name)


TEXT = "Distant cloud, rain, rainbow: OLD SKY!"


def test_labels_that_were_added_later(world, tmp_path):
    model = fitted(world, range(300), online=True)
    model.partial_fit(world.X[300:304], [["a new label"], ["a new label", "sky"], ["sky"], ["a new label"]])
    save_model(model, tmp_path / "model")
    served = opened(tmp_path / "model")
    served.warm_up()
    facts = served.facts(Limits())
    assert facts.n_labels == 41 and sum(group["n_labels"] for group in facts.held_out["by_frequency"]) <= 40
    assert served.relations(RelationsQuery("a new label")).count == 3
    assert len(served.map().x) == 41
    assert served.explain(TEXT, "a new label", 5).label == "a new label"
    assert len(served.predict([TEXT], 41).predictions[0].labels) >= 3


def test_a_model_without_calibration(world, tmp_path):
    model = SLDLClassifier(IdentityLabelEmbedding(), calibrate=False, random_state=0)
    save_model(model.fit(world.X, world.Y, feature_names=world.feature_names.tolist()), tmp_path / "model")
    served = opened(tmp_path / "model")
    (found,) = served.predict([TEXT], 3).predictions
    assert len(found.labels) == 3 and all(x.probability is None and x.chosen is None for x in found.labels)
    (above,) = served.predict([TEXT], 3, threshold=found.labels[1].score - 1e-5).predictions
    assert len(above.labels) == 2
    assert served.facts(Limits()).calibration is None and served.facts(Limits()).held_out is None
    assert len(served.map().x) == 40 and served.explain(TEXT, "3", 2).probability is None


def test_duplicate_columns_of_a_sparse_row_add_up(word_model):
    served = opened(word_model)
    once, twice = (served.features([SparseRow(pairs)]) for pairs in ([(3.0, 2.0)], [(3.0, 1.5), (3.0, 0.5)]))
    assert (once != twice).nnz == 0 and once.dtype == np.float32
    assert served.features([SparseRow([])]).shape == (1, 240)


@pytest.mark.parametrize(
    ("inputs", "code"),
    [([" "], "empty_text"), (["a", [0.0] * 240], "invalid_request"), (["a", "\n"], "empty_text")],
)
def test_inputs_that_are_refused(word_model, inputs, code):
    with pytest.raises(ServiceError) as refused:
        opened(word_model).check_inputs(inputs)
    assert refused.value.code == code


def test_a_baseline_predicts_and_has_neither_explanations_nor_relations(world, tmp_path):
    save_model(LabelPrior().fit(world.X, world.Y, label_names=world.label_names), tmp_path / "model")
    served = opened(tmp_path / "model")
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
    served = opened(tmp_path / "model")
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


def test_labels_with_half_a_surrogate_pair_can_be_explained(world, tmp_path):
    names = ["\ud800 odd", *world.label_names[1:].tolist()]
    model = make_sldl("fast").fit(world.X, world.Y, label_names=names, feature_names=world.feature_names)
    save_model(model, tmp_path / "model")
    served = opened(tmp_path / "model")
    response = served.explain(TEXT, "\ufffd odd", 3)
    assert response.label == "\ufffd odd" and json_bytes(response).decode()
    assert json_bytes(served.relations(RelationsQuery("\ufffd odd"))).decode()


def test_labels_have_uris_and_broader_concepts_where_there_is_a_vocabulary(world, tmp_path):
    names = world.label_names.tolist()
    concepts = [Concept(f"http://example.org/{name}", {"en": name.upper()}) for name in names]
    concepts[1] = replace(concepts[1], broader=[concepts[0].identifier, "http://example.org/unused"])
    concepts.append(Concept("http://example.org/unused", {"en": "Unused"}))
    vocabulary = Vocabulary.from_concepts(concepts)
    rows = [[f"http://example.org/{names[column]}" for column in world.Y[[row]].indices] for row in range(200)]
    model = make_sldl("fast").fit(world.X[:200], rows, feature_names=world.feature_names, vocabulary=vocabulary)
    save_model(model, tmp_path / "model")
    served = opened(tmp_path / "model")
    (found,) = served.predict([TEXT], 3).predictions
    assert all(label.uri == f"http://example.org/{label.label.lower()}" for label in found.labels)
    assert served.relations(RelationsQuery(concepts[1].identifier)).label == names[1].upper()
    about = served.relations(RelationsQuery(names[1].upper()))
    assert [(c.label, c.known) for c in about.broader] == [(names[0].upper(), True), ("Unused", False)]
    drawn = served.map()
    assert [(drawn.labels[low], drawn.labels[high]) for low, high in drawn.narrower] == [
        (names[1].upper(), names[0].upper())
    ]
    (first, *_) = served.suggest(SuggestForm(TEXT, 3)).results
    assert (first.uri, first.label) == (found.labels[0].uri, found.labels[0].label) and 0 < first.score <= 1
    assert served.find_labels(LabelsQuery(names[1][:4])).labels[0].uri.startswith("http://example.org/")


def test_stop_words_alone_choose_no_label(world, tmp_path):
    texts = [" ".join(world.feature_names[world.X[[row]].indices]) + " the of and" for row in range(200)]
    labels = [world.label_names[world.Y[[row]].indices].tolist() for row in range(200)]
    save_model(make_sldl("fast", random_state=0).fit(texts, labels), tmp_path / "model")
    served = opened(tmp_path / "model")
    nothing, something = served.predict(["The of and", "the old sky"], 5).predictions
    assert nothing.features == 3 and nothing.informative == 0 and something.informative >= 1
    assert not any(label.chosen for label in nothing.labels)
    assert served.predict(["the of and"], 5, "learned").predictions[0].labels == []
    assert served.suggest(SuggestForm("the of and")).results == []


def test_similar_names_among_very_many_are_found_in_no_time(monkeypatch):
    names = [f"label {number:05d} of {'abcdefgh'[number % 8]}" for number in range(40_000)] + ["ornithology"]
    served = ServedModel("m", None, SimpleNamespace(label_names_=names, label_ids_=None))
    started = time.process_time()
    with pytest.raises(ServiceError, match="did you mean 'ornithology'"):
        served.column("ornitology")
    assert time.process_time() - started < 1
