"""Do the trained Gaussians have the same bits here as elsewhere? Prints their digests, on the CPU and on a GPU.

    python benchmarks/embedding_digests.py --device cpu cuda --record

The Gaussians of the paper's preset, width 128 and 1,000 steps, of the training labels of fold 0. Two machines agree
where the digests do.
"""

import argparse
import hashlib
from typing import Any

from data import add_data_options, open_as_in_experiments, training_and_test_rows
from gpu import device_name
from pysldl.backend.dispatch import use_device
from pysldl.datasets import Dataset
from pysldl.embedding import GaussianLabelEmbedding
from records import add_record_option, environment, write_rows

DATASETS = ("stackex-chess",)
N_STEPS = 1000


def measure(dataset: Dataset, device: str) -> dict[str, Any]:
    """Fit on a device; the digests of means and log-variances."""
    train, _ = training_and_test_rows(dataset, 0)
    with use_device(device):
        embedding = GaussianLabelEmbedding(n_steps=N_STEPS, random_state=0).fit(dataset.Y[train])
    return {
        "dataset": dataset.name,
        "place": environment()["processor"] if device == "cpu" else device_name(device),
        "n_steps": N_STEPS,
        "means": hashlib.md5(embedding.components_.tobytes()).hexdigest()[:8],
        "log_variances": hashlib.md5(embedding.log_variances_.tobytes()).hexdigest()[:8],
        "loss": round(embedding.losses_[-1], 9),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("datasets", nargs="*", default=list(DATASETS))
    parser.add_argument("--device", nargs="+", default=["cpu"])
    add_record_option(parser, "embedding_digests.csv")
    add_data_options(parser)
    options = parser.parse_args()
    for name in options.datasets:
        dataset = open_as_in_experiments(name, options.data_dir)
        for device in options.device:
            row = measure(dataset, device)
            print(*row.values(), sep="  ")
            if options.record is not None:
                write_rows(options.record, [row], ("dataset", "place"))


if __name__ == "__main__":
    main()
