"""Rewrites every measured table, list and figure of README.md and docs/ from the records in results/, or checks them.

    python benchmarks/documents.py --write
    python benchmarks/documents.py --check

A block starts at `<!-- measured: NAME -->` and ends at `<!-- end -->`. What has no record yet says so; what was
measured before records were kept says that. The check also refuses tables with decimal figures outside of a block.
"""

import argparse
import difflib
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from blocks import (
    comparison,
    distributed,
    embedding,
    figures,
    hardening,
    languages,
    machines,
    readme,
    reproduction,
    sets,
    source,
    speed,
    vocabularies,
)
from blocks.evidence import Evidence
from blocks.text import wrapped
from pysldl._utils.files import write_atomically
from records import RESULTS, ROOT

BLOCKS: dict[str, Callable[[Evidence], str]] = {
    "results": readme.results,
    "settings": reproduction.settings,
    "agreement": reproduction.agreement,
    "selections": reproduction.selections,
    "controls": reproduction.controls,
    "ablation-settings": reproduction.ablation_settings,
    "ablation": reproduction.ablation,
    "theorem": reproduction.theorem,
    "crash-recovery": reproduction.crash_recovery,
    "reading": reproduction.reading,
    "comparison": comparison.tables,
    "comparison-reading": comparison.reading,
    "ranks": comparison.ranks,
    "distances": comparison.distances,
    "training-times": comparison.training_times,
    "critical-differences": figures.critical_differences,
    "curves": figures.curves,
    "baselines": comparison.baselines,
    "baseline-variants": comparison.variants,
    "baselines-on-cores": comparison.on_cores,
    "baseline-step": comparison.step_times,
    "baseline-memory": comparison.memory,
    "accurate": comparison.accurate,
    "authors-way": speed.authors_way,
    "planted": embedding.planted,
    "trained-vs-random": embedding.trained_vs_random,
    "steps": embedding.steps,
    "peers": speed.peers,
    "further-sets": speed.further_sets,
    "further-sets-made": speed.further_sets_made,
    "reranker": speed.reranker,
    "prediction-sets": sets.prediction_sets,
    "languages": languages.chosen,
    "splits": languages.splits,
    "dense-vectors": languages.dense,
    "few_labels": speed.few_labels,
    "peer-ratios": speed.peer_ratios,
    "peer-folds": speed.peer_folds,
    "rows": speed.cost_of_rows,
    "scaling": speed.scaling,
    "gpu": speed.gpu,
    "online": speed.online,
    "serving": speed.serving,
    "machines": machines.agreement,
    "crashes": hardening.crashes,
    "fuzzing": hardening.fuzzing,
    "gpu-agreement": machines.gpu_agreement,
    "embedding-digests": machines.embedding_digests,
    "dask-equality": distributed.equality,
    "dask-memory": distributed.memory,
    "dask-faults": distributed.faults,
    "dask-overhead": distributed.overhead,
    "dask-scaling": distributed.scaling,
    "annif-eval": vocabularies.annif_eval,
    "thesaurus": vocabularies.thesaurus,
    "names-in-texts": vocabularies.names_in_texts,
    "walk": source.walk,
    "source-lines": source.lines,
    "coverage": source.coverage,
}
BLOCK = re.compile(r"<!-- measured: (?P<name>[\w-]+) -->\n(?P<text>.*?)<!-- end -->", re.DOTALL)
FENCED = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
DECIMAL = re.compile(r"\d\.\d")


class DocumentError(Exception):
    """A page cannot be made: a block is unknown, or has no end."""


def pages(root: Path) -> list[Path]:
    """README.md and all pages of docs/ and its folders."""
    return [root / "README.md", *sorted((root / "docs").rglob("*.md"))]


def filled(text: str, made: dict[str, str], page: str) -> str:
    """The page with every block as the records have it."""
    opened = re.findall(r"<!-- measured: ([\w-]+) -->", text)
    if len(opened) != len(BLOCK.findall(text)):
        raise DocumentError(f"{page}: a block has no <!-- end -->; the blocks are {', '.join(opened)}.")
    for name in opened:
        if name not in made:
            raise DocumentError(f"{page}: there is no block {name!r}; choose from {', '.join(sorted(made))}.")
    return BLOCK.sub(lambda found: f"<!-- measured: {found['name']} -->\n{made[found['name']]}\n<!-- end -->", text)


def unrecorded(text: str) -> list[str]:
    """Rows of tables with decimal figures that stand in no block."""
    outside = FENCED.sub("", BLOCK.sub("", text))
    return [line for line in outside.splitlines() if line.startswith("|") and DECIMAL.search(line)]


def made_blocks(evidence: Evidence) -> dict[str, str]:
    """The text of every block."""
    return {name: wrapped(make(evidence).strip()) for name, make in BLOCKS.items()}


def problems(root: Path, evidence: Evidence) -> Iterator[str]:
    """What is different in the documents from what the records say."""
    made, used = made_blocks(evidence), set()
    for page in pages(root):
        text, name = page.read_text(encoding="utf-8"), str(page.relative_to(root))
        used |= {found["name"] for found in BLOCK.finditer(text)}
        expected = filled(text, made, name)
        if text != expected:
            lines = difflib.unified_diff(text.splitlines(), expected.splitlines(), name, "records", lineterm="", n=0)
            yield "\n".join(lines)
        for line in unrecorded(text):
            yield f"{name}: a table with figures that stands in no block: {line}"
    for name in sorted(BLOCKS.keys() - used):
        yield f"the block {name!r} is on no page"
    for figure in figures.figures(evidence):
        path = root / "docs" / "figures" / f"{figure.name}.svg"
        if not path.is_file() or figure.mark not in path.read_text(encoding="utf-8"):
            yield f"{path.relative_to(root)} does not show what the records say"


def write(root: Path, evidence: Evidence) -> list[str]:
    """Rewrite pages and figures; the names of those that changed."""
    made, changed = made_blocks(evidence), []
    for page in pages(root):
        text, name = page.read_text(encoding="utf-8"), str(page.relative_to(root))
        new = filled(text, made, name)
        if new != text:
            write_atomically(page, new)
            changed.append(name)
    for figure in figures.figures(evidence):
        path = root / "docs" / "figures" / f"{figure.name}.svg"
        if not path.is_file() or figure.mark not in path.read_text(encoding="utf-8"):
            write_atomically(path, figure.svg())
            changed.append(str(path.relative_to(root)))
    return changed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--write", action="store_true", help="rewrite the documents")
    what.add_argument("--check", action="store_true", help="exit with 1 and a diff where they differ from the records")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder of the records (default results/)")
    parser.add_argument(
        "--root", type=Path, default=ROOT, help="folder of README.md and docs/ (default: this repository)"
    )
    options = parser.parse_args()
    evidence = Evidence(options.results)
    try:
        if options.write:
            print(*(write(options.root, evidence) or ["nothing has changed"]), sep="\n")
            return 0
        found = list(problems(options.root, evidence))
    except DocumentError as error:
        print(error, file=sys.stderr)
        return 1
    if found:
        print(*found, "Run `make documents` to rewrite the documents from the records.", sep="\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
