"""Write what the library depends on, with versions and licenses, as a CycloneDX document (software bill of materials).

    python .ci/sbom.py build/dist/pysldl.cdx.json

It lists what is installed of the packages that pysldl and its extras need, directly or through others.
"""

import json
import re
import sys
import uuid
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

NAME = re.compile(r"[A-Za-z0-9._-]+")


def needed_by(root: Distribution) -> dict[str, Distribution]:
    """Every installed package that ``root`` needs, extras included, and those that these need."""
    found: dict[str, Distribution] = {}
    waiting = [(requirement, True) for requirement in root.requires or ()]
    while waiting:
        requirement, with_extras = waiting.pop()
        if "extra ==" in requirement and not with_extras:
            continue
        match = NAME.match(requirement)
        name = match[0].lower().replace("_", "-") if match else ""
        if not name or name in found or name == root.metadata["Name"].lower():
            continue
        try:
            found[name] = distribution(name)
        except PackageNotFoundError:  # for other systems, or an extra that is not installed
            continue
        waiting += [(more, False) for more in found[name].requires or ()]
    return dict(sorted(found.items()))


def license_of(package: Distribution) -> str:
    """The license as the package states it: an expression, a classifier, or the first line of its text."""
    about = package.metadata
    if about.get("License-Expression"):
        return str(about["License-Expression"])
    classifiers = [line for line in about.get_all("Classifier") or () if line.startswith("License ::")]
    if classifiers:
        return classifiers[-1].rpartition(" :: ")[2]
    return (about.get("License") or "not stated").strip().splitlines()[0][:80]


def component(package: Distribution) -> dict[str, Any]:
    name, version = package.metadata["Name"], package.version
    return {
        "type": "library",
        "bom-ref": f"pkg:pypi/{name.lower()}@{version}",
        "name": name,
        "version": version,
        "purl": f"pkg:pypi/{name.lower()}@{version}",
        "licenses": [{"license": {"name": license_of(package)}}],
    }


def main() -> None:
    root = distribution("pysldl")
    document = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "serialNumber": f"urn:uuid:{uuid.uuid4()}",
        "version": 1,
        "metadata": {"component": component(root) | {"type": "application"}},
        "components": [component(package) for package in needed_by(root).values()],
    }
    target = Path(sys.argv[1])
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    print(f"{target}: {len(document['components'])} packages")


if __name__ == "__main__":
    main()
