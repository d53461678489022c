"""No connection is made at run time, and the bill of materials names what the library needs."""

import json
import re
import subprocess
import sys
import textwrap
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_no_connection_is_made(tmp_path: Path) -> None:
    """Python itself reports every connection and every question for an address."""
    script = """
        import sys, warnings
        warnings.simplefilter("ignore")
        asked = []
        def hook(event, args):
            if event in ("socket.connect", "socket.getaddrinfo", "socket.sendto", "urllib.Request"):
                asked.append((event, str(args)))
        sys.addaudithook(hook)
        from pysldl import SLDLClassifier, load_model
        from pysldl.cli import run
        from pysldl.datasets import list_datasets, make_asymmetric_multilabel
        from pysldl.decoding import FeatureNeighborDecoder
        list_datasets()
        data = make_asymmetric_multilabel(60, 20, 4, random_state=0)
        model = SLDLClassifier(None, mapping=None, decoder=FeatureNeighborDecoder(3), random_state=0)
        model.fit(data.X, data.Y).save(sys.argv[1])
        load_model(sys.argv[1]).predict_topk(data.X, 3)
        run(["inspect", sys.argv[1]])
        run(["version"])
        assert not asked, asked
        import socket
        try:
            socket.create_connection(("127.0.0.1", 9), timeout=0.1)
        except OSError:
            pass
        assert asked, "the watch does not see connections"
    """
    command = [sys.executable, "-c", textwrap.dedent(script), str(tmp_path / "model")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_bill_of_materials_names_what_is_needed(tmp_path: Path) -> None:
    target = tmp_path / "bill.json"
    subprocess.run([sys.executable, str(ROOT / ".ci" / "sbom.py"), str(target)], check=True, capture_output=True)
    bill = json.loads(target.read_text())
    names = {part["name"].lower() for part in bill["components"]}
    assert {"numpy", "scipy", "scikit-learn", "rich", "cyclopts"} <= names
    assert all(part["licenses"][0]["license"]["name"] for part in bill["components"])
    assert bill["bomFormat"] == "CycloneDX" and bill["metadata"]["component"]["name"] == "pysldl"


def test_hashed_files_are_those_of_the_pins() -> None:
    lines = [line for line in (ROOT / "constraints-hashed.txt").read_text().splitlines() if not line.startswith("#")]
    found = [re.fullmatch(r"([a-z0-9-]+)==(\S+) --hash=sha256:[0-9a-f]{64}", line) for line in lines]
    assert all(found)
    hashed = {match[1]: match[2] for match in found if match is not None}
    pins = dict(re.findall(r"^([\w.-]+)==(\S+)$", (ROOT / "constraints.txt").read_text(), re.M))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    needed = [*project["dependencies"], *extras["plot"], *extras["fast"], *extras["serve"]]
    names = {re.match(r"[A-Za-z0-9._-]+", requirement)[0].lower() for requirement in needed}  # type: ignore[index]
    assert names <= set(hashed), "run make hashes"
    assert {name: hashed[name] for name in hashed if name in pins} == {
        name: version for name, version in pins.items() if name in hashed
    }, "run make hashes"
