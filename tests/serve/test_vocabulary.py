"""From texts to term counts: plain words, phrases, stems."""

from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.feature_extraction.text import TfidfVectorizer

from pysldl.datasets import Dataset, load_dataset
from pysldl.serve.vocabulary import TermVocabulary, VectorizerFeatures, is_vocabulary, stem, text_features


def counted(words: TermVocabulary, terms: list[str], text: str) -> dict[str, float]:
    X = words.transform([text])
    return {terms[column]: float(value) for column, value in zip(X.indices, X.data, strict=True)}


def test_words_and_phrases_are_counted_as_they_are_in_the_vocabulary():
    terms = ["sky", "old sky", "cloud", "Rain", "unmet"]
    found = counted(TermVocabulary(terms), terms, "Old SKY, cloud. Cloud... sky; raining rain")
    assert found == {"sky": 2, "old sky": 1, "cloud": 2, "Rain": 1}


def test_weights_are_those_of_the_data_sets():
    terms, idf = ["sky", "cloud", "rain"], np.array([1.0, 2.0, 3.0], np.float32)
    counts = np.array([[3.0, 1.0, 0.0]])
    data = Dataset("small", counts, np.array([[1]]), ["x"], feature_names=terms, idf=idf)
    text = "sky sky cloud sky"
    assert np.allclose(TermVocabulary(terms, idf).transform([text]).toarray(), data.tfidf().X.toarray(), atol=1e-6)


def test_stems_meet_stems():
    terms = ["analysi", "advantag", "endgam", "couldnt", "contextfre", "function."]
    words = TermVocabulary([*terms, "activ", "achiev", "engin", "oppon", "differ", "rook", "play"])
    assert words.are_stems
    text = "Analysis of endgames: advantages, which couldn't be context-free. Functions!"
    assert counted(words, terms, text) == dict.fromkeys(terms, 1.0)
    assert words.words_by_term("Analysis ANALYSIS endgame") == {
        "analysi": ["ANALYSIS", "Analysis"],
        "endgam": ["endgame"],
    }
    assert not TermVocabulary(["running", "advantages", "analyses", "skies"]).are_stems


@pytest.mark.parametrize(
    ("word", "stemmed"),
    [
        # Examples of the published description of the algorithm.
        ("consignment", "consign"),
        ("consolatory", "consolatori"),
        ("consistency", "consist"),
        ("conspiracies", "conspiraci"),
        ("knackeries", "knackeri"),
        ("knavish", "knavish"),
        ("kneeling", "kneel"),
        ("knightly", "knight"),
        ("generally", "general"),
        ("communism", "communism"),
        ("happy", "happi"),
        ("cry", "cri"),
        ("by", "by"),
        ("say", "say"),
        ("hopped", "hop"),
        ("hoping", "hope"),
        ("falling", "fall"),
        ("agreed", "agre"),
        ("relational", "relat"),
        ("adoption", "adopt"),
        ("controlling", "control"),
        ("succeeding", "succeed"),
        ("dying", "die"),
        ("news", "news"),
    ],
)
def test_stemming(word, stemmed):
    assert stem(word) == stemmed


def test_only_words_make_a_vocabulary():
    assert is_vocabulary(["sky", "old sky", "it's", "function."])
    assert not is_vocabulary(["Cluster1", "Cluster2"])
    assert not is_vocabulary(["0", "1", "2"])


@pytest.mark.data
@pytest.mark.parametrize(("name", "stems"), [("stackex-chess", True), ("stackex-cs", True), ("delicious", False)])
def test_real_vocabularies(data_dir, name, stems):
    terms = load_dataset(name, data_dir).feature_names.tolist()
    assert is_vocabulary(terms) and TermVocabulary(terms).are_stems is stems


@pytest.mark.data
def test_image_features_are_no_words(data_dir):
    assert not is_vocabulary(load_dataset("corel16k-s1", data_dir).feature_names.tolist())


def test_a_vectorizer_says_which_words_are_behind_its_terms():
    words = VectorizerFeatures(TfidfVectorizer().fit(["the old sky", "a cloud"]))
    assert words.transform(["Old sky", "rain"]).shape == (2, 4)
    assert words.words_by_term("Old OLD sky!") == {"old": ["OLD", "Old"], "sky": ["sky"]}
    characters = VectorizerFeatures(TfidfVectorizer(analyzer="char", ngram_range=(2, 3)).fit(["sky"]))
    assert characters.words_by_term("Sky!") == {"sk": ["Sky"], "ky": ["Sky"], "sky": ["Sky"]}
    X = characters.transform(["sky", "the", "the sky"])
    assert characters.informative(["sky", "the", "the sky"], X).tolist() == [3, 0, 3]


def test_stop_words_are_not_informative():
    words = VectorizerFeatures(TfidfVectorizer(ngram_range=(1, 2)).fit(["the old sky of and in"]))
    texts = ["the of and", "of and the sky", "in the"]
    assert words.informative(texts, words.transform(texts)).tolist() == [0, 1, 0]
    terms = TermVocabulary(["this", "have", "sky", "of the"])
    assert terms.informative([""], terms.transform(["this have of the sky"])).tolist() == [1]


def test_pairs_of_words_and_groups_of_characters_are_behind_words_of_the_text():
    pairs = VectorizerFeatures(TfidfVectorizer(ngram_range=(1, 2)).fit(["the old sky"]))
    assert pairs.words_by_term("Old sky")["old sky"] == ["Old", "sky"] and pairs.words_by_term("Old")["old"] == ["Old"]
    groups = VectorizerFeatures(TfidfVectorizer(analyzer="char_wb", ngram_range=(3, 3)).fit(["skies"]))
    assert groups.words_by_term("Skies, skin!") == {
        " sk": ["Skies", "skin"],
        "ski": ["Skies", "skin"],
        "kie": ["Skies"],
        "ies": ["Skies"],
        "es ": ["Skies"],
        "kin": ["skin"],
        "in ": ["skin"],
    }


@pytest.mark.parametrize(
    ("names", "idf", "weighted", "taken"),
    [
        (["sky", "old sky"], None, False, True),
        (["sky", "old sky"], None, True, False),
        (["sky", "old sky"], np.ones(2), True, True),
        (["Cluster1", "Cluster2"], None, False, False),
        (None, None, False, False),
    ],
)
def test_which_models_take_texts(names, idf, weighted, taken):
    names = None if names is None else np.array(names)
    model = SimpleNamespace(vectorizer_=None, feature_names_=names, feature_idf_=idf)
    assert (text_features(model, weighted=weighted) is not None) is taken
    assert isinstance(text_features(SimpleNamespace(vectorizer_=object()), weighted=False), VectorizerFeatures)
