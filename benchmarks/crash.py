"""Killed before any system call, no space at any write, two writers at once: is anything lost, or left behind?

The writers are `save_model` (a new model, a model replaced, a model behind a link), `sldl update` and
`sldl predict --out`. Each runs in a forked process under strace, which kills it (SIGKILL) before its n-th system call,
or lets its n-th write fail for want of space, for n = 1, 2, 3, ... What was there before, or what was to be written,
must then be there, whole; and once the next command has run, nothing else. `--pairs` runs updates two at a time: the
rows of both must be in the model, or one must have been refused.
"""

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from records import add_record_option, write_rows

CALLS = "openat,mkdir,write,fsync,rename,unlink,unlinkat,rmdir,flock,close,fstat,lseek"
WRITES = "write,fsync,mkdir,rename,openat"
NEW_ROWS = 10


def forked(action: Callable[[], Any], inject: str | None) -> int:
    """Run an action in a forked process, under strace with an injected fault; return how the process ended."""
    child = os.fork()
    if child == 0:
        devnull = os.open(os.devnull, os.O_RDWR)
        os.dup2(devnull, 1)
        os.dup2(devnull, 2)
        if inject:
            os.kill(os.getpid(), signal.SIGSTOP)
        try:
            code = action() or 0
        except BaseException:
            code = 2
        os._exit(int(code))
    if inject:
        tracer = subprocess.Popen(
            ["strace", "-f", "-qq", "-o", "/dev/null", "-e", f"inject={inject}", "-p", str(child)]
        )
        until = time.monotonic() + 20
        while "TracerPid:\t0\n" in Path(f"/proc/{child}/status").read_text() and time.monotonic() < until:
            time.sleep(0.002)
        time.sleep(0.01)
    while True:
        if inject:
            os.kill(child, signal.SIGCONT)  # again and again: one that comes before the stop is lost
        ended, status = os.waitpid(child, os.WNOHANG if inject else 0)
        if ended:
            break
        time.sleep(0.01)
    if inject:
        tracer.wait()
    return os.waitstatus_to_exitcode(status)


class World:
    """A small online model, rows to add, and the commands that write."""

    def __init__(self, folder: Path) -> None:
        import json

        from pysldl import SLDLClassifier
        from pysldl.cli import run
        from pysldl.datasets import make_asymmetric_multilabel
        from pysldl.decoding import FeatureNeighborDecoder
        from pysldl.persistence import load_model, read_manifest, save_model

        self.run, self.load, self.save, self.manifest = run, load_model, save_model, read_manifest
        self.folder, self.path = folder, folder / "model"
        data = make_asymmetric_multilabel(60, 20, 4, random_state=0)
        names = data.label_names.tolist()
        texts = [" ".join(f"w{c}" for c in data.X.indices[slice(*data.X.indptr[r : r + 2])]) + " w" for r in range(60)]
        labels = [[names[c] for c in data.Y.indices[slice(*data.Y.indptr[r : r + 2])]] for r in range(60)]
        decoder = FeatureNeighborDecoder(3, temperature=0.1)
        self.model = SLDLClassifier(None, mapping=None, decoder=decoder, online=True, calibrate=False, random_state=0)
        self.model.fit(texts[:30], labels[:30])
        for part, start in (("one", 30), ("two", 30 + NEW_ROWS)):
            rows = zip(texts[start : start + NEW_ROWS], labels[start : start + NEW_ROWS], strict=True)
            lines = (json.dumps({"text": text, "labels": its}) for text, its in rows)
            (folder / f"{part}.jsonl").write_text("\n".join(lines) + "\n")

    def fresh(self, kind: str) -> None:
        for name in ("model", "real", "out.jsonl"):
            path = self.folder / name
            if path.is_symlink() or path.is_file():
                path.unlink()
            elif path.exists():
                shutil.rmtree(path)
        if kind == "save through a link":
            (self.folder / "real").mkdir()
            self.path.symlink_to("real")
        if kind != "save a new model":
            self.save(self.model, self.path, extra={"n_samples": 30}, overwrite=True)

    def act(self, kind: str) -> int:
        if kind == "update":
            return int(self.run(["update", str(self.path), str(self.folder / "one.jsonl")]))
        if kind == "predict":
            data = str(self.folder / "two.jsonl")
            return int(self.run(["predict", str(self.path), data, "--out", str(self.folder / "out.jsonl")]))
        self.save(self.model, self.path, extra={"n_samples": 31}, overwrite=kind != "save a new model")
        return 0

    def state(self, kind: str) -> int:
        """0 for what was there before, 1 for what was to be written; an error for anything else."""
        if kind == "predict":
            out = self.folder / "out.jsonl"
            if not out.exists():
                return 0
            assert out.read_text().count("\n") == NEW_ROWS, "half a file"
            return 1
        if kind == "save a new model" and not (self.path / "current.json").exists():
            return 0
        found = self.load(self.path).n_samples_, self.manifest(self.path).extra["n_samples"]
        before, after = ((30, 30), (30 + NEW_ROWS, 30 + NEW_ROWS)) if kind == "update" else ((30, 30), (30, 31))
        assert found in (before, after), f"parts of two versions: {found}"
        return int(found == after)

    def leftovers(self) -> list[str]:
        left = [entry.name for entry in self.folder.iterdir() if entry.name.startswith(".")]
        if self.path.exists():
            left += sorted({entry.name for entry in self.path.iterdir()} - {"current.json", "lock", "versions"})
            left += [entry.name for entry in (self.path / "versions").iterdir()][2:]
        return left


