"""Data sets: one reader per file format, a catalog, stratified folds and splits, and synthetic data."""

from pysldl.datasets.annif_corpus import read_annif
from pysldl.datasets.arff import read_arff
from pysldl.datasets.catalog import (
    CATALOG,
    DatasetInfo,
    dataset_info,
    find_dataset,
    list_datasets,
    load_dataset,
)
from pysldl.datasets.dataset import Dataset
from pysldl.datasets.npz import read_npz, write_npz
from pysldl.datasets.parquet import read_parquet, write_parquet
from pysldl.datasets.readers import read_dataset
from pysldl.datasets.splits import stratified_folds, stratified_split
from pysldl.datasets.svmlight import read_svmlight
from pysldl.datasets.synthetic import SyntheticDataset, make_asymmetric_multilabel
from pysldl.datasets.text import read_csv, read_jsonl, write_csv, write_jsonl
from pysldl.datasets.vocabularies import read_vocabulary
from pysldl.datasets.xc import read_xc, write_xc
from pysldl.preprocessing.vocabulary import Concept, Vocabulary

__all__ = [
    "CATALOG",
    "Concept",
    "Dataset",
    "DatasetInfo",
    "SyntheticDataset",
    "Vocabulary",
    "dataset_info",
    "find_dataset",
    "list_datasets",
    "load_dataset",
    "make_asymmetric_multilabel",
    "read_annif",
    "read_arff",
    "read_csv",
    "read_dataset",
    "read_jsonl",
    "read_npz",
    "read_parquet",
    "read_svmlight",
    "read_vocabulary",
    "read_xc",
    "stratified_folds",
    "stratified_split",
    "write_csv",
    "write_jsonl",
    "write_npz",
    "write_parquet",
    "write_xc",
]
