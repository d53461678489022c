"""How do subjects that our backend suggests in Annif compare with those of its own backends, by Annif's own ``eval``?

Needs an environment with Annif (``make test-annif`` makes one) and a folder with a corpus as Annif has it:
``train.tsv``, ``test.tsv`` and ``vocabulary.ttl``. Nothing is tuned: every project has the
parameters of its documentation. The online
row trains on the first half of the documents and learns the second half by ``annif learn``.
"""

import argparse
import json
import os
import resource
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from records import ROOT, add_record_option, write_rows

PROJECTS: dict[str, dict[str, Any]] = {
    "pysldl, accurate": {"backend": "pysldl", "preset": "accurate"},
    "pysldl, fast": {"backend": "pysldl", "preset": "fast"},
    "pysldl, accurate, half learned online": {"backend": "pysldl", "preset": "accurate", "allow_learn": "True"},
    "omikuji, Parabel": {"backend": "omikuji"},
    "omikuji, Bonsai": {"backend": "omikuji", "cluster_balanced": "False", "cluster_k": 100, "max_depth": 3},
    "tfidf": {"backend": "tfidf"},
}
ONLINE = "pysldl, accurate, half learned online"
METRICS = ("Precision@1", "Precision@3", "Precision@5", "NDCG@5", "NDCG@10", "F1@5", "Documents_evaluated")
LIBRARIES = ("annif", "omikuji", "numpy", "scipy", "scikit-learn", "numba")
KEY = ("corpus", "method")


def measure(python: Path, corpus: Path, language: str, analyzer: str, methods: list[str]) -> list[dict[str, Any]]:
    """Train and evaluate every project in a folder of its own."""
    rows: list[dict[str, Any]] = []
    versions = _versions(python)
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        _write_punkt(home)
        config = {f"project-{number}": PROJECTS[name] for number, name in enumerate(PROJECTS)}
        with (home / "projects.cfg").open("w") as file:
            for key, options in config.items():
                common = {"name": key, "language": language, "analyzer": analyzer, "vocab": "subjects", "limit": 100}
                print(f"[{key}]", *(f"{a}={b}" for a, b in (common | options).items()), "", sep="\n", file=file)
        _annif(python, home, "load-vocab", "subjects", str(corpus / "vocabulary.ttl"))
        for key, name in zip(config, PROJECTS, strict=True):
            if name in methods:
                found = _evaluated(python, home, key, name, corpus)
                rows.append({"corpus": corpus.name, "method": name} | found | versions)
                print(json.dumps(rows[-1]), flush=True)
    return rows


def _evaluated(python: Path, home: Path, project: str, name: str, corpus: Path) -> dict[str, Any]:
    if name == ONLINE:
        lines = (corpus / "train.tsv").read_text(encoding="utf-8").splitlines(keepends=True)
        for part, half in (("first", lines[: len(lines) // 2]), ("second", lines[len(lines) // 2 :])):
            (home / f"{part}.tsv").write_text("".join(half), encoding="utf-8")
        trained = _annif(python, home, "train", project, "first.tsv")
        trained += _annif(python, home, "learn", project, "second.tsv")
    else:
        trained = _annif(python, home, "train", project, str(corpus / "train.tsv"))
    metrics = ("--metrics-file", f"{project}.json", *(f"--metric={one}" for one in METRICS[:-1]))
    judged = _annif(python, home, "eval", project, str(corpus / "test.tsv"), *metrics)
    found = json.loads((home / f"{project}.json").read_text())
    return {
        "train_documents": sum(1 for _ in (corpus / "train.tsv").open(encoding="utf-8")),
        **{metric: found[metric] for metric in METRICS},
        "train_processor_s": round(trained, 1),
        "eval_processor_s": round(judged, 1),
    }


def _versions(python: Path) -> dict[str, str]:
    """Versions in the environment of Annif, which are others than here."""
    script = f"import json, importlib.metadata as m; print(json.dumps({{n: m.version(n) for n in {LIBRARIES}}}))"
    done = subprocess.run([python, "-c", script], check=True, capture_output=True, text=True)
    found: dict[str, str] = json.loads(done.stdout)
    return found


def _annif(python: Path, home: Path, *words: str) -> float:
    """Run one command of Annif; the processor seconds it took."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    environment = os.environ | {"NLTK_DATA": str(home / "nltk")}
    subprocess.run([python, "-m", "pysldl.annif", *words], cwd=home, check=True, env=environment)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def _write_punkt(home: Path) -> None:
    """NLTK's sentence tokenizer without learned abbreviations: words are the same, and nothing is downloaded."""
    folder = home / "nltk" / "tokenizers" / "punkt_tab" / "english"
    folder.mkdir(parents=True)
    for name in ("collocations.tab", "sent_starters.txt", "abbrev_types.txt", "ortho_context.tab"):
        (folder / name).touch()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus", type=Path, help="folder with train.tsv, test.tsv and vocabulary.ttl")
    parser.add_argument("--language", default="fi")
    parser.add_argument("--analyzer", default="snowball(finnish)")
    parser.add_argument("--python", type=Path, default=ROOT / "build/venvs/annif/bin/python")
    parser.add_argument("--methods", nargs="*", default=list(PROJECTS), choices=list(PROJECTS), metavar="METHOD")
    add_record_option(parser, "annif_eval.csv")
    arguments = parser.parse_args()
    rows = measure(
        arguments.python.absolute(),
        arguments.corpus.resolve(),
        arguments.language,
        arguments.analyzer,
        arguments.methods,
    )
    if arguments.record is not None:
        write_rows(arguments.record, rows, KEY)


if __name__ == "__main__":
    main()
