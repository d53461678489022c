"""Ways through the estimator that other suites reach only by commands, clusters or notebooks."""

import numpy as np
import pytest
from sklearn.frozen import FrozenEstimator

from pysldl import SLDLClassifier, make_sldl
from pysldl.backend.workspace import Workspace
from pysldl.datasets import Concept, Vocabulary, make_asymmetric_multilabel
from pysldl.decoding import JointNeighborDecoder, NeighborDecoder
from pysldl.embedding import GaussianLabelEmbedding, RandomLabelEmbedding
from pysldl.estimator.base import TrainingRows
from pysldl.exceptions import DataError
from pysldl.preprocessing.labels import encode_labels

pd = pytest.importorskip("pandas", reason="pandas is not installed (it is part of the extra dev)")

TEXTS = ["dark clouds", "a blue sky", "clouds in the sky", "a cat", "cats and dogs", "a dog"] * 5
LABELS = [["cloud"], ["sky"], ["cloud", "sky"], ["cat"], ["cat", "dog"], ["dog"]] * 5


@pytest.fixture(scope="module")
def data():
    return make_asymmetric_multilabel(120, 60, 20, random_state=0)


def small(**changed):
    return SLDLClassifier(
        GaussianLabelEmbedding(4, n_steps=20),
        decoder=NeighborDecoder(10),
        random_state=0,
        **{"calibrate": False} | changed,
    )


# Several configurations of the same rows


def test_default_stages_can_be_set_and_the_original_stays(data):
    plain = SLDLClassifier(random_state=0)
    given = plain.with_default_stages()
    assert plain.decoder is None and given.set_params(decoder__n_neighbors=3).decoder.n_neighbors == 3
    assert given.set_params(embedding__n_components=4).fit(data.X, data.Y).embedding_.components_.shape[1] == 4


def test_a_path_of_embeddings_has_those_of_single_fits(data):
    path = small().embedding_path(data.Y, n_steps=(5, 20))
    (whole,) = small().embedding_path(data.Y)
    assert (path[1].components_ == whole.components_).all()
    frozen = small().set_params(embedding=FrozenEstimator(path[0])).fit(data.X, data.Y)
    alone = small().set_params(embedding__n_steps=5).fit(data.X, data.Y)
    assert (frozen.predict_topk(data.X)[0] == alone.predict_topk(data.X)[0]).all()


def test_a_path_of_neighbors_has_the_labels_of_single_fits(data):
    path = small().fit(data.X, data.Y).predict_topk_path(data.X[:9], 3, n_neighbors=(2, 10))
    for k, (labels, scores) in zip((2, 10), path, strict=True):
        alone = small().set_params(decoder__n_neighbors=k).fit(data.X, data.Y).predict_topk(data.X[:9], 3)
        assert (labels == alone[0]).all() and np.allclose(scores, alone[1])


def test_a_ranker_has_no_path_of_neighbors(data):
    model = make_sldl("fast", random_state=0).fit(data.X, data.Y)
    with pytest.raises(DataError, match="fitted for one number of neighbors"):
        next(model.predict_topk_path(data.X[:2], n_neighbors=(2,)))


def test_rows_that_were_prepared_elsewhere_give_the_same_model(data):
    rows = TrainingRows(data.X.astype(np.float64), encode_labels(data.Y))
    prepared = small().fit_prepared(rows, Workspace())
    assert (prepared.mapping_.coef_ == small().fit(data.X.astype(np.float64), data.Y).mapping_.coef_).all()


def test_standardized_features_do_not_depend_on_their_scale(data):
    X = data.X.toarray()
    first, second = (small(standardize=True).fit(X * scale, data.Y).predict_topk(X * scale)[0] for scale in (1, 1000))
    assert (first == second).mean() > 0.99
    assert small(standardize=True).fit(X, data.Y).feature_scales_.shape == (60,)


def test_relations_come_from_the_same_engine(data):
    model = small().fit(data.X, data.Y)
    strongest = model.relation_finder().strongest(1)
    assert {relation.source for relation in model.label_relations(None, per_label=1)} == {
        str(model.label_names_[column]) for column in strongest.source
    }


# What a fit tells


