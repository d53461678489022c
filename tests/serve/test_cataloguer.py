"""The path of a cataloguer, as docs/cataloguer.md has it: a thesaurus and a folder of records, a served model with
suggestions by URI, a new version of the thesaurus, and an update for a new concept."""

import json
import shutil
import time
import urllib.parse

import pytest
from service_process import Service

from pysldl.cli import run

pytest.importorskip("rdflib")

EX = "http://example.org/"
THESAURUS = """
@prefix skos: <http://www.w3.org/2004/02/skos/core#> .
@prefix ex: <http://example.org/> .
ex:animal a skos:Concept ; skos:prefLabel "animals"@en, "eläimet"@fi .
ex:cat a skos:Concept ; skos:prefLabel "cats"@en, "kissat"@fi ; skos:altLabel "felines"@en ; skos:broader ex:animal .
ex:dog a skos:Concept ; skos:prefLabel "dogs"@en, "koirat"@fi ; skos:broader ex:animal .
ex:hound a skos:Concept ; skos:prefLabel "hounds"@en ; skos:broader ex:dog .
"""
NEXT_VERSION = THESAURUS.replace('"cats"@en', '"domestic cats"@en').replace(
    "ex:hound a skos:Concept ;",
    'ex:owl a skos:Concept ; skos:prefLabel "owls"@en ; skos:broader ex:animal .\n'
    "ex:hound a skos:Concept ; <http://purl.org/dc/terms/isReplacedBy> ex:dog ;",
)
RECORDS = {"cat": "whiskers purr on a mat", "dog": "a leash and a bark", "hound": "the hunt and its howl"}


def write_records(folder, kinds, n=8):
    folder.mkdir()
    for kind, text in kinds.items():
        for number in range(n):
            (folder / f"{kind}{number}.txt").write_text(f"{text}, record {number}")
            (folder / f"{kind}{number}.tsv").write_text(f"<{EX}{kind}>\t{kind}s\n")


def sldl(capsys, *words):
    capsys.readouterr()
    code = run([str(word) for word in (*words, "--json")])
    said = capsys.readouterr()
    assert code == 0, said.err
    return json.loads(said.out)


@pytest.fixture
def model(tmp_path, capsys):
    (tmp_path / "thesaurus.ttl").write_text(THESAURUS, encoding="utf-8")
    write_records(tmp_path / "records", RECORDS)
    fitted = sldl(
        *(capsys, "fit", tmp_path / "records", "--vocabulary", tmp_path / "thesaurus.ttl"),
        *("--model", tmp_path / "subjects", "--set", "online=true", "--preset", "fast", "--match-names"),
    )
    assert fitted["n_labels"] == 3
    return tmp_path / "subjects"


def suggested(service, text):
    labels = service.post("/v1/predict", {"input": text, "k": 3}).document["predictions"][0]["labels"]
    return [label["label"] for label in labels]


def wait_until(ready, seconds=120):
    deadline = time.monotonic() + seconds
    while not ready():
        assert time.monotonic() < deadline, "the service did not take the new version"
        time.sleep(0.2)


