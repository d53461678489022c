"""Runs the suites that depend on numbers under several settings of the machine and compares their results.

Under every setting of benchmarks/machine_settings.py a process of its own runs the tests marked "numbers", and another
one the fits of fits.py. Settings of the same processor must give the same fitted arrays and predictions bit for bit.
Between processors, and without numba, the five best labels must be the same on at least 99.9 % of the test rows, and
the sure label relations and the printed metrics must be the same.
"""

import argparse
import re
import subprocess
import sys
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from time import perf_counter

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))

from fits import BASELINE_FITS, FITS
from number_tests import NUMBERS

from fingerprints import Agreement, Fingerprint, compare, read_fingerprint
from machine_settings import MachineSetting, choose_settings, environment, run_under
from pysldl.inspection.display import text_table

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "build" / "machines"
SAME_FIVE = 0.999
DIFFERENCES_SHOWN = 3


@dataclass(frozen=True)
class Outcome:
    """What one process came to: its setting, what it ran, whether it went well, and the last line it printed."""

    setting: MachineSetting
    what: str
    passed: bool
    summary: str
    seconds: float


def problems(fit: str, first: MachineSetting, second: MachineSetting, found: Agreement) -> list[str]:
    """What two settings had to agree on and did not, each a line that names the settings and the thing."""
    pair = f"{fit}: {first.name} and {second.name}"
    if first.processor == second.processor:
        return [f"{pair} differ in {_some(found.other_arrays)}"] if found.other_arrays else []
    if fit in BASELINE_FITS:
        return []  # of baselines only the independence of threads is promised
    lines = []
    if found.same_five is not None and found.same_five < SAME_FIVE:
        lines.append(f"{pair} have the same five best labels on {found.same_five:.2%} of the rows only")
    if found.other_relations:
        lines.append(f"{pair} differ in the relations {_some(found.other_relations)}")
    if found.other_metrics:
        lines.append(f"{pair} differ in the printed {_some(found.other_metrics)}")
    return lines


def cell(found: Agreement) -> str:
    """An agreement in a few characters: the strongest that holds."""
    if found.same_bits:
        return "bits"
    share = "-" if found.same_five is None else f"{found.same_five:.2%}"
    return share + ("" if not found.other_metrics else " m") + ("" if not found.other_relations else " r")


def compare_all(
    settings: Sequence[MachineSetting], results: Mapping[str, Mapping[str, Fingerprint]]
) -> tuple[list[list[str]], list[str]]:
    """A table of fits and settings, each compared with the first setting, and the lines of :func:`problems`."""
    table, lines = [["", *(setting.name for setting in settings[1:])]], []
    for fit in FITS:
        present = [setting for setting in settings if fit in results[setting.name]]
        missing = [setting.name for setting in settings if setting not in present]
        if not present:
            continue
        if missing:
            lines.append(f"{fit}: no result under {', '.join(missing)}")
        pairs = {
            (a.name, b.name): compare(results[a.name][fit], results[b.name][fit]) for a, b in combinations(present, 2)
        }
        for a, b in combinations(present, 2):
            lines += problems(fit, a, b, pairs[a.name, b.name])
        compared = [pairs.get((settings[0].name, setting.name)) for setting in settings[1:]]
        table.append([fit, *("" if found is None else cell(found) for found in compared)])
    return table, lines


def read_results(folder: Path) -> dict[str, Fingerprint]:
    """The fingerprints that a run of fits.py wrote, by the name of the fit."""
    paths = {name: folder / f"{number:02d}.json" for number, name in enumerate(FITS)}
    return {name: read_fingerprint(path) for name, path in paths.items() if path.exists()}


def run_one(setting: MachineSetting, what: str, fits: Iterable[str]) -> Outcome:
    """Run the tests or the fits under a setting; what they print is kept beside the fingerprints."""
    folder = FOLDER / setting.name
    folder.mkdir(parents=True, exist_ok=True)
    if what == "fits":
        for old in folder.glob("*.json"):
            old.unlink()
        command = [str(Path(__file__).with_name("fits.py")), str(folder), "--fits", *fits]
    else:
        # Without numba the modules that need it have no doctests to run.
        command = ["-m", "pytest", "-m", "numbers", "-q", "-p", "no:cacheprovider", "--doctest-ignore-import-errors"]
        command += NUMBERS
    log = folder / f"{what}.txt"
    start = perf_counter()
    with log.open("w", encoding="utf-8") as output:
        process = subprocess.run(
            [sys.executable, *command], cwd=ROOT, env=environment(setting), stdout=output, stderr=output, check=False
        )
    seconds = perf_counter() - start
    lines = [line for line in log.read_text(encoding="utf-8").splitlines() if line.strip()] or [""]
    summary = (
        f"{len(read_results(folder))} fits" if what == "fits" and not process.returncode else lines[-1].strip("= ")
    )
    return Outcome(setting, what, process.returncode == 0, re.sub(r" in [\d.:s() ]+$", "", summary), seconds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--settings", nargs="+", metavar="NAME", help="settings to run (default: all of this machine)")
    parser.add_argument("--fits", nargs="+", metavar="NAME", default=list(FITS), help="fits to compare (default: all)")
    parser.add_argument("--only", choices=("fits", "tests"), help="only the fits, or only the tests marked numbers")
    options = parser.parse_args()
    settings = choose_settings(options.settings)
    if unknown := set(options.fits) - set(FITS):
        parser.error(f"there is no fit {min(unknown)!r}; choose from {', '.join(FITS)}.")

    # `make test` runs the tests under the plain setting. The old processor compiles anew, so it starts first.
    whats = (options.only,) if options.only else ("fits", "tests")
    order = sorted(settings, key=lambda setting: "NUMBA_CPU_NAME" not in setting.variables)
    jobs = [(setting, what) for what in whats for setting in order if (what, setting.name) != ("tests", "default")]
    outcomes: list[Outcome] = []
    lock = threading.Lock()

    def run(setting: MachineSetting, what: str) -> None:
        outcome = run_one(setting, what, options.fits)
        with lock:
            outcomes.append(outcome)
            state = "passed" if outcome.passed else "FAILED"
            print(f"{setting.name:15s} {what:5s} {state}  {outcome.summary}  {outcome.seconds:.0f} s", flush=True)

    run_under(jobs, run)
    failures = [
        f"{outcome.setting.name}: the {outcome.what} failed, see {FOLDER / outcome.setting.name / outcome.what}.txt"
        for outcome in outcomes
        if not outcome.passed
    ]
    if "fits" in whats and len(settings) > 1:
        table, different = compare_all(settings, {s.name: read_results(FOLDER / s.name) for s in settings})
        failures += different
        print(
            f"\nAgreement with {settings[0].name}: the same bits, or the share of test rows with the same five labels"
        )
        print("(m: other printed metrics, r: other label relations)\n")
        print(text_table(table[0], table[1:]))
    if failures:
        print("\n" + "\n".join(failures))
        raise SystemExit(f"{len(failures)} failures")
    print("\nEverything agrees.")


def _some(names: Sequence[str]) -> str:
    more = len(names) - DIFFERENCES_SHOWN
    return ", ".join(names[:DIFFERENCES_SHOWN]) + (f" and {more} more" if more > 0 else "")


if __name__ == "__main__":
    main()
