"""Write what the library and its extras for users install, each file with its SHA-256 (constraints-hashed.txt).

    python .ci/hashes.py

pip resolves the requirements of pyproject.toml within constraints.txt, without installing anything, and says which file
it would take for this Python and this system. `pip install --require-hashes -r constraints-hashed.txt` then installs
these files and no others; the library itself follows with `--no-deps`.
"""

import json
import platform
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
TARGET = ROOT / "constraints-hashed.txt"
EXTRAS = ("plot", "fast", "serve")


def resolved() -> list[tuple[str, str, str]]:
    """Name, version and SHA-256 of every file that would be installed."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [*project["dependencies"], *(one for extra in EXTRAS for one in project["optional-dependencies"][extra])]
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.json")
        pip = [
            sys.executable,
            "-m",
            "pip",
            "install",
            "--quiet",
            "--dry-run",
            "--ignore-installed",
            "--only-binary=:all:",
        ]
        constraints = ["--constraint", str(ROOT / "constraints.txt"), "--report", str(report)]
        subprocess.run([*pip, *constraints, *wanted], check=True)
        installed = json.loads(report.read_text())["install"]
    found = []
    for one in installed:
        name = one["metadata"]["name"].lower().replace("_", "-")
        found.append((name, one["metadata"]["version"], one["download_info"]["archive_info"]["hashes"]["sha256"]))
    return sorted(found)


def main() -> int:
    lines = [
        f"# What pysldl[{','.join(EXTRAS)}] installs on {platform.system()}, {platform.machine()}, Python "
        f"{sys.version_info.major}.{sys.version_info.minor}. Written by .ci/hashes.py; do not edit.",
        *(f"{name}=={version} --hash=sha256:{sha256}" for name, version, sha256 in resolved()),
    ]
    TARGET.write_text("\n".join(lines) + "\n")
    print(f"{TARGET.name}: {len(lines) - 1} files")
    return 0


if __name__ == "__main__":
    sys.exit(main())
