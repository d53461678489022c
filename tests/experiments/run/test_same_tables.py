"""The same command, with other numbers of processes and threads: the same tables and figures, byte for byte."""

import os
import subprocess
import sys

from small_world import small_file

METHODS = "sldl,without-ge,without-ac,blend,random,identity,SLEEC,ridge"
SETTINGS = {"one": (1, "1"), "two": (2, "2")}
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS")


def test_tables_do_not_depend_on_processes_or_threads(tmp_path):
    data = small_file(tmp_path)
    grid = {"--folds": "2", "--c-hats": "4,8", "--n-steps": "10,20", "--ks": "3,7", "--validation-rows": "1"}
    what = {"--datasets": data, "--methods": METHODS}
    options = [word for option in (grid | what).items() for word in option]
    found = {}
    for name, (jobs, threads) in SETTINGS.items():
        out = tmp_path / name
        command = [sys.executable, "-m", "pysldl.cli", "reproduce", "--out", out, *options]
        environment = os.environ | dict.fromkeys(THREADS, threads)
        subprocess.run([*command, "--jobs", str(jobs)], check=True, env=environment, capture_output=True)
        files = [path for kind in ("tables", "figures") for path in sorted((out / kind).iterdir())]
        found[name] = {path.relative_to(out): path.read_bytes() for path in [*files, out / "results.csv"]}
    assert len(found["one"]) > 40
    assert found["two"].keys() == found["one"].keys()
    assert [str(path) for path, content in found["two"].items() if content != found["one"][path]] == []
