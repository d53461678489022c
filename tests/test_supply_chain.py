"""No connection is made at run time, and the bill of materials names what the library needs."""

import json
import subprocess
import sys
import textwrap
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
