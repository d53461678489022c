"""Print the lower bounds of the dependencies that pyproject.toml declares, as constraints for pip.

Usage: python .ci/lower_bounds.py [EXTRA ...]
"""

import re
import sys
import tomllib
from pathlib import Path

REQUIREMENT = re.compile(r"([A-Za-z0-9._-]+)(?:\[([^\]]*)\])?\s*(?:>=\s*([0-9.]+))?")


def main(extras: list[str]) -> None:
    project = tomllib.loads(Path(__file__).resolve().parents[1].joinpath("pyproject.toml").read_text())["project"]
    optional = project["optional-dependencies"]
    for requirement in [*project["dependencies"], *(entry for extra in extras for entry in optional[extra])]:
        match = REQUIREMENT.match(requirement)
        if match is None or match[3] is None:
            if not requirement.startswith(project["name"] + "["):  # an extra made of other extras
                sys.exit(f"{requirement}: declares no lower bound")
            continue
        print(f"{match[1]}=={match[3]}")


if __name__ == "__main__":
    main(sys.argv[1:])
