"""The project as a whole: imports and declarations agree, and so do the files that describe it."""

import ast
import re
import sys
import tomllib
from collections import Counter
from itertools import chain
from pathlib import Path

import pysldl

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
# Where a distribution is not called as its module. Triton comes with the builds of torch for GPUs.
DISTRIBUTION = {
    "faiss": "faiss-cpu",
    "prometheus_client": "prometheus-client",
    "sklearn": "scikit-learn",
    "triton": "torch",
}
NAMED_TEST = re.compile(r"(tests/[\w/]+\.py)::(test_\w+)")


def names(requirements):
    return {re.match(r"[A-Za-z0-9._-]+", requirement)[0].lower() for requirement in requirements} - {"pysldl"}


def declared(*, dev):
    extras = {extra: names(needed) for extra, needed in PROJECT["optional-dependencies"].items()}
    chosen = [needed for extra, needed in extras.items() if dev or extra not in ("dev", "docs")]
    return names(PROJECT["dependencies"]).union(*chosen)


def imported(folder):
    """Distributions that the modules below a folder import, anywhere in them."""
    found = set()
    for path in sorted((ROOT / folder).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                found |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
                found.add(node.module.partition(".")[0])
    foreign = found - set(sys.stdlib_module_names) - {"pysldl"}
    return {DISTRIBUTION.get(name, name) for name in foreign}


def test_every_import_of_the_library_is_declared():
    assert imported("src") <= declared(dev=False)


def test_every_declared_dependency_is_imported():
    behind_others = {"httptools"}  # the protocol of uvicorn that the service takes imports it
    assert declared(dev=False) <= imported("src") | behind_others


def test_the_library_imports_nothing_that_runs_code_when_it_reads():
    pattern = re.compile(r"^\s*(?:import|from) (?:pickle|cloudpickle|dill|joblib|marshal|shelve)\b", re.MULTILINE)
    found = [str(path) for path in sorted((ROOT / "src").rglob("*.py")) if pattern.search(path.read_text())]
    assert found == []


def test_every_import_of_the_tests_is_declared():
    own = {path.stem for path in (ROOT / "tests").rglob("*.py")} | {path.name for path in (ROOT / "tests").iterdir()}
    own |= {path.stem for path in (ROOT / "benchmarks").rglob("*.py")} | {"benchmarks", "peers"}
    assert imported("tests") - own <= declared(dev=True)


def test_every_declared_dependency_has_a_lower_bound_and_a_pin():
    pinned = names(line for line in (ROOT / "constraints.txt").read_text().splitlines() if not line.startswith("#"))
    for requirement in chain(PROJECT["dependencies"], *PROJECT["optional-dependencies"].values()):
        assert requirement.startswith("pysldl[") or re.fullmatch(
            r"[A-Za-z0-9._-]+>=[0-9.]+(,<[0-9.]+)?", requirement
        ), requirement
    assert declared(dev=True) <= pinned


def test_all_includes_every_extra_for_users():
    every = set(PROJECT["optional-dependencies"]) - {"all", "dev", "docs", "annif"}  # Annif pins what others need newer
    for extra in ("all", "dev"):
        listed = next(entry for entry in PROJECT["optional-dependencies"][extra] if entry.startswith("pysldl["))
        assert set(re.search(r"\[(.*)\]", listed)[1].split(",")) == every


def test_names_of_test_files_are_unique():
    counts = Counter(path.name for path in (ROOT / "tests").rglob("test_*.py"))
    assert [name for name, count in counts.items() if count > 1] == []


def test_the_citation_names_this_version():
    assert f"\nversion: {pysldl.__version__}\n" in (ROOT / "CITATION.cff").read_text()


def test_continuous_integration_and_the_guide_name_targets_of_the_makefile():
    targets = set(re.findall(r"^([a-z-]+):.*##", (ROOT / "Makefile").read_text(), re.MULTILINE))
    suites = set(re.findall(r"\btest(?:-[a-z]+)?\b", "".join(re.findall(r"suites=.*", (ROOT / ".ci/run").read_text()))))
    guide = set(re.findall(r"`make ([a-z-]+)`", (ROOT / "CONTRIBUTING.md").read_text()))
    assert suites <= targets and guide <= targets and suites <= guide


def test_the_documents_show_the_layers_of_the_contract():
    (contract,) = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    layers = [re.findall(r"\w+", layer) for layer in contract["layers"]]
    for page in ("docs/architecture.md", "CONTRIBUTING.md"):
        shown = (ROOT / page).read_text().partition("## Layers")[2].split("```")[1].strip().splitlines()
        assert [re.split(r"\s{2,}", line)[0].split(" · ") for line in shown] == layers, page


def test_the_files_that_the_architecture_names_are_there():
    named = re.findall(r"`([\w/]+/\w+\.py)`", (ROOT / "docs" / "architecture.md").read_text())
    assert len(set(named)) > 40
    assert [path for path in named if not any((ROOT / start / path).is_file() for start in ("src/pysldl", "."))] == []


def test_tests_that_documents_name_are_there():
    named = [found for path in (ROOT / "docs").glob("*.md") for found in NAMED_TEST.findall(path.read_text())]
    assert len(named) > 20
    missing = [f"{file}::{test}" for file, test in named if f"def {test}(" not in (ROOT / file).read_text()]
    assert missing == []
