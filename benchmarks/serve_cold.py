"""How long from the command `sldl serve` to the first answer? Beside it, what a bare interpreter takes to load SciPy.

Both are started again and again in turn, so that a busy machine slows them alike and their ratio says the same there.
Bytecode is kept, as that of an installed package is: it is written by a first start that does not count. Files are in
the memory of the system from then on.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from statistics import median

from data import add_data_options, open_dataset
from records import add_record_option
from serve_load import record_measurement, requests_of, service

BARE = {
    "import numpy, scipy.sparse": "numpy and scipy.sparse",
    "import sklearn.base": "the base classes of scikit-learn, which answering does without",
}


def bare_seconds(statement: str) -> float:
    started = time.perf_counter()
    subprocess.run([sys.executable, "-c", statement], check=True)
    return time.perf_counter() - started


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=Path, help="model folder that sldl fit wrote")
    parser.add_argument("dataset", help="data set whose first row is asked, such as eurlex57k")
    parser.add_argument("--times", type=int, default=7)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--json", action="store_true")
    add_record_option(parser, "serving.csv")
    add_data_options(parser)
    options = parser.parse_args()
    request = requests_of(options.model, open_dataset(options.dataset, options.data_dir), 1, 5)[0]

    cold: list[float] = []
    bare: dict[str, list[float]] = {statement: [] for statement in BARE}
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    with service(options.model, options.workers, request):
        pass
    for _ in range(options.times):
        with service(options.model, options.workers, request) as (_, _, seconds):
            cold.append(seconds)
        for statement, taken in bare.items():
            taken.append(bare_seconds(statement))
    result = {
        "model": str(options.model),
        "workers": options.workers,
        "cold_start_s": {"median": median(cold), "min": min(cold), "max": max(cold)},
        "bare_s": {statement: median(taken) for statement, taken in bare.items()},
        "ratio": {statement: median(cold) / median(taken) for statement, taken in bare.items()},
    }
    if options.record:
        scipy, sklearn = (median(taken) for taken in bare.values())
        figures = {"starts": len(cold), "median_s": median(cold), "min_s": min(cold), "max_s": max(cold)}
        record_measurement(
            options.record, "cold start", options.dataset, figures | {"scipy_s": scipy, "sklearn_s": sklearn}
        )
    if options.json:
        print(json.dumps(result, indent=2))
        return 0
    span = f"{min(cold):.2f}-{max(cold):.2f}"
    print(f"from the command to the first answer: {median(cold):.2f} s (of {len(cold)}: {span})")
    for statement, what in BARE.items():
        taken, ratio = median(bare[statement]), result["ratio"][statement]
        print(f"  {ratio:.1f} x a bare interpreter that loads {what}: {taken:.2f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
