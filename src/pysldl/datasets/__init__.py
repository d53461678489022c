"""Data sets: where they come from, what they look like, and a synthetic one."""

from pysldl.datasets.dataset import Dataset
from pysldl.datasets.npz import read_npz, write_npz
from pysldl.datasets.synthetic import SyntheticDataset, make_asymmetric_multilabel

__all__ = ["Dataset", "SyntheticDataset", "make_asymmetric_multilabel", "read_npz", "write_npz"]
