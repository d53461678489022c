"""Does a request get lost when `sldl update` replaces a served model? Updates under load, every answer checked.

A copy of the model is served and asked without pause, always the same row, while `sldl update` adds rows to it again
and again. No request may fail, and each version must give one answer only: else an answer would have mixed two.
"""

import argparse
import asyncio
import json
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from data import add_data_options, open_dataset
from pysldl.datasets import Dataset
from pysldl.datasets.npz import write_npz
from records import add_record_option
from serve_load import read_answer, record_measurement, requests_of, service


def ask(port: int, request: bytes, done: threading.Event, seen: list[tuple[str, str]], failures: list[int]) -> None:
    """Ask until told to stop; notes the version and the predictions of every answer."""

    async def client() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        while not done.is_set():
            writer.write(request)
            status, body = await read_answer(reader)
            if status == 200:
                document = json.loads(body)
                seen.append((document["version"], json.dumps(document["predictions"])))
            else:
                failures.append(status)
        writer.close()

    try:
        asyncio.run(client())
    except (OSError, asyncio.IncompleteReadError):
        failures.append(0)


def updates(data: Dataset, n_rows: int, times: int, folder: Path) -> Iterator[Path]:
    """Files with a few rows each, one after the other, from the beginning again behind the last row."""
    for number in range(times):
        rows = [row % data.n_samples for row in range(number * n_rows, (number + 1) * n_rows)]
        path = folder / f"update-{number}.npz"
        write_npz(data.subset(rows), path)
        yield path


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=Path, help="model folder that sldl fit --set online=true wrote")
    parser.add_argument("dataset", help="data set whose first row is asked, such as stackex-chess")
    parser.add_argument("update", nargs="?", help="data set whose rows are added; that which is asked by default")
    parser.add_argument("--rows", type=int, default=100, help="rows that each update adds")
    parser.add_argument("--times", type=int, default=20)
    parser.add_argument("--clients", type=int, default=4)
    add_record_option(parser, "serving.csv")
    add_data_options(parser)
    options = parser.parse_args()
    data = open_dataset(options.dataset, options.data_dir)
    added = data if options.update is None else open_dataset(options.update, options.data_dir)

    seen: list[tuple[str, str]] = []
    failures: list[int] = []
    with tempfile.TemporaryDirectory() as scratch:
        copy = Path(shutil.copytree(options.model, Path(scratch, "model")))
        request = requests_of(copy, data, 1, 10)[0]
        with service(copy, 2, request) as (port, _, _):
            done = threading.Event()
            clients = [
                threading.Thread(target=ask, args=(port, request, done, seen, failures)) for _ in range(options.clients)
            ]
            for client in clients:
                client.start()
            for number, rows in enumerate(updates(added, options.rows, options.times, Path(scratch)), start=1):
                started = time.perf_counter()
                command = [sys.executable, "-m", "pysldl.cli", "update", str(copy), str(rows), "--json"]
                subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
                taken = time.perf_counter() - started
                time.sleep(1.5)  # until both workers have looked at the folder
                versions = len({version for version, _ in seen})
                print(
                    f"update {number} of {options.times} in {taken:.1f} s; so far {len(seen)} answers of "
                    f"{versions} versions, {len(failures)} failures",
                    file=sys.stderr,
                    flush=True,
                )
            done.set()
            for client in clients:
                client.join()
    versions = len({version for version, _ in seen})
    mixed = len(set(seen)) - versions
    print(f"{len(seen)} answers of {versions} versions, {len(failures)} failures, {mixed} versions with two answers")
    if options.record:
        figures = {
            "updates": options.times,
            "rows_each": options.rows,
            "clients": options.clients,
            "answers": len(seen),
            "versions": versions,
            "failures": len(failures),
            "mixed_versions": mixed,
        }
        record_measurement(options.record, "reload", options.dataset, figures)
    return 0 if not failures and not mixed and versions == options.times + 1 else 1


if __name__ == "__main__":
    sys.exit(main())
