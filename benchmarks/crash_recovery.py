"""Does a reproduction that is killed again and again end with the tables of one that is not?

Runs `sldl reproduce` once undisturbed, and then in another folder, killed (SIGKILL) again and again: a random time
after a random number of further configurations are on disk, so that all kills together go about once through the whole
run, however busy the machine. Whenever a run gets to its end, its tables must be those of the undisturbed one, byte for
byte; it then starts anew until all kills are used up. Training times are left out: each run measures its own.
"""

import argparse
import json
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pysldl.datasets import make_asymmetric_multilabel, write_npz
from records import add_record_option, write_rows

METHODS = "sldl,random,identity"
GRID = ("--folds", "10", "--c-hats", "8,16,32,64", "--ks", "3,7", "--validation-rows", "1", "--metrics", "P@1,P@5")


@dataclass(frozen=True)
class Kill:
    """How long after its start a run was killed, and how many configurations were on disk then."""

    seconds: float
    finished: int


@dataclass(frozen=True)
class Outcome:
    """All kills, and for each run that got to its end the files that differ from the undisturbed one's."""

    undisturbed_seconds: float
    configurations: int
    files: int
    kills: list[Kill]
    differences: list[list[str]]

    @property
    def holds(self) -> bool:
        return self.files > 0 and not any(self.differences)


def measure(folder: Path, dataset: str, n_kills: int, jobs: int, seed: int, grid: tuple[str, ...] = GRID) -> Outcome:
    """Kill ``n_kills`` runs on one data set; everything is written below ``folder``."""
    chance = random.Random(seed)
    whole, killed = folder / "whole", folder / "killed"
    started = time.monotonic()
    if _start(whole, dataset, jobs, grid).wait() != 0:
        raise SystemExit(f"the undisturbed run failed: see what `sldl reproduce --datasets {dataset}` says.")
    lasted, total, expected = time.monotonic() - started, _finished(whole), _tables(whole)
    kills: list[Kill] = []
    differences: list[list[str]] = []
    while True:
        started = time.monotonic()
        process = _start(killed, dataset, jobs, grid)
        moment = None
        if len(kills) < n_kills:
            known = _finished(killed)
            reached = min(known + chance.randint(0, 2 * total // n_kills), total)
            while process.poll() is None and _finished(killed) < reached:
                time.sleep(0.005)
            # Where nothing but tables is left, most runs get to their end, and the next starts anew.
            moment = chance.uniform(0, lasted / n_kills if known < total else 2 * lasted)
        try:
            process.wait(moment)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.wait()
            kills.append(Kill(time.monotonic() - started, _finished(killed)))
            continue
        found = _tables(killed)
        differences.append(sorted(name for name in expected | found if expected.get(name) != found.get(name)))
        if len(kills) == n_kills:
            return Outcome(lasted, total, len(expected), kills, differences)
        shutil.rmtree(killed)


def as_rows(outcome: Outcome) -> list[dict[str, Any]]:
    """One row for each kill, and one for each run that got to its end, with the number of its files that differ."""
    total = {"configurations": outcome.configurations, "files": outcome.files}
    kills = [
        {"event": "killed", "number": number, "seconds": kill.seconds, "finished": kill.finished, **total}
        for number, kill in enumerate(outcome.kills, start=1)
    ]
    ends = [
        {"event": "ended", "number": number, "finished": outcome.configurations, "different": len(files), **total}
        for number, files in enumerate(outcome.differences, start=1)
    ]
    return [*kills, *ends]


def _start(out: Path, dataset: str, jobs: int, grid: tuple[str, ...]) -> "subprocess.Popen[bytes]":
    command = ("reproduce", "--out", out, "--datasets", dataset, "--methods", METHODS, "--jobs", jobs, *grid)
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    return subprocess.Popen([sys.executable, "-m", "pysldl.cli", *map(str, command)], **quiet)


def _tables(out: Path) -> dict[str, bytes]:
    files = [path for path in (out / "tables").iterdir() if not path.name.startswith("training-time")]
    return {path.name: path.read_bytes() for path in (*files, out / "results.csv")}


def _finished(out: Path) -> int:
    return sum(path.read_bytes().count(b"\n") for path in (out / "records").rglob("*.jsonl"))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=10, help="how many (default 10)")
    parser.add_argument("--dataset", help="name or file of a data set (default: 400 made-up rows)")
    parser.add_argument("--jobs", type=int, default=2, help="processes of each run (default 2)")
    parser.add_argument("--seed", type=int, default=0, help="draws the moments (default 0)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    add_record_option(parser, "crash_recovery.csv")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        dataset = options.dataset
        if dataset is None:
            dataset = str(Path(name) / "made-up.npz")
            write_npz(make_asymmetric_multilabel(400, 60, 30), dataset)
        outcome = measure(Path(name), dataset, options.kills, options.jobs, options.seed)
    if options.record:
        about = {"dataset": options.dataset or "synthetic", "jobs": options.jobs, "seed": options.seed}
        write_rows(options.record, [about | row for row in as_rows(outcome)], (*about, "event", "number"))
    if options.json:
        print(json.dumps(asdict(outcome) | {"holds": outcome.holds}, indent=2))
        return 0 if outcome.holds else 1
    print(f"undisturbed: {outcome.undisturbed_seconds:.1f} s, {outcome.configurations} configurations")
    for number, kill in enumerate(outcome.kills, start=1):
        on_disk = f"{kill.finished} of {outcome.configurations} configurations on disk"
        print(f"kill {number}: {kill.seconds:.2f} s after its start, {on_disk}")
    for different in outcome.differences:
        print(f"a run that got to its end: {outcome.files} files, {', '.join(different) or 'all identical'}")
    return 0 if outcome.holds else 1


if __name__ == "__main__":
    sys.exit(main())
