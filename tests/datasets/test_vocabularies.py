"""Vocabularies from files, in every syntax, with clear errors."""

import gzip
import json
import sys

import pytest

from pysldl.datasets import read_vocabulary
from pysldl.exceptions import DataError, MissingDependencyError

TURTLE = """
@prefix skos: <http://www.w3.org/2004/02/skos/core#> .
@prefix owl: <http://www.w3.org/2002/07/owl#> .
@prefix dct: <http://purl.org/dc/terms/> .
@prefix ex: <http://example.org/> .
ex:scheme a skos:ConceptScheme ; skos:prefLabel "Animals"@en .
ex:animal a skos:Concept ; skos:prefLabel "animals"@en, "eläimet"@fi ; skos:notation "1" ; skos:narrower ex:cat .
ex:cat a skos:Concept ; skos:prefLabel "cats"@en, "kissat"@fi ; skos:altLabel "felines"@en ; skos:related ex:dog .
ex:dog a skos:Concept ; skos:prefLabel "dogs"@en, "koirat"@fi ; skos:broader ex:animal .
ex:hound a skos:Concept ; skos:prefLabel "hounds"@en ; owl:deprecated true ; dct:isReplacedBy ex:dog .
"""
EX = "http://example.org/"


def check(vocabulary):
    assert list(vocabulary) == [EX + name for name in ("animal", "cat", "dog", "hound")]
    cat = vocabulary[EX + "cat"]
    assert cat.names == {"en": "cats", "fi": "kissat"}
    assert cat.other_names == {"en": ("felines",)}
    assert cat.broader == (EX + "animal",)
    assert cat.related == (EX + "dog",)
    assert vocabulary[EX + "animal"].narrower == (EX + "cat", EX + "dog")
    assert vocabulary[EX + "animal"].notation == "1"
    assert vocabulary.current(EX + "hound") == EX + "dog"


@pytest.mark.parametrize(
    ("suffix", "syntax"), [(".ttl", "turtle"), (".rdf", "xml"), (".jsonld", "json-ld"), (".nt", "nt")]
)
def test_every_syntax_of_skos_says_the_same(tmp_path, suffix, syntax):
    rdflib = pytest.importorskip("rdflib")
    path = tmp_path / f"animals{suffix}"
    rdflib.Graph().parse(data=TURTLE, format="turtle").serialize(path, format=syntax, encoding="utf-8")
    check(read_vocabulary(path))
    packed = tmp_path / f"packed{suffix}.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    check(read_vocabulary(packed))
    assert read_vocabulary(path, language="fi").display_name(EX + "cat") == "kissat"


def test_csv_holds_all_that_skos_does(tmp_path):
    path = tmp_path / "animals.csv"
    path.write_text(
        "uri,notation,label_en,label_fi,alt_en,broader,related,deprecated,replaced_by\n"
        f"<{EX}animal>,1,animals,eläimet,,,,,\n"
        f"{EX}cat,,cats,kissat,felines,{EX}animal,{EX}dog,,\n"
        f"{EX}dog,,dogs,koirat,,{EX}animal,,,\n"
        f"{EX}hound,,hounds,,,,,true,{EX}dog\n",
        encoding="utf-8",
    )
    check(read_vocabulary(path))


def test_tsv_as_annif_has_it(tmp_path):
    path = tmp_path / "animals.tsv"
    path.write_text(f"<{EX}cat>\tcats\t59\n<{EX}dodo>\n\n<{EX}dog>\tdogs\n", encoding="utf-8-sig")
    vocabulary = read_vocabulary(path, language="en")
    assert [vocabulary.find(text) for text in ("cats", "59", f"<{EX}dog>")] == [EX + "cat", EX + "cat", EX + "dog"]
    assert vocabulary.current(EX + "dodo") is None, "a concept without a name is deprecated"
    assert read_vocabulary(path).name(EX + "cat") == "cats"


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.ttl", "ex:cat a skos:Concept .", "is not turtle that can be read"),
        ("a.rdf", "<rdf:RDF>", "is not xml that can be read"),
        ("a.jsonld", "{", "is not JSON"),
        ("a.jsonld", '{"@context": "http://example.org/context", "@id": "x"}', "is not fetched"),
        ("a.jsonld", '[{"@context": [{"@import": "http://example.org/c"}]}]', "is not fetched"),
        ("a.nt", f"<{EX}a> <{EX}b> <{EX}c> .", "holds no skos:Concept"),
        ("a.tsv", "a\tb\tc\td\n", "line 1: expected identifier, name and notation"),
        ("a.tsv", f"{EX}a\tone\n{EX}a\ttwo\n", "occurs more than once"),
        ("a.csv", "name,label\ncat,cats\n", "line 1: a vocabulary has the columns 'uri'"),
        ("a.csv", "uri,label_en\na,b,c\n", "line 2: expected 2 columns"),
        ("a.csv", 'uri,label_en\na,"b\n', "is not CSV"),
        ("a.pdf", "x", "a vocabulary ends in .tsv, .csv"),
    ],
)
def test_what_cannot_be_read_is_said(tmp_path, name, content, message):
    if name.endswith((".ttl", ".rdf", ".jsonld", ".nt")):
        pytest.importorskip("rdflib")
    path = tmp_path / name
    path.write_text(content)
    with pytest.raises(DataError, match=message) as refused:
        read_vocabulary(path)
    assert str(path) in str(refused.value)


def test_without_rdflib_the_extra_is_named(tmp_path, monkeypatch):
    path = tmp_path / "a.ttl"
    path.write_text(TURTLE)
    monkeypatch.setitem(sys.modules, "rdflib", None)
    with pytest.raises(MissingDependencyError, match=r"pip install 'pysldl\[skos\]'"):
        read_vocabulary(path)


def test_json_ld_with_its_own_context_is_read(tmp_path):
    pytest.importorskip("rdflib")
    path = tmp_path / "a.json"
    skos = "http://www.w3.org/2004/02/skos/core#"
    context = {"skos": skos, "name": {"@id": "skos:prefLabel", "@language": "en"}}
    path.write_text(json.dumps({"@context": context, "@id": EX + "cat", "@type": "skos:Concept", "name": "cats"}))
    assert read_vocabulary(path).find("cats") == EX + "cat"
