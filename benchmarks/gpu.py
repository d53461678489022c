"""What a GPU buys: accuracy, training and prediction time of whole pipelines on one device.

    python benchmarks/gpu.py --device cuda --data-dir DATA eurlex57k tibkat

Each pipeline is fitted on the training rows of the standard split and ranks five labels for every test row. The first
fit, on 4,000 rows, is not timed: it compiles kernels or starts the device. One JSON object a line.
"""

import argparse
import json
import time
import warnings
from typing import Any

import numpy as np

from data import open_dataset, text_features
from measuring import Clock
from pysldl import SLDLClassifier, make_sldl
from pysldl.decoding import FeatureNeighborDecoder, JointNeighborDecoder, NeighborDecoder
from pysldl.embedding import GaussianLabelEmbedding, RandomLabelEmbedding
from pysldl.exceptions import SLDLWarning
from pysldl.mapping import RidgeMapping
from pysldl.metrics import evaluate, inverse_propensity
from pysldl.ranking import LinearRanker
from records import add_record_option, write_rows
from stages import stages_watched

METRICS = ("P@1", "P@3", "P@5", "nDCG@5", "PSP@1", "PSP@5")


def pipelines(device: str) -> dict[str, SLDLClassifier]:
    """The classifiers by name."""

    def mapping() -> RidgeMapping:
        return RidgeMapping(early_stopping=True)

    return {
        "accurate": make_sldl("accurate", device=device, random_state=0),
        "features + ranker": SLDLClassifier(
            decoder=FeatureNeighborDecoder(50), ranker=LinearRanker(75), device=device, random_state=0
        ),
        "features + weighted ranker": SLDLClassifier(
            decoder=FeatureNeighborDecoder(50),
            ranker=LinearRanker(75, propensity=(0.55, 1.5)),
            device=device,
            random_state=0,
        ),
        "latent + ranker": SLDLClassifier(
            RandomLabelEmbedding(128), mapping(), NeighborDecoder(30), LinearRanker(50), device=device, random_state=0
        ),
        "joint + ranker": SLDLClassifier(
            RandomLabelEmbedding(128),
            mapping(),
            JointNeighborDecoder(50),
            LinearRanker(75),
            device=device,
            random_state=0,
        ),
        "latent": SLDLClassifier(
            RandomLabelEmbedding(128), mapping(), NeighborDecoder(10), device=device, random_state=0
        ),
        "trained Gaussians": SLDLClassifier(
            GaussianLabelEmbedding(128, cooccurrence="count", graph="dense"),
            mapping(),
            NeighborDecoder(10),
            device=device,
            random_state=0,
        ),
    }


def device_name(device: str) -> str:
    """The name of the GPU, or of the device as it was given."""
    if not device.startswith("cuda"):
        return device
    import torch

    return torch.cuda.get_device_name(device)


def measure(name: str, data: Any, pipeline: str, options: argparse.Namespace) -> dict[str, Any]:
    """Fit and predict once."""
    train, test = data.split("train"), data.split("test")
    test_X, test_Y = (test.X, test.Y) if options.rows is None else (test.X[: options.rows], test.Y[: options.rows])
    few = slice(0, 4000)
    classifier = pipelines(options.device)[pipeline]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SLDLWarning)  # 4,000 rows do not have every label
        pipelines(options.device)[pipeline].fit(train.X[few], train.Y[few]).predict_topk(test_X[few], 5)
    if options.rows is not None:
        chosen = np.sort(np.random.RandomState(0).permutation(train.X.shape[0])[: options.rows])
        train_X, train_Y = train.X[chosen], train.Y[chosen]
    else:
        train_X, train_Y = train.X, train.Y
    clock = Clock()
    with warnings.catch_warnings(), stages_watched(clock, classifier):
        warnings.simplefilter("ignore", SLDLWarning)
        with clock("train"):
            classifier.fit(train_X, train_Y)
        with clock("predict"):
            labels, _ = classifier.predict_topk(test_X, 5)
    told = evaluate(test_Y, labels, inv_propensity=inverse_propensity(train_Y), ks=(1, 3, 5))
    return {
        "data": name,
        "pipeline": pipeline,
        "device": options.device,
        **{metric: round(100 * float(told[metric]), 2) for metric in METRICS},
        "train_s": round(clock.seconds("train"), 2),
        "predict_s": round(clock.seconds("predict"), 2),
        "stages": {path: round(spent.seconds, 2) for path, spent in clock.spent.items()},
    }


def main() -> None:
    """Measure what was asked for, one line each."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("datasets", nargs="*", default=["eurlex57k", "tibkat"])
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--data-dir", help="folder of the data sets (default: the environment variable PYSLDL_DATA)")
    parser.add_argument("--only", nargs="*", help="names of pipelines")
    parser.add_argument("--rows", type=int, help="a quick look on fewer training and test rows")
    parser.add_argument("--torch-on-cpu", action="store_true", help="the code of the GPU, run by torch on the CPU")
    add_record_option(parser, "gpu.csv")
    options = parser.parse_args()
    if options.torch_on_cpu:
        import torch

        import pysldl.backend.dispatch

        pysldl.backend.dispatch.find_device = lambda name: torch.device("cpu")
    started = time.perf_counter()
    for name in options.datasets:
        data = text_features(open_dataset(name, options.data_dir))
        for pipeline in options.only or pipelines(options.device):
            if pipeline == "trained Gaussians" and name == "tibkat":
                continue  # 35,613 labels squared: the dense path is not for that
            result = measure(name, data, pipeline, options)
            if options.record:
                row = {"device_name": device_name(options.device), "rows": options.rows, **result}
                write_rows(options.record, [row], ("data", "pipeline", "device_name", "rows"))
            print(json.dumps(result), f"# {time.perf_counter() - started:.0f} s so far", flush=True)


if __name__ == "__main__":
    main()