def test_a_verbose_fit_tells_its_stages_and_a_notebook_shows_them(data, capsys):
    model = small(verbose=True).fit(data.X, data.Y)
    told = capsys.readouterr().err
    assert "[pysldl] embedding:" in told and "[pysldl] labels: 20" in told
    assert "NeighborDecoder" in model._repr_mimebundle_()["text/html"]


# One class per row


@pytest.fixture(scope="module")
def classes():
    X = np.array([[0.0, 1.0], [0.1, 1.0], [1.0, 0.0], [1.0, 0.1]] * 5)
    return make_sldl("fast", random_state=0).fit(X, ["sea", "sea", "sky", "sky"] * 5), X


def test_two_classes_have_one_decision_and_probabilities_that_sum_to_one(classes):
    model, X = classes
    assert (model.predict(X) == np.array(["sea", "sea", "sky", "sky"] * 5)).all() and model.score(
        X, model.predict(X)
    ) == 1
    assert model.decision_function(X).shape == (20,) and (model.decision_function(X[:1]) < 0).all()
    assert np.allclose(model.predict_proba(X).sum(axis=1), 1) and model.classes_.tolist() == ["sea", "sky"]


def test_classes_have_neither_names_nor_concepts(classes):
    model, X = classes
    with pytest.raises(DataError, match="names=True needs labels with names"):
        model.predict_topk(X, 1, names=True)
    with pytest.raises(DataError, match="A vocabulary needs labels with names"):
        model.set_vocabulary(Vocabulary.from_concepts([Concept("ex:1", {"en": "sea"})]))


# Labels in other forms


def test_probabilities_of_the_best_labels_are_those_of_all():
    model = make_sldl("fast", random_state=0).fit(TEXTS, LABELS)
    best, all_of_them = model.predict_proba(TEXTS[:3], top=2), model.predict_proba(TEXTS[:3])
    rows, columns = best.nonzero()
    assert best.nnz <= 6 and np.allclose(best[rows, columns], all_of_them[rows, columns])


def test_lists_of_labels_are_one_object_per_row_for_numpy():
    predicted = make_sldl("fast", random_state=0).fit(TEXTS, LABELS).predict(TEXTS[:4])
    assert np.asarray(predicted).shape == (4,) and isinstance(np.asarray(predicted)[0], list)


def test_frames_are_encoded_by_position_if_their_columns_are_numbers(data):
    model = small().fit(data.X, data.Y)
    frame = pd.DataFrame(data.Y.toarray().astype(int))
    assert (model.encode(frame) != data.Y).nnz == 0
    with pytest.raises(DataError, match="Y has 3 labels, but the model knows 20"):
        model.encode(data.Y[:, :3])


def test_vectorizers_are_chosen_on_training_texts():
    model = make_sldl("fast", vectorizer="auto", random_state=0).fit(TEXTS, LABELS)
    assert model.vectorizer_.vocabulary_
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        make_sldl("fast", vectorizer="auto").fit(TEXTS, LABELS[:-1])


# Rows that come and go


def test_excerpts_follow_the_rows_of_an_online_model():
    model = make_sldl("fast", online=True, random_state=0).fit(TEXTS, LABELS)
    model.training_excerpts_ = np.array(TEXTS, dtype=object)
    model.partial_fit(["one more cat"], [["cat"]])
    assert model.training_excerpts_.tolist() == [*TEXTS, "one more cat"]
    assert model.remove_rows([0, 30]).training_excerpts_.tolist() == TEXTS[1:]


def test_columns_of_a_frame_name_the_labels_of_further_rows():
    model = make_sldl("fast", online=True, random_state=0).fit(TEXTS, LABELS)
    model.partial_fit(["a bird", "birds in the sky"], pd.DataFrame({"bird": [1, 1], "sky": [0, 1]}))
    assert model.label_names_.tolist()[-1] == "bird"
    assert model.label_counts_[model.label_column("sky")] == 11


def test_codes_and_features_together_take_further_rows(data):
    joint = SLDLClassifier(RandomLabelEmbedding(8), decoder=JointNeighborDecoder(), online=True, random_state=0)
    model = joint.fit(data.X[:100], data.Y[:100]).partial_fit(data.X[100:], data.Y[100:])
    assert model.n_samples_ == 120 and model.decoder_.Y_.shape[0] == 120
    assert model.predict_topk(data.X[100:], 1)[1].min() > 0
