"""The time of a training step, in a process of its own, since it sets the number of threads."""

import json
import subprocess
import sys

import pytest

pytest.importorskip("torch")


def test_steps_of_a_method_are_timed(scripts, tmp_path):
    command = [sys.executable, scripts / "baseline_step.py", "--methods", "PACA", "--labels", "3", "--steps", "1"]
    done = subprocess.run(
        [*command, "--json", "--record", tmp_path / "record.csv"], check=True, capture_output=True, text=True
    )
    found = json.loads(done.stdout)
    assert found["seconds"] > 0
    assert "PACA,3,0," in (tmp_path / "record.csv").read_text()
    assert (found["method"], found["labels"], found["half"]) == ("PACA", 3, False)
