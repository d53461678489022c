"""Print the share of lines that the tests ran, a package a line, from the data of coverage.py."""

import json
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path, PurePath


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "coverage.json")
        subprocess.run([sys.executable, "-m", "coverage", "json", "--quiet", "-o", str(report)], check=True)
        files = json.loads(report.read_text())["files"]
    covered: Counter[str] = Counter()
    lines: Counter[str] = Counter()
    for name, record in files.items():
        inside = PurePath(name).parts[PurePath(name).parts.index("pysldl") :]
        for package in {inside[0], ".".join(inside[:-1][:2])}:
            covered[package] += record["summary"]["covered_lines"]
            lines[package] += record["summary"]["num_statements"]
    for package in sorted(lines):
        print(f"{package:24} {100 * covered[package] / max(lines[package], 1):5.1f} %  of {lines[package]} statements")


if __name__ == "__main__":
    main()
