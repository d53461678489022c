"""Tests whose outcome depends on arithmetic: what `make test-machines` repeats under other settings of the machine."""

__all__ = ["NUMBERS"]

NUMBERS = (
    "src/pysldl",
    "tests/backend",
    "tests/contracts/test_backends.py",
    "tests/contracts/test_decoder_contract.py",
    "tests/contracts/test_embedding_contract.py",
    "tests/contracts/test_index_contract.py",
    "tests/contracts/test_mapping_contract.py",
    "tests/contracts/test_ranker_contract.py",
    "tests/decoding",
    "tests/embedding",
    "tests/mapping",
    "tests/neighbors",
    "tests/preprocessing/test_feature_scaling.py",
    "tests/ranking",
    "tests/metrics",
    "tests/baselines/test_controls.py",
    "tests/persistence/test_golden.py",
    "tests/estimator/test_classifier.py",
    "tests/inspection/test_relations.py",
)
"""Files and folders, from the root of the repository; of the package its doctests."""
