"""Accuracy of the peers and of this library over the ten folds of the small sets, which one fold alone hardly tells.

    python benchmarks/peers/folds.py --data-dir DATA --record

Everything is as in compare.py, but for times, which are not recorded. What has its result is not run again.
"""

import argparse
import sys
from pathlib import Path

from compare import METRICS, PEERS, Comparison

from data import add_data_options
from records import add_record_option, write_rows

DATASETS = (
    *("cal500", "corel16k-s1", "corel16k-s2", "corel16k-s3", "delicious", "espgame-densehue", "stackex-chemistry"),
    *("stackex-chess", "stackex-coffee", "stackex-cooking", "stackex-cs", "stackex-philosophy"),
)
OURS = "accurate"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--datasets", nargs="+", default=list(DATASETS), help="names or files")
    parser.add_argument("--folds", type=int, nargs="+", default=list(range(10)))
    parser.add_argument("--threads", type=int, default=2, help="of each system (default 2)")
    parser.add_argument("--out", type=Path, default=Path("build/benchmarks/folds"), help="folder of the results")
    add_record_option(parser, "peer_folds.csv")
    add_data_options(parser)
    options = parser.parse_args()
    for dataset in options.datasets:
        for fold in options.folds:
            comparison = Comparison(dataset, options.data_dir, options.out / f"fold-{fold}", fold=fold)
            for system in (*PEERS, OURS):
                print(f"{comparison.name}, fold {fold}: {system}", file=sys.stderr, flush=True)
                result = comparison.measure(system, 0, options.threads)
                row = {"dataset": comparison.name, "system": system, "fold": fold, "error": result.get("error")}
                row |= {name: 100 * result["metrics"][name] if "metrics" in result else None for name in METRICS}
                if options.record:
                    write_rows(options.record, [row], ("dataset", "system", "fold"))


if __name__ == "__main__":
    main()
