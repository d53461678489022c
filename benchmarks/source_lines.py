"""How many lines the library has: code, docstrings, comments and blank ones, a package a row.

python benchmarks/source_lines.py
python benchmarks/source_lines.py --record
"""

import argparse
import ast
from collections import Counter
from pathlib import Path

from records import ROOT, add_record_option, write_rows

SOURCE = ROOT / "src" / "pysldl"
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def counts(text: str) -> Counter[str]:
    """Lines of one module by kind."""
    texts: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
            texts.update(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
    found: Counter[str] = Counter(files=1)
    for number, line in enumerate(text.splitlines(), start=1):
        found["lines"] += 1
        if number in texts:
            found["docstrings"] += 1
        elif not line.strip():
            found["blank"] += 1
        else:
            found["comments" if line.lstrip().startswith("#") else "code"] += 1
    return found


def by_package(source: Path = SOURCE) -> dict[str, Counter[str]]:
    """Lines of every package, those of the whole library last."""
    packages: dict[str, Counter[str]] = {}
    for path in sorted(source.rglob("*.py")):
        inside = path.relative_to(source).parts
        packages.setdefault(inside[0] if len(inside) > 1 else source.name, Counter()).update(counts(path.read_text()))
    return dict(sorted(packages.items())) | {"all": sum(packages.values(), Counter())}


def main() -> None:
    """Print the lines, and record them where that is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_record_option(parser, "source_lines.csv")
    options = parser.parse_args()
    kinds = ("files", "lines", "code", "docstrings", "comments", "blank")
    rows = [{"package": name} | {kind: found[kind] for kind in kinds} for name, found in by_package().items()]
    for row in rows:
        print(f"{row['package']:16}" + "".join(f"{row[kind]:>8,} {kind}" for kind in kinds))
    if options.record:
        write_rows(options.record, rows, ("package",))


if __name__ == "__main__":
    main()
