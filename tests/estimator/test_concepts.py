"""Labels of a model as concepts of a vocabulary, and vocabularies that change after the fit."""

import warnings

import numpy as np
import pytest
from scipy import sparse

from pysldl import SLDLClassifier, load_model
from pysldl.datasets import Concept, Vocabulary
from pysldl.decoding import FeatureNeighborDecoder
from pysldl.estimator.concepts import BroaderLabels, in_hierarchy, merge_scores
from pysldl.exceptions import DataError, SLDLWarning
from pysldl.persistence import load_predictor

TEXTS = ["cat purrs", "cat meows", "dog barks", "dog howls", "fish swims", "fish dives", "cat dog fight", "hound barks"]
LABELS = [["ex:cat"], ["cats"], ["<ex:dog>"], ["dogs"], ["ex:fish"], ["fish"], ["felines", "ex:dog"], ["ex:hound"]]
CONCEPTS = {
    "ex:animal": Concept("ex:animal", {"en": "animals"}),
    "ex:cat": Concept("ex:cat", {"en": "cats", "fi": "kissat"}, {"en": ("felines",)}, broader=["ex:animal"]),
    "ex:dog": Concept("ex:dog", {"en": "dogs"}, broader=["ex:animal"]),
    "ex:hound": Concept("ex:hound", {"en": "hounds"}, broader=["ex:dog"]),
    "ex:fish": Concept("ex:fish", {"en": "fish"}, broader=["ex:animal"]),
}


def vocabulary(**changes):
    concepts = CONCEPTS | {f"ex:{key}": value for key, value in changes.items()}
    return Vocabulary.from_concepts(concept for concept in concepts.values() if concept is not None)


@pytest.fixture
def model():
    decoder = FeatureNeighborDecoder(n_neighbors=4)
    return SLDLClassifier(decoder=decoder, online=True, random_state=0).fit(TEXTS, LABELS, vocabulary=vocabulary())


def best(model, text, names=True):
    return model.predict_topk([text], 1, names=names)[0][0, 0]


def test_labels_are_identified_however_they_are_written(model):
    assert model.label_ids_.tolist() == ["ex:dog", "ex:cat", "ex:fish", "ex:hound"]
    assert model.label_names_.tolist() == ["dogs", "cats", "fish", "hounds"]
    assert model.label_counts_.tolist() == [3, 3, 2, 1]
    assert best(model, "cat purrs") == "cats"
    assert best(model, "cat purrs", "id") == "ex:cat"
    assert model.predict(["fish swims"]) == [["fish"]]


def test_a_label_tells_what_it_is(model):
    info = model.label_info("ex:cat")
    assert info == model.label_info("kissat") == model.label_info("cats") == model.label_info(1)
    assert info.identifier == "ex:cat"
    assert info.broader == ("ex:animal",)
    assert model.label_info("dogs").narrower == ("ex:hound",)
    assert model.explain("cat purrs", "ex:cat").label == "cats"


def test_an_indicator_is_identified_by_the_names_of_its_columns():
    Y = sparse.csr_array(np.eye(4, dtype=np.float32)[[0, 1, 2, 3, 0, 1]])
    names = ["ex:cat", "felines", "dogs", "strange"]
    X = np.eye(6, dtype=np.float32)
    with pytest.warns(SLDLWarning, match="1 of 3 labels are not in the vocabulary, such as 'strange'"):
        model = SLDLClassifier(decoder=FeatureNeighborDecoder(n_neighbors=2), calibrate=False).fit(
            X, Y, label_names=names, vocabulary=vocabulary()
        )
    assert model.label_ids_.tolist() == ["ex:cat", "ex:dog", "strange"]
    assert model.label_counts_.tolist() == [4, 1, 1]
    assert (Y.data == 1).all()
    assert Y.nnz == 6
    assert model.encode([["kissat"], ["dogs", "strange"]]).toarray().tolist() == [[1, 0, 0], [0, 1, 1]]


def test_a_new_concept_comes_by_update(model):
    changed = vocabulary(bird=Concept("ex:bird", {"en": "birds"}, broader=["ex:animal"]))
    change = model.set_vocabulary(changed)
    assert change.new == ("ex:animal", "ex:bird")
    model.partial_fit(["dog and fish dives", "fish barks"], [["ex:bird"], ["birds", "kissat"]])
    assert model.label_names_.tolist()[-1] == "birds"
    assert model.label_ids_.tolist()[-1] == "ex:bird"
    assert model.label_counts_.tolist()[1] == 4
    assert best(model, "fish barks dives dog", "id") in ("ex:bird", "ex:fish", "ex:dog")
    assert len(model.label_targets_) == len(model.label_names_)


