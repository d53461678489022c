"""What the benchmarks run on."""

import argparse
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from sklearn.preprocessing import normalize

from pysldl.datasets import Dataset, load_dataset, read_dataset
from pysldl.experiments.run.protocol import Protocol
from pysldl.experiments.run.runner import Source

__all__ = ["add_data_options", "open_as_in_experiments", "open_dataset", "text_features", "training_and_test_rows"]


def add_data_options(parser: argparse.ArgumentParser) -> None:
    """The option that says where the data sets are."""
    parser.add_argument("--data-dir", help="folder of the data sets (default: the environment variable PYSLDL_DATA)")


def open_dataset(name: str, data_dir: str | None) -> Dataset:
    """A data set of the catalog, or of a file."""
    return read_dataset(name) if Path(name).is_file() else load_dataset(name, data_dir)


def open_as_in_experiments(name: str, data_dir: str | None) -> Dataset:
    """A data set with the features that `sldl reproduce` gives to methods: term counts as tf-idf, others unchanged."""
    return Source(name, Path(data_dir) if data_dir else None).load()


def text_features(dataset: Dataset) -> Dataset:
    """Term counts as tf-idf; other features as they are; every row of length 1."""
    return dataset.tfidf() if dataset.idf is not None else replace(dataset, X=normalize(dataset.X))


def training_and_test_rows(dataset: Dataset, fold: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """One fold of the ten-fold split of the experiments (shuffled, seed 0)."""
    fold_of_row = Protocol().fold_of_rows(dataset)
    return np.flatnonzero(fold_of_row != fold), np.flatnonzero(fold_of_row == fold)