def test_from_a_thesaurus_and_records_to_a_served_model_and_a_new_concept(model, tmp_path, capsys):
    (tmp_path / "new.txt").write_text("whiskers and a purr\nsome hunt with a howl\n")
    predicted = sldl(capsys, "predict", model, tmp_path / "new.txt", "--k", 1)["predictions"]
    assert [row["labels"] + row["uris"] for row in predicted] == [["cats", EX + "cat"], ["hounds", EX + "hound"]]
    brought = sldl(capsys, "predict", model, tmp_path / "new.txt", "--k", 2, "--hierarchy", "broader")["predictions"]
    assert brought[1]["labels"] == ["dogs", "hounds"]
    assert (
        sldl(capsys, "predict", model, tmp_path / "new.txt", "--match-names")["predictions"][0]["labels"][0] == "cats"
    )
    service = Service(model)
    try:
        assert suggested(service, "whiskers and a purr")[0] == "cats"
        first = service.post("/v1/predict", {"input": "whiskers and a purr", "k": 1}).document["predictions"][0]
        assert first["labels"][0]["uri"] == EX + "cat"
        form = urllib.parse.urlencode({"text": "whiskers and a purr", "limit": 1}).encode()
        as_form = {"Content-Type": "application/x-www-form-urlencoded"}
        answer = service.send("POST", "/v1/projects/subjects/suggest", form, as_form).document["results"]
        assert [(one["uri"], one["label"]) for one in answer] == [(EX + "cat", "cats")]

        (tmp_path / "next.ttl").write_text(NEXT_VERSION, encoding="utf-8")
        change = sldl(capsys, "vocabulary", model, "--set", tmp_path / "next.ttl")
        assert change["renamed"] == {"cats": "domestic cats"}
        assert change["merged"] == {"hounds": "dogs"}
        wait_until(lambda: suggested(service, "whiskers and a purr")[0] == "domestic cats")
        assert suggested(service, "some hunt with a howl")[0] == "dogs"

        write_records(tmp_path / "more", {"owl": "whiskers on a leash, hunt and purr"}, n=4)
        updated = sldl(capsys, "update", model, tmp_path / "more")
        assert updated["new_labels"] == ["owls"]
        wait_until(lambda: suggested(service, "whiskers on a leash, hunt and purr")[0] == "owls")
    finally:
        service.stop()
    about = sldl(capsys, "vocabulary", model, "--label", EX + "owl")
    assert about["label"] == "owls"
    assert about["broader"] == ["animals"]
    assert about["training_rows"] == 4


def test_predictions_in_every_format_have_uris(model, tmp_path, capsys):
    write_records(tmp_path / "unseen", {"cat": "whiskers purr"}, n=1)
    for path in (tmp_path / "unseen").glob("*.tsv"):
        path.unlink()
    out = tmp_path / "labels.csv"
    sldl(capsys, "predict", model, tmp_path / "unseen", "--k", 1, "--out", out)
    assert out.read_text().splitlines()[0] == "row,id,rank,uri,label,score"
    assert out.read_text().splitlines()[1].startswith(f"0,cat0,1,{EX}cat,cats,")


def test_evaluate_finds_labels_however_they_are_written(model, tmp_path, capsys):
    lines = [{"text": "whiskers purr", "labels": ["felines"]}, {"text": "leash bark", "labels": [EX + "dog", "koirat"]}]
    (tmp_path / "test.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    found = sldl(capsys, "evaluate", model, tmp_path / "test.jsonl", "--ks", "1")
    assert found["metrics"]["P@1"] in (1.0, 100.0)


def test_a_model_gets_its_first_vocabulary_by_name(tmp_path, capsys):
    lines = [{"text": f"{text} {n}", "labels": [f"{kind}s"]} for kind, text in RECORDS.items() for n in range(6)]
    (tmp_path / "records.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (tmp_path / "vocabulary.tsv").write_text(f"<{EX}cat>\tcats\n<{EX}dog>\tdogs\n")
    sldl(capsys, "fit", tmp_path / "records.jsonl", "--model", tmp_path / "model", "--preset", "fast")
    assert run(["vocabulary", str(tmp_path / "model")]) == 2
    assert "has no vocabulary" in capsys.readouterr().err
    change = sldl(capsys, "vocabulary", tmp_path / "model", "--set", tmp_path / "vocabulary.tsv")
    assert change["unknown"] == ["hounds"]
    about = sldl(capsys, "vocabulary", tmp_path / "model")
    assert (about["concepts"], about["labels"], about["labels_in_vocabulary"]) == (2, 3, 2)


CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
CHROMEDRIVER = shutil.which("chromedriver")


@pytest.mark.skipif(CHROMIUM is None or CHROMEDRIVER is None, reason="no Chromium with chromedriver on this machine")
def test_the_page_shows_names_of_the_thesaurus(model):
    from webdriver import ENTER, Browser

    service = Service(model)
    try:
        with Browser(CHROMIUM, CHROMEDRIVER) as browser:
            browser.open(f"{service.address}/")
            browser.wait_for("document.title.startsWith('subjects')")
            browser.press("#text", "whiskers and a purr")
            browser.click("#tag-button")
            browser.wait_for("document.querySelectorAll('.label').length > 0")
            first = browser.run("return document.querySelector('.label').dataset.label")
            browser.press(f'.label[data-label="{first}"]', ENTER)
            browser.wait_for("document.querySelector('a.uri') !== null")
            link = browser.run("return document.querySelector('a.uri').href")
    finally:
        service.stop()
    assert first == "cats"
    assert link == EX + "cat"
