"""A small data set on disk, a small grid, and methods that misbehave: what the tests of the runner run on."""

import os
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np

from pysldl import make_sldl
from pysldl.cli.reproduce import ExperimentOptions, ReportOptions
from pysldl.cli.reproduce import reproduce as command
from pysldl.datasets import Dataset, make_asymmetric_multilabel, write_npz
from pysldl.experiments.run.methods import Method
from pysldl.experiments.run.protocol import Protocol
from pysldl.experiments.run.run_folder import Run
from pysldl.experiments.run.runner import RunStep, Source, run_experiment

SMALL = Protocol(n_folds=3, c_hats=(4, 8), n_steps=(10, 30), ks=(3, 7), validation_rows=7)


def small_dataset(name: str = "small", n_samples: int = 90, seed: int = 0) -> Dataset:
    made = make_asymmetric_multilabel(n_samples, 60, 30, random_state=seed)
    return Dataset(name, made.X, made.Y, made.label_names)


def small_file(folder: Path, name: str = "small", **changes: Any) -> str:
    """Write the data set to a file and return its path, which is a name that experiments take."""
    path = folder / f"{name}.npz"
    write_npz(small_dataset(name, **changes), path)
    return str(path)


def quick_sldl() -> Any:
    return make_sldl("paper", embedding__margin=0.2)


def other_sldl() -> Any:
    return make_sldl("paper", embedding__margin=0.3)


class Last:
    """Ends its process in the middle of a fold."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        return {}

    def set_params(self, **_: Any) -> "Last":
        return self

    def fit(self, X: Any, Y: Any) -> "Last":
        os._exit(7)


class Unable(Last):
    """Cannot be fitted."""

    def fit(self, X: Any, Y: Any) -> "Last":
        raise ValueError("no convergence on these rows")


class Constant(Last):
    """Predicts the first five labels, always."""

    def fit(self, X: Any, Y: Any) -> "Last":
        return self

    def predict_topk(self, X: Any, k: int) -> tuple[Any, Any]:
        return np.tile(np.arange(k), (X.shape[0], 1)), np.ones((X.shape[0], k))


def not_installed() -> Any:
    raise ImportError("this method needs something that is not here")


QUICK = Method("quick", "SLDL", quick_sldl)
CONSTANT = Method("constant", "constant", Constant)
UNABLE = Method("unable", "unable", Unable)
LAST = Method("last", "last", Last)
NOT_INSTALLED = Method("absent", "absent", not_installed)


def run_small(
    source: Source,
    out: Path,
    methods: Sequence[Method] = (QUICK, CONSTANT),
    protocol: Protocol = SMALL,
    **options: Any,
) -> tuple[Run, list[RunStep]]:
    """A finished run on the small data set, and its steps."""
    steps: list[RunStep] = []
    finished = run_experiment(methods, [source], protocol, out, on_step=steps.append, **options)
    return finished, steps


def numbers(finished: Run) -> list[Any]:
    """What of the records must not depend on when and where they were made."""
    records = finished.folder.records("small")
    return [(r.method, r.fold, r.parameters, r.test, r.validation, r.terms) for r in records]


def reproduce(*, out: Path, **options: Any) -> int:
    """`sldl reproduce` with options by name."""
    shown = {field.name for field in fields(ReportOptions)}
    experiment = ExperimentOptions(**{name: value for name, value in options.items() if name not in shown})
    report = ReportOptions(**{name: value for name, value in options.items() if name in shown})
    return command(out=out, experiment=experiment, report=report)
