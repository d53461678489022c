"""Do presets give the same answers on every machine? Each is fitted under several settings of threads and processor.

Every pair of settings is compared: the share of test rows with the same five best labels, whether all fitted arrays
and predicted scores are the same bit for bit, and whether the sure label relations and the printed metrics are.
The settings are those of `make test-machines`. Test rows are fold 0 of ten, or the standard split where there is one.

Finished fits are kept in build/agreement/ and not repeated while the sources are the same. With all presets, sets and
settings it takes some ten minutes on two cores; --presets, --datasets and --settings take a part.
"""

import argparse
import hashlib
import json
import subprocess
import sys
import threading
import warnings
from collections.abc import Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

from data import add_data_options, open_dataset, text_features, training_and_test_rows
from fingerprints import Agreement, Fingerprint, compare, fingerprint, read_fingerprint, write_fingerprint
from machine_settings import MachineSetting, choose_settings, environment, run_under
from pysldl.inspection.display import text_table
from records import add_record_option, write_rows

ROOT = Path(__file__).resolve().parent.parent
KEPT = ROOT / "build" / "agreement"
DATASETS = ("cal500", "corel16k-s1", "stackex-chess", "stackex-philosophy", "stackex-chemistry", "stackex-cs")
PRESETS = ("paper", "official", "blend", "fast", "accurate")
KEY = ("preset", "dataset", "setting", "other_setting")


def fit_presets(options: Mapping[str, Any]) -> None:
    """In a process of its own: fit the presets on a data set, and write the fingerprint of each."""
    from sklearn.exceptions import ConvergenceWarning

    from pysldl import make_sldl
    from pysldl.exceptions import SLDLWarning

    warnings.simplefilter("ignore", SLDLWarning)
    warnings.simplefilter("ignore", ConvergenceWarning)
    dataset = open_dataset(options["dataset"], options["data_dir"])
    if {"train", "test"} <= dataset.splits.keys():
        dataset = text_features(dataset)
        train, test = dataset.splits["train"], dataset.splits["test"]
    else:
        train, test = training_and_test_rows(dataset, 0)
    for preset, path in options["paths"].items():
        model = make_sldl(preset).fit(dataset.X[train], dataset.Y[train])
        write_fingerprint(Path(path), fingerprint(model, dataset.X[test], dataset.Y[test], dataset.Y[train]))


def agreements(
    found: Mapping[tuple[str, str, str], Fingerprint], settings: Sequence[MachineSetting]
) -> dict[tuple[str, str, str, str], Agreement]:
    """Agreement of every pair of settings, by preset, data set and the two settings."""
    compared = {}
    for preset, dataset in dict.fromkeys((preset, dataset) for preset, dataset, _ in found):
        names = [setting.name for setting in settings if (preset, dataset, setting.name) in found]
        for a, b in combinations(names, 2):
            pair = (found[preset, dataset, name] for name in (a, b))
            compared[preset, dataset, a, b] = compare(*pair)
    return compared


def as_rows(
    compared: Mapping[tuple[str, str, str, str], Agreement], found: Mapping[tuple[str, str, str], Fingerprint]
) -> list[dict[str, Any]]:
    """One row for each preset, data set and pair of settings."""
    rows = []
    for (preset, dataset, a, b), agreement in compared.items():
        relations = agreement.other_relations
        rows.append(
            {
                **dict(zip(KEY, (preset, dataset, a, b), strict=True)),
                "n_test_rows": len(found[preset, dataset, a].top or ()),
                "same_five": agreement.same_five,
                "same_order": agreement.same_order,
                "same_bits": agreement.same_bits,
                "same_relations": None if relations is None else not relations,
                "same_printed_metrics": not agreement.other_metrics,
            }
        )
    return rows


def as_table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Presets and data sets down, pairs of settings across."""
    pairs = list(dict.fromkeys((row["setting"], row["other_setting"]) for row in rows))
    cells = {(row["preset"], row["dataset"], row["setting"], row["other_setting"]): _cell(row) for row in rows}
    fits = dict.fromkeys((row["preset"], row["dataset"]) for row in rows)
    lines = [[*fit, *(cells.get((*fit, *pair), "") for pair in pairs)] for fit in fits]
    return text_table(["preset", "data set", *(f"{a} / {b}" for a, b in pairs)], lines)


def _cell(row: Mapping[str, Any]) -> str:
    marks = (" r" if row["same_relations"] is False else "") + ("" if row["same_printed_metrics"] else " m")
    return ("bits" if row["same_bits"] else f"{row['same_five']:.2%}") + marks


def sources_digest() -> str:
    """Tells whether kept fits are of the present sources."""
    digest = hashlib.sha256()
    for path in sorted((ROOT / "src").rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def main() -> None:
    if sys.argv[1:2] == ["--worker"]:
        fit_presets(json.loads(sys.argv[2]))
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--presets", nargs="+", choices=PRESETS, default=PRESETS)
    parser.add_argument("--datasets", nargs="+", default=DATASETS, metavar="SET", help=f"default: {' '.join(DATASETS)}")
    parser.add_argument("--settings", nargs="+", metavar="NAME", help="default: all that this machine can stand for")
    parser.add_argument("--json", action="store_true", help="print rows as JSON instead of a table")
    add_record_option(parser, "agreement.csv")
    add_data_options(parser)
    options = parser.parse_args()
    settings = choose_settings(options.settings)
    if len(settings) < 2:
        parser.error("--settings needs at least two.")

    kept = KEPT / sources_digest()
    kept.mkdir(parents=True, exist_ok=True)
    paths = {
        (preset, dataset, setting.name): kept / f"{setting.name}+{Path(dataset).name}+{preset}.json"
        for setting in settings
        for dataset in options.datasets
        for preset in options.presets
    }
    jobs = []
    for setting in settings:
        for dataset in options.datasets:
            missing = {p: path for p in options.presets if not (path := paths[p, dataset, setting.name]).exists()}
            if missing:
                jobs.append((setting, (dataset, missing)))
    lock, failures, finished = threading.Lock(), [], 0

    def run(setting: MachineSetting, job: tuple[str, dict[str, Path]]) -> None:
        nonlocal finished
        dataset, missing = job
        words = {"dataset": dataset, "data_dir": options.data_dir, "paths": {p: str(f) for p, f in missing.items()}}
        process = subprocess.run(
            [sys.executable, __file__, "--worker", json.dumps(words)],
            env=environment(setting),
            capture_output=True,
            text=True,
            check=False,
        )
        with lock:
            finished += 1
            state = ", ".join(missing)
            if process.returncode:
                reason = (process.stderr.strip().splitlines() or ["no message"])[-1]
                failures.append(f"{setting.name}, {dataset}: {reason}")
                state = f"failed: {reason}"
            print(f"[{finished}/{len(jobs)}] {setting.name}, {dataset}: {state}", file=sys.stderr, flush=True)

    run_under(jobs, run)
    found = {key: read_fingerprint(path) for key, path in paths.items() if path.exists()}
    rows = as_rows(agreements(found, settings), found)
    if options.record and rows:
        write_rows(options.record, rows, KEY)
    if options.json:
        print(json.dumps(rows, indent=1))
    else:
        print("Share of test rows with the same five best labels; bits: every fitted array and score is the same.")
        print("r: other label relations, m: other printed metrics.\n")
        print(as_table(rows))
    if failures:
        raise SystemExit("\n".join(["", *failures]))


if __name__ == "__main__":
    main()
