"""The documents hold together: internal links lead somewhere, public names have a page, commands have their options."""

import ast
import json
import re
import shlex
import unicodedata
from functools import cache
from pathlib import Path
from pkgutil import iter_modules

import pytest

import pysldl

ROOT = Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
LINK = re.compile(r"(?<!\!)\[[^\]]*\]\(([^)\s]+)\)|\{doc\}`(?:[^`<]*<)?([^`>]+)>?`")
FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.DOTALL | re.MULTILINE)
NOT_FOR_IMPORT = {"cli"}  # the command

pytestmark = pytest.mark.skipif(not PAGES[0].is_file(), reason="the documents are not part of an installed package")


def slug(title: str) -> str:
    """The anchor that GitHub and MyST make of a title."""
    plain = re.sub(r"[`*]|\[([^\]]*)\]\([^)]*\)", r"\1", title).strip().lower()
    kept = (sign for sign in plain if sign in " -_" or unicodedata.category(sign)[0] in "LN")
    return "".join(kept).replace(" ", "-")


@cache
def anchors(page: Path) -> frozenset[str]:
    prose = FENCE.sub("", page.read_text(encoding="utf-8"))
    return frozenset(slug(title) for title in re.findall(r"^#+ (.*)$", prose, re.MULTILINE))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_internal_links_lead_somewhere(page):
    broken = []
    for plain, document in LINK.findall(FENCE.sub("", page.read_text(encoding="utf-8"))):
        if "://" in plain or plain.startswith("mailto:"):
            continue
        name, _, anchor = (plain or document).partition("#")
        generated = document and ("gallery/" in name or "reference/" in name)
        target = (page.parent / (f"{name}.md" if document else name)).resolve() if name else page
        if not generated and not target.exists():
            broken.append(plain or document)
        elif anchor and target.suffix == ".md" and anchor not in anchors(target):
            broken.append(plain)
    assert not broken


def assigned(path, name):
    """The value that a module gives to a name, without importing it; nothing where it has none."""
    for node in ast.parse(path.read_text()).body:
        target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
        if getattr(target, "id", None) == name:
            return ast.literal_eval(node.value) if isinstance(node.value, ast.Dict) else node.value.elts
    return ()


def test_every_public_name_has_a_page():
    documented = set(assigned(ROOT / "docs" / "conf.py", "PACKAGES"))
    folder = Path(pysldl.__file__).parent
    with_names = {"pysldl"}
    for module in iter_modules([str(folder)]):
        if not module.name.startswith("_") and module.name not in NOT_FOR_IMPORT:
            path = folder / module.name / "__init__.py" if module.ispkg else folder / f"{module.name}.py"
            with_names |= {f"pysldl.{module.name}"} if assigned(path, "__all__") else set()
    assert len(with_names) > 10 and with_names <= documented
    listed = (ROOT / "docs" / "reference" / "index.md").read_text().split("```{toctree}")[1].split("```")[0].split()
    assert set(listed) == documented


def command_lines():
    """Command lines of ``sldl`` in the code blocks of the documents."""
    found = []
    for page in PAGES:
        for language, block in FENCE.findall(page.read_text(encoding="utf-8")):
            if language in ("", "console", "sh", "bash"):
                joined = re.sub(r"\\\n\s*", " ", block)
                lines = re.findall(r"(?:^|\| |\$ )sldl (\w+)([^\n|]*)", joined, re.MULTILINE)
                found += [(page.name, *line) for line in lines]
    return found


def test_command_lines_of_the_documents_have_options_that_exist(sldl):
    from pysldl.cli import COMMANDS

    lines = command_lines()
    assert len(lines) > 30
    options = {
        command: set(re.findall(r"--[a-z][a-z-]*", sldl(command, "--help").out))
        for command in {command for _, command, _ in lines} & set(COMMANDS)
    }
    wrong = [
        f"{page}: sldl {command}{rest}"
        for page, command, rest in lines
        if command not in COMMANDS
        or not set(re.findall(r"(?<!\S)--[a-z][a-z-]*", rest)) <= options[command] | {"--help", "--debug"}
    ]
    assert not wrong


@pytest.mark.parametrize("page", ["README.md", "docs/guide/start.md"])
def test_the_first_session_in_a_shell_runs(page, sldl, tmp_path, monkeypatch):
    """The commands as a newcomer reads them, from a file of texts to labels of new ones, but the service."""
    monkeypatch.chdir(tmp_path)
    posts = [
        ("clouds over the gray sea", ["cloud", "sea"]),
        ("a cat on a mat", ["cat"]),
        ("cats and dogs", ["cat", "dog"]),
    ]
    lines = [
        json.dumps({"text": f"{text} {number}", "labels": labels}) for number in range(20) for text, labels in posts
    ]
    for name in ("all.jsonl", "all-posts.jsonl", "new.jsonl"):
        Path(name).write_text("\n".join(lines) + "\n")
    blocks = "".join(block for _, block in FENCE.findall((ROOT / page).read_text(encoding="utf-8")))
    commands = [shlex.split(line, comments=True) for line in re.findall(r"^\$ sldl (.*)$", blocks, re.MULTILINE)]
    assert [words[0] for words in commands][:3] == ["split", "fit", "evaluate"] and commands[-1][0] == "serve"
    for words in commands[:-1]:
        outcome = sldl(*words)
        assert outcome.code == 0, outcome
    found = Path("labels.csv").read_text().splitlines()
    assert len(found) > len(lines) and "cloud" in found[1] + found[2]