KINDS = ("save", "save a new model", "save through a link", "update", "predict")


def faults(world: World, kind: str, calls: str, fault: str, most: int) -> Counter[str]:
    """Inject a fault at the first, second, third, ... call of every kind; strace counts each kind for itself."""
    total: Counter[str] = Counter()
    for call in calls.split(","):
        total += _faults_at(world, kind, call, fault, most)
    return total


def _faults_at(world: World, kind: str, calls: str, fault: str, most: int) -> Counter[str]:
    outcomes: Counter[str] = Counter()
    for nth in range(1, most + 1):
        world.fresh(kind)
        ended = forked(lambda: world.act(kind), f"{calls}:{fault}:when={nth}")
        if ended == 0 and (fault.startswith("signal") or world.state(kind)):
            break  # there was no such call any more, or its failure did not matter
        try:
            state = world.state(kind)
            outcomes["new" if state else "old"] += 1
            if ended == 0 and not state:
                outcomes["told the wrong thing"] += 1
            if forked(lambda: world.act("save" if kind == "save a new model" else kind), None) != 0:
                outcomes["the next command failed"] += 1
            outcomes["left behind"] += len(world.leftovers())
        except Exception as error:
            outcomes[f"lost: {type(error).__name__}: {str(error)[:80]}"] += 1
    return outcomes


def pairs(world: World, n_pairs: int) -> Counter[str]:
    """Two updates at once, each of other rows."""
    outcomes: Counter[str] = Counter()
    for _ in range(n_pairs):
        world.fresh("update")
        children = []
        for part in ("one", "two"):
            child = os.fork()
            if child == 0:
                devnull = os.open(os.devnull, os.O_RDWR)
                os.dup2(devnull, 1)
                os.dup2(devnull, 2)
                os._exit(int(world.run(["update", str(world.path), str(world.folder / f"{part}.jsonl")])))
            children.append(child)
        done = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
        rows = world.load(world.path).n_samples_
        if rows == 30 + NEW_ROWS * done.count(0) and set(done) <= {0, 2}:
            outcomes["every row" if done == [0, 0] else "one refused"] += 1
        else:
            outcomes[f"lost: {rows} rows after {done}"] += 1
    return outcomes


def _recorded(writer: str, what: str, found: Counter[str], record: Path | None) -> list[dict[str, Any]]:
    print(f"{writer}, {what}: {dict(found)}", flush=True)
    rows = [{"writer": writer, "what": what, "outcome": outcome, "cases": n} for outcome, n in found.items()]
    if record:
        write_rows(record, rows, ("writer", "what", "outcome"))
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=60, help="most of each writer (default 60)")
    parser.add_argument("--full", type=int, default=20, help="failing writes of each writer (default 20)")
    parser.add_argument("--pairs", type=int, default=10, help="pairs of updates (default 10)")
    add_record_option(parser, "crash.csv")
    options = parser.parse_args()
    if shutil.which("strace") is None and options.kills + options.full:
        raise SystemExit("strace is not installed: kills and full disks cannot be tried. Pass --kills 0 --full 0.")
    warnings.simplefilter("ignore")
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as name:
        world = World(Path(name))
        for kind in KINDS:  # imports everything before the first fork
            world.fresh(kind)
            forked(lambda kind=kind: world.act(kind), None)
        plan = [(kind, "killed", CALLS, "signal=SIGKILL", options.kills) for kind in KINDS]
        plan += [(kind, "no space", WRITES, "error=ENOSPC", options.full) for kind in KINDS]
        for kind, what, calls, fault, most in plan:
            found = faults(world, kind, calls, fault, most)
            rows += _recorded(kind, what, found, options.record)
        if options.pairs:
            rows += _recorded("update", "two at once", pairs(world, options.pairs), options.record)
    good = ("old", "new", "every row", "one refused")
    return int(any(row["cases"] and row["outcome"] not in good for row in rows))


if __name__ == "__main__":
    sys.exit(main())
