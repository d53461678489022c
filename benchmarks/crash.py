"""Writers killed, without space, without power, two at once, with a wrong clock: is anything lost, or left behind?

The writers are those of crash_writers.py: saving, updating, a new vocabulary, predictions to a file and to parts, the
feedback of the page, and a reproduction. Each runs in a forked process under strace, which kills it (SIGKILL) before
its n-th system call, or lets its n-th write fail for want of space, for n = 1, 2, 3, ... What was there before, or what
was to be written, must then be there, whole; and once the next command has run, nothing else. `--losses` replays the
log of the calls of each writer, up to each of them, on a disk that keeps only what was synced, or anything else at
random. `--pairs` runs updates two at a time: the rows of both must be in the model, or one must have been refused.
"""

import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

from crash_writers import NEW_ROWS, OLD_ROWS, World, Writer
from power_loss import CALLS as LOGGED_CALLS
from power_loss import LOSSES, Disk
from pysldl.persistence import load_model
from records import add_record_option, write_rows

CALLS = "openat,mkdir,write,fsync,rename,unlink,unlinkat,rmdir,flock,close,fstat,lseek,ftruncate,newfstatat,read,mmap"
WRITES = "write,fsync,mkdir,rename,openat"


def forked(action: Callable[[], Any], inject: str | None, log: str | None = None) -> int:
    """Run an action in a forked process; return how the process ended.

    It runs under strace where a fault is to be injected, or where its calls are to be logged.
    """
    is_traced = inject is not None or log is not None
    child = os.fork()
    if child == 0:
        devnull = os.open(os.devnull, os.O_RDWR)
        os.dup2(devnull, 1)
        os.dup2(devnull, 2)
        if is_traced:
            os.kill(os.getpid(), signal.SIGSTOP)
        try:
            code = action() or 0
        except BaseException:
            code = 2
        os._exit(int(code))
    if is_traced:
        what = ["-o", "/dev/null", "-e", f"inject={inject}"]
        if log is not None:
            what = ["-o", log, "-xx", "-s", "100000000", "-e", f"trace={LOGGED_CALLS}"]
        tracer = subprocess.Popen(["strace", "-f", "-qq", *what, "-p", str(child)])
        until = time.monotonic() + 20
        while "TracerPid:\t0\n" in Path(f"/proc/{child}/status").read_text() and time.monotonic() < until:
            time.sleep(0.002)
        time.sleep(0.01)
    while True:
        if is_traced:
            os.kill(child, signal.SIGCONT)  # again and again: one that comes before the stop is lost
        ended, status = os.waitpid(child, os.WNOHANG if is_traced else 0)
        if ended:
            break
        time.sleep(0.01)
    if is_traced:
        tracer.wait()
    return os.waitstatus_to_exitcode(status)


def faults(world: World, kind: str, calls: str, fault: str, most: int) -> Counter[str]:
    """Inject a fault at the first, second, third, ... call of every kind; strace counts each kind for itself."""
    total: Counter[str] = Counter()
    for call in calls.split(","):
        total += _faults_at(world, kind, call, fault, most)
    return total


def _faults_at(world: World, kind: str, calls: str, fault: str, most: int) -> Counter[str]:
    outcomes: Counter[str] = Counter()
    writer = world.writers[kind]
    for nth in range(1, most + 1):
        writer.fresh()
        ended = forked(writer.act, f"{calls}:{fault}:when={nth}")
        if ended == 0 and (fault.startswith("signal") or writer.state()):
            break  # there was no such call any more, or its failure did not matter
        outcomes += checked(world, writer, ended)
    return outcomes


def checked(world: World, writer: Writer, ended: int | None) -> Counter[str]:
    """Look at what a writer left, let the next one run, and look again."""
    outcomes: Counter[str] = Counter()
    try:
        state = writer.state()
        outcomes["new" if state else "old"] += 1
        if ended == 0 and not state:
            outcomes["told the wrong thing"] += 1
        if forked(writer.again or writer.act, None) != 0 or writer.state() != 1:
            outcomes["the next command failed"] += 1
        outcomes["left behind"] += len(world.leftovers())
    except Exception as error:
        outcomes[f"lost: {type(error).__name__}: {str(error)[:80]}"] += 1
    return outcomes