def test_a_renamed_concept_keeps_its_rows(model):
    change = model.set_vocabulary(vocabulary(cat=Concept("ex:cat", {"en": "house cats"})))
    assert change.renamed == {"cats": "house cats"}
    assert best(model, "cat purrs") == "house cats"
    assert best(model, "cat purrs", "id") == "ex:cat"


def test_a_merged_concept_counts_for_the_other(model):
    assert best(model, "hound barks") == "hounds"
    before = model.predict_scores(["hound barks"]).toarray()[0]
    change = model.set_vocabulary(vocabulary(hound=Concept("ex:hound", {"en": "hounds"}, replaced_by="ex:dog")))
    assert change.merged == {"hounds": "dogs"}
    assert best(model, "hound barks") == "dogs"
    after = model.predict_scores(["hound barks"]).toarray()[0]
    assert after[0] == max(before[0], before[3])
    assert after[3] == 0
    assert model.predict_proba(["hound barks"])[0, 3] == 0
    assert model.encode([["ex:hound"]]).indices.tolist() == [0], "new rows of it are rows of the other"
    # What was merged stays so, whatever the next version says of the old concept.
    model.set_vocabulary(vocabulary(hound=None))
    assert best(model, "hound barks") == "dogs"


def test_a_concept_replaced_by_one_without_a_label_takes_its_name(model):
    pets = Concept("ex:pet", {"en": "pets"})
    gone = {"cat": Concept("ex:cat", {"en": "cats"}, deprecated=True, replaced_by="ex:pet")}
    gone["dog"] = Concept("ex:dog", {"en": "dogs"}, deprecated=True, replaced_by="ex:pet")
    change = model.set_vocabulary(vocabulary(pet=pets, **gone))
    assert change.renamed == {"dogs": "pets"}
    assert change.merged == {"cats": "pets"}
    assert best(model, "cat purrs", "id") == "ex:pet"


@pytest.mark.parametrize(
    "gone", [None, Concept("ex:fish", {"en": "fish"}, deprecated=True)], ids=["lost", "deprecated"]
)
def test_a_deprecated_concept_is_not_suggested(model, gone):
    change = model.set_vocabulary(vocabulary(fish=gone))
    assert change.deprecated == ("fish",)
    assert best(model, "fish swims") != "fish"
    assert "fish" not in model.predict_topk(["fish swims fish dives"], 4, names=True)[0]
    assert model.predict_proba(["fish swims"])[0, 2] == 0


def test_a_model_without_vocabulary_gets_one_by_name():
    decoder = FeatureNeighborDecoder(n_neighbors=4)
    rows = [["cats"], ["cats"], ["dogs"], ["dogs"], ["fish"], ["fish"], ["cats", "dogs"], ["odd"]]
    model = SLDLClassifier(decoder=decoder, random_state=0).fit(TEXTS, rows)
    assert model.label_info("cats").identifier == "cats"
    assert best(model, "cat purrs", "id") == "cats"
    change = model.set_vocabulary(vocabulary())
    assert change.unknown == ("odd",)
    assert model.label_ids_.tolist() == ["ex:cat", "ex:dog", "ex:fish", "odd"]


def test_the_vocabulary_is_saved_with_the_model(model, tmp_path):
    model.set_vocabulary(vocabulary(hound=Concept("ex:hound", {"en": "hounds"}, replaced_by="ex:dog")))
    model.save(tmp_path / "model")
    for load in (load_model, load_predictor):
        loaded = load(tmp_path / "model")
        X = TEXTS if load is load_model else model.vectorizer_.transform(TEXTS)
        assert loaded.label_info("kissat") == model.label_info("kissat")
        np.testing.assert_array_equal(
            loaded.predict_topk(X, 3, names="id")[0], model.predict_topk(TEXTS, 3, names="id")[0]
        )
    again = load_model(tmp_path / "model").partial_fit(["hound dog"], [["ex:hound"]])
    assert again.label_counts_.tolist() == [4, 3, 2, 1]


def test_a_later_fit_without_vocabulary_forgets_it(model):
    model.fit(TEXTS, [["a"], ["b"]] * 4)
    assert model.vocabulary_ is None
    assert model.label_ids_ is None


def test_classes_take_no_vocabulary():
    with pytest.raises(DataError, match="one class per row"):
        SLDLClassifier(decoder=FeatureNeighborDecoder()).fit(np.eye(4), ["a", "b", "a", "b"], vocabulary=vocabulary())


