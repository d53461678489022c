"""The share of statements that tests ran, a package a line, from the data of coverage.py.

    make coverage                                                   # the whole suite, then this
    python benchmarks/coverage_by_package.py --missing serve        # also the lines of a package that nothing ran
    python benchmarks/coverage_by_package.py --only serve --tests "tests/serve" --record

Compiled loops (numba and Triton), which coverage.py cannot see, are left out (``[tool.coverage.report]``).
"""

import argparse
import json
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path, PurePath
from typing import Any

from records import add_record_option, write_rows


def measured() -> dict[str, Any]:
    """What coverage.py says of every file, by its path inside the package."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "coverage.json")
        subprocess.run([sys.executable, "-m", "coverage", "json", "--quiet", "-o", str(report)], check=True)
        files = json.loads(report.read_text())["files"]
    return {_inside(name): record for name, record in files.items()}


def _inside(name: str) -> str:
    parts = PurePath(name).parts
    return "/".join(parts[parts.index("pysldl") + 1 :])


def by_package(files: dict[str, Any]) -> dict[str, tuple[int, int]]:
    """Statements that were run, and all, of every package and of the whole library."""
    run: Counter[str] = Counter()
    statements: Counter[str] = Counter()
    for name, record in files.items():
        for package in {name.partition("/")[0] if "/" in name else "pysldl", "all"}:
            run[package] += record["summary"]["covered_lines"]
            statements[package] += record["summary"]["num_statements"]
    return {package: (run[package], statements[package]) for package in sorted(statements)}


def main() -> None:
    """Print the shares, and record them where that is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", default=[], help="packages to show and to record; by default all")
    parser.add_argument("--missing", nargs="*", default=[], help="packages whose lines without a test are listed")
    parser.add_argument("--tests", default="all", help="which tests were run, for the record")
    add_record_option(parser, "coverage.csv")
    options = parser.parse_args()
    files = measured()
    rows = [
        {"package": package, "statements": n, "percent": round(100 * run / max(n, 1), 1), "tests": options.tests}
        for package, (run, n) in by_package(files).items()
        if not options.only or package in options.only
    ]
    for row in rows:
        print(f"{row['package']:16} {row['percent']:5.1f} %  of {row['statements']:,} statements")
    for name, record in files.items():
        if name.partition("/")[0] in options.missing and record["missing_lines"]:
            print(f"{name}: {', '.join(map(str, record['missing_lines']))}")
    if options.record:
        write_rows(options.record, rows, ("package",))


if __name__ == "__main__":
    main()
