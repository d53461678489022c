"""What the benchmarks run on."""

import argparse
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from sklearn.preprocessing import normalize

from pysldl.datasets import Dataset, load_dataset, read_dataset
from pysldl.datasets.catalog import DATA_VARIABLE
from pysldl.experiments.run.protocol import Protocol
from pysldl.experiments.run.runner import Source

__all__ = [
    "add_data_options",
    "open_as_in_experiments",
    "open_dataset",
    "text_features",
    "training_and_test_rows",
    "with_test_rows",
]


def add_data_options(parser: argparse.ArgumentParser) -> None:
    """The option that says where the data sets are."""
    parser.add_argument("--data-dir", help="folder of the data sets (default: the environment variable PYSLDL_DATA)")


def open_dataset(name: str, data_dir: str | None) -> Dataset:
    """A data set of the catalog, or of a file, by its path or by its name in the folder of the data sets."""
    folder = data_dir or os.environ.get(DATA_VARIABLE)
    paths = [Path(name), *(Path(folder, f"{name}{suffix}") for suffix in (".npz", ".jsonl.gz") if folder)]
    found = next((path for path in paths if path.is_file()), None)
    return load_dataset(name, data_dir) if found is None else read_dataset(found)


def with_test_rows(dataset: Dataset, fold: int = 0) -> Dataset:
    """The data set itself where it is split into train and test rows, else split by one fold of the ten-fold rule."""
    if {"train", "test"} <= set(dataset.splits):
        return dataset
    train, test = training_and_test_rows(dataset, fold)
    return replace(dataset, splits={"train": train, "test": test})


def open_as_in_experiments(name: str, data_dir: str | None) -> Dataset:
    """A data set with the features that `sldl reproduce` gives to methods: term counts as tf-idf, others unchanged."""
    return Source(name, Path(data_dir) if data_dir else None).load()


def text_features(dataset: Dataset) -> Dataset:
    """Texts and term counts as tf-idf; other features as they are; every row of length 1."""
    if dataset.X is None:
        return dataset.vectorize()
    return dataset.tfidf() if dataset.idf is not None else replace(dataset, X=normalize(dataset.X))


def training_and_test_rows(dataset: Dataset, fold: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """One fold of the ten-fold split of the experiments (shuffled, seed 0)."""
    fold_of_row = Protocol().fold_of_rows(dataset)
    return np.flatnonzero(fold_of_row != fold), np.flatnonzero(fold_of_row == fold)