def test_dense_and_sparse_scores_merge_alike():
    rng = np.random.default_rng(0)
    scores = rng.random((5, 6)).astype(np.float32)
    targets = np.array([0, 0, 2, -1, 2, 5], dtype=np.int32)
    merged = merge_scores(sparse.csr_array(scores), targets)
    dense = merge_scores(scores.copy(), targets)
    np.testing.assert_array_equal(np.where(np.isneginf(dense), 0, dense), merged.toarray())
    np.testing.assert_array_equal(dense[:, 2], np.maximum(scores[:, 2], scores[:, 4]))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        empty = merge_scores(sparse.csr_array((2, 6), dtype=np.float32), targets)
    assert empty.nnz == 0


DEEP = {
    "a": Concept("a", {"en": "things"}),
    "b": Concept("b", {"en": "animals"}, broader=["a"]),
    "c": Concept("c", {"en": "cats"}, {"en": ["house cat"]}, broader=["b"]),
    "d": Concept("d", {"en": "dogs"}, broader=["b"]),
    "e": Concept("e", {"en": "ideas"}),
}


@pytest.fixture
def broader():
    hidden = np.zeros(5, dtype=bool)
    return BroaderLabels(Vocabulary.from_concepts(DEEP.values()), np.array(list("abcde")), hidden)


def ranking(*labels):
    return np.array([labels]), np.linspace(1, 0.1, len(labels), dtype=np.float32)[None]


def test_a_label_brings_its_broader_ones_before_it(broader):
    labels, scores = in_hierarchy(*ranking(2, 4, 1, 3, 0), broader, 4, "broader")
    assert labels.tolist() == [[0, 1, 2, 4]]
    assert scores[0, :3].tolist() == [1, 1, 1]
    for length in range(1, 5):  # every beginning is consistent
        beginning = set(labels[0, :length].tolist())
        assert all(set(broader.of(label)) <= beginning for label in beginning)


def test_a_narrower_label_replaces_its_broader_ones(broader):
    labels, scores = in_hierarchy(*ranking(1, 2, 0, 4, 3), broader, 3, "narrower")
    assert labels.tolist() == [[2, 4, 3]]
    assert (np.diff(scores[0]) < 0).all()
    few, values = in_hierarchy(np.array([[1, 2, -1]]), np.array([[2.0, 1.0, -np.inf]]), broader, 3, "narrower")
    assert few.tolist() == [[2, -1, -1]]
    assert values[0, 0] == 1.0


def test_predictions_follow_the_hierarchy(model):
    names, _ = model.predict_topk(["hound barks"], 2, names=True, hierarchy="broader")
    assert names.tolist() == [["dogs", "hounds"]]
    names, _ = model.predict_topk(["hound barks dog"], 2, names=True, hierarchy="narrower")
    assert "hounds" in names
    assert "dogs" not in names
    with pytest.raises(DataError, match="hierarchy must be 'broader', 'narrower' or None"):
        model.predict_topk(["a"], hierarchy="both")


def test_a_label_that_the_text_names_is_considered(model):
    before = model.predict_topk(["felines and water"], 4, names=True)[0][0].tolist()
    assert before[0] != "cats"
    with pytest.raises(DataError, match="learn_name_rates"):
        model.predict_topk(["felines"], match_names=True)
    texts = ["felines are here", "cats too", "no fish", "fish again", "nothing"] * 4
    model.learn_name_rates(texts, [["cats"], ["ex:cat"], [], [], []] * 4)
    assert model.name_rates_[1] > 0.7 > 0.4 > model.name_rates_[2]
    best, score = model.predict_topk(["felines and water"], 1, names=True, match_names=True, proba=True)
    assert best.tolist() == [["cats"]]
    features = model.vectorizer_.transform(["felines and water"])
    np.testing.assert_array_equal(
        model.predict_topk(features, 1, names=True, match_names=["felines and water"], proba=True)[1], score
    )
    with pytest.raises(DataError, match="X holds features"):
        model.predict_topk(features, 1, match_names=True)


def test_options_of_a_vocabulary_need_one():
    model = SLDLClassifier(decoder=FeatureNeighborDecoder(n_neighbors=2)).fit(TEXTS, [["a"], ["b"]] * 4)
    with pytest.raises(DataError, match="this model has no vocabulary"):
        model.predict_topk(["a"], hierarchy="broader")
    with pytest.raises(DataError, match="this model has no vocabulary"):
        model.learn_name_rates(TEXTS, [["a"], ["b"]] * 4)