def power_losses(world: World, kind: str, most: int) -> Counter[str]:
    """Replay the log of a writer's calls up to each of them, and look at what a loss of power may leave there."""
    outcomes: Counter[str] = Counter()
    writer, source = world.writers[kind], random.Random(0)
    writer.fresh()
    disk, counted = Disk(world.folder), Disk(world.folder)
    with tempfile.NamedTemporaryFile() as log:
        ended = forked(writer.act, None, log.name)
        assert ended == 0, f"{kind} ended with {ended}"
        assert not world.leftovers()
        n_calls = sum(1 for _ in counted.replay(Path(log.name)))
        chosen = {round(at * (n_calls - 1) / max(1, most - 1)) for at in range(most)}
        for at, _ in enumerate(disk.replay(Path(log.name))):
            if at not in chosen:
                continue
            for loss in LOSSES:
                disk.after_loss(loss, source, world.folder)
                # What the command has reported as done must be there after the last call, whatever was not synced.
                outcomes += checked(world, writer, 0 if at == n_calls - 1 else None)
    return outcomes


def clock_jumps(world: World, kind: str) -> Counter[str]:
    """Let a writer run with a clock that is wrong by years, among files from the future, or from long ago."""
    from datetime import datetime, timedelta

    import pysldl.persistence.saving as saving

    outcomes: Counter[str] = Counter()
    writer, usual = world.writers[kind], saving.datetime
    for days in (-20_000, -1, 1, 20_000):

        class Jumped(datetime):
            @classmethod
            def now(cls, tz: Any = None, days: int = days) -> datetime:
                return usual.now(tz) + timedelta(days=days)

        for is_before in (True, False):
            saving.datetime = usual if is_before else Jumped  # type: ignore[misc]
            writer.fresh()
            for path in world.folder.rglob("*"):
                os.utime(path, (time.time() + 86_400 * days,) * 2)
            saving.datetime = Jumped if is_before else usual  # type: ignore[misc]
            outcomes += checked(world, writer, forked(writer.act, None))
    saving.datetime = usual  # type: ignore[misc]
    return outcomes


def pairs(world: World, n_pairs: int) -> Counter[str]:
    """Two updates at once, each of other rows."""
    outcomes: Counter[str] = Counter()
    for _ in range(n_pairs):
        world.writers["update"].fresh()
        children = []
        for part in ("one", "two"):
            child = os.fork()
            if child == 0:
                devnull = os.open(os.devnull, os.O_RDWR)
                os.dup2(devnull, 1)
                os.dup2(devnull, 2)
                os._exit(world.update(part))
            children.append(child)
        done = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
        rows = load_model(world.path).n_samples_
        if rows == OLD_ROWS + NEW_ROWS * done.count(0) and set(done) <= {0, 2}:
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
    parser.add_argument("--kills", type=int, default=12, help="most at each kind of call of each writer (default 12)")
    parser.add_argument("--full", type=int, default=6, help="most failing calls of each kind (default 6)")
    parser.add_argument("--losses", type=int, default=10, help="most losses of power of each writer (default 10)")
    parser.add_argument("--pairs", type=int, default=10, help="pairs of updates (default 10)")
    parser.add_argument("--writers", nargs="*", help="only these; all by default")
    add_record_option(parser, "crash.csv")
    options = parser.parse_args()
    if shutil.which("strace") is None:
        raise SystemExit("strace is not installed: writers cannot be stopped at their system calls.")
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as name:
        rows = _tried(World(Path(name)), options)
    n_kills = sum(row["cases"] for row in rows if row["what"] == "killed" and row["outcome"] in ("old", "new"))
    print(f"{n_kills} kills in all")
    good = ("old", "new", "every row", "one refused")
    return int(any(row["cases"] and row["outcome"] not in good for row in rows))


def _tried(world: World, options: argparse.Namespace) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    kinds = options.writers or list(world.writers)
    for kind in kinds:  # imports everything before the first fork
        world.writers[kind].fresh()
        with Path(os.devnull).open("w") as nowhere, redirect_stdout(nowhere):
            world.writers[kind].act()
    for kind in kinds:
        found = faults(world, kind, CALLS, "signal=SIGKILL", options.kills)
        rows += _recorded(kind, "killed", found, options.record)
        found = faults(world, kind, WRITES, "error=ENOSPC", options.full)
        rows += _recorded(kind, "no space", found, options.record)
        if options.losses and kind != "save through a link":
            found = power_losses(world, kind, options.losses)
            rows += _recorded(kind, "power lost", found, options.record)
    for kind in {"save", "update", "vocabulary"} & set(kinds):
        rows += _recorded(kind, "clock jumped", clock_jumps(world, kind), options.record)
    if options.pairs:
        rows += _recorded("update", "two at once", pairs(world, options.pairs), options.record)
    return rows


if __name__ == "__main__":
    sys.exit(main())
