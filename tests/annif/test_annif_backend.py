"""The backend in the installed Annif: train, learn, suggest and eval by its own command.

Annif pins versions of NumPy and others that differ from those of the other tests: ``make test-annif`` makes an
environment of its own for it.
"""

import json
import os
import subprocess
import sys

import pytest

from pysldl import make_sldl

pytest.importorskip("annif.backend", reason="Annif is not installed: make test-annif makes an environment with it")

EX = "http://example.org/"
VOCABULARY = f"<{EX}cat>\tcats\n<{EX}dog>\tdogs\n<{EX}fish>\tfish\n<{EX}bird>\tbirds\n"
WORDS = {"cat": "purring whiskers meow", "dog": "barking leash howl", "fish": "gills swimming water"}
PROJECT = """
[{id}]
name={id}
language=en
backend=pysldl
analyzer=snowball(english)
vocab=animals
limit=10
allow_learn=True
{more}
"""


def documents(kinds, start=0):
    return "".join(
        f"document number {start + i} about the {WORDS[kind]} and other things\t<{EX}{kind}>\n"
        for i, kind in enumerate(kinds)
    )


def punkt_parameters(folder):
    """A sentence tokenizer that has learned nothing, for machines that cannot download NLTK's."""
    home = folder / "nltk" / "tokenizers" / "punkt_tab" / "english"
    home.mkdir(parents=True)
    for name in ("collocations.tab", "sent_starters.txt", "abbrev_types.txt", "ortho_context.tab"):
        (home / name).touch()


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A folder with projects, a vocabulary and a trained project."""
    folder = tmp_path_factory.mktemp("annif")
    punkt_parameters(folder)
    (folder / "projects.cfg").write_text(
        PROJECT.format(id="animals-sldl", more="")
        + PROJECT.format(id="untrained", more="preset=fast")
        + PROJECT.format(id="wrong", more="settings=decoder.n_neihbors=5")
    )
    (folder / "vocabulary.tsv").write_text(VOCABULARY)
    (folder / "train.tsv").write_text(documents(["cat", "dog", "fish"] * 12))
    command(folder, "load-vocab", "animals", "vocabulary.tsv", "--language", "en")
    command(folder, "train", "animals-sldl", "train.tsv")
    return folder


def command(folder, *words, text=None, check=True):
    done = subprocess.run(
        [sys.executable, "-m", "pysldl.annif", *words],
        cwd=folder,
        env=os.environ | {"NLTK_DATA": str(folder / "nltk")},
        input=text,
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    if check:
        assert done.returncode == 0, done.stderr[-3000:]
    return done


def suggested(folder, text):
    lines = command(folder, "suggest", "animals-sldl", text=text).stdout.splitlines()
    return [line.split("\t")[0].strip("<>").removeprefix(EX) for line in lines]


def test_the_table_of_backends_is_where_it_is_expected():
    from annif import backend
    from pysldl.annif import register

    register()
    register()
    assert backend.get_backend("pysldl").name == "pysldl"
    assert backend.get_backend("tfidf").name == "tfidf"


def test_a_trained_project_suggests_by_uri(home):
    assert suggested(home, "a purring animal with whiskers")[0] == "cat"
    assert suggested(home, "it barked on its leash")[0] == "dog", "the analyzer stems"
    assert suggested(home, "zzz qqq") == []


def test_the_model_folder_holds_no_pickle(home):
    folder = home / "data" / "projects" / "animals-sldl" / "pysldl-model"
    suffixes = {path.suffix for path in folder.rglob("*") if path.is_file()}
    assert {".json", ".safetensors"} <= suffixes
    assert not suffixes & {".pkl", ".pickle", ".joblib", ".gz"}


def test_eval_by_annif_itself(home):
    (home / "test.tsv").write_text(documents(["cat", "dog", "fish"] * 3, start=100))
    command(home, "eval", "animals-sldl", "test.tsv", "--metrics-file", "metrics.json")
    metrics = json.loads((home / "metrics.json").read_text())
    assert metrics["NDCG"] > 0.99
    assert metrics["Documents_evaluated"] == 9


def test_a_new_subject_is_learned_online(home):
    (home / "more.tsv").write_text(
        "".join(f"barking number {i} with gills and feathers\t<{EX}bird>\n" for i in range(6))
    )
    command(home, "learn", "animals-sldl", "more.tsv")
    assert suggested(home, "barking with gills")[0] == "bird"
    assert suggested(home, "a purring animal with whiskers")[0] == "cat"


def test_a_subject_that_left_the_vocabulary_is_not_suggested(home):
    changed = home / "changed.tsv"
    changed.write_text(VOCABULARY.replace(f"<{EX}dog>\tdogs\n", ""))
    command(home, "load-vocab", "animals", "changed.tsv", "--language", "en")
    assert "dog" not in suggested(home, "barking on a leash howl")
    command(home, "load-vocab", "animals", "vocabulary.tsv", "--language", "en", "--force")


def test_annif_asks_a_service_of_ours(home):
    """Its backend http, against a real `sldl serve`."""
    texts, labels = zip(
        *(line.split("\t") for line in documents(["cat", "dog", "fish"] * 12).splitlines()), strict=True
    )
    model = make_sldl("fast").fit(list(texts), [[label.strip("<>")] for label in labels])
    model.save(home / "served")
    words = [sys.executable, "-m", "pysldl.cli", "serve", str(home / "served"), "--port", "0", "--json"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as service:
        try:
            told = []
            for line in service.stdout:
                told.append(line)
                if line.startswith("}"):
                    break
            address = json.loads("".join(told))["address"]
            (home / "projects.cfg").write_text(
                (home / "projects.cfg").read_text()
                + f"[remote]\nname=remote\nlanguage=en\nbackend=http\nvocab=animals\nlimit=3\n"
                f"endpoint={address}/v1/projects/served/suggest\n"
            )
            found = command(home, "suggest", "remote", text="barking on a leash").stdout
            shown = command(home, "show-project", "remote").stdout
        finally:
            service.terminate()
    assert found.startswith(f"<{EX}dog>")
    assert "True" in shown, "trained, and since when, comes from the parent address"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("suggest", "untrained"), "not trained"),
        (("train", "untrained", "--cached"), "cached"),
        (("train", "wrong", "train.tsv"), "n_neighbors"),
    ],
)
def test_what_cannot_be_done_is_said(home, words, message):
    done = command(home, *words, text="a text", check=False)
    assert done.returncode != 0
    assert message in done.stderr
    assert "Traceback" not in done.stderr
