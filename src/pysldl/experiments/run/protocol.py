"""The experiment's protocol: which rows are trained and tested on, and which configurations are tried."""

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.model_selection import KFold

from pysldl.datasets import Dataset
from pysldl.datasets.splits import stratified_folds
from pysldl.exceptions import DataError

PAPER_C_HATS = tuple(range(16, 129, 16))
PAPER_KS = tuple(range(10, 101, 10))
N_STEPS = (100, 300, 1000)


@dataclass(frozen=True, slots=True)
class Fold:
    """Row numbers of one fold."""

    number: int
    train: NDArray[np.intp]
    test: NDArray[np.intp]
    # Pairs of inner and validation rows, together ``train``; no two validation parts share a row.
    trials: tuple[tuple[NDArray[np.intp], NDArray[np.intp]], ...]


@dataclass(frozen=True)
class Protocol:
    """Cross-validation over a grid of c_hat, number of descent steps, and k; a method ignores what it does not have.

    One validation part is too few rows to choose by: further ones follow, each time learning from all other training
    rows, until they hold ``validation_rows`` together or no rows are left.
    """

    n_folds: int = 10
    seed: int = 0  # of the folds, of the validation parts and of the methods
    stratified: bool = False  # keep the share of every label in every fold, instead of drawing rows at random
    c_hats: tuple[int, ...] = PAPER_C_HATS  # widths of the latent space
    n_steps: tuple[int, ...] = N_STEPS  # of the descent that places the labels: few steps regularize
    ks: tuple[int, ...] = PAPER_KS  # neighbors
    validation: float = 0.1  # part of the training rows of a fold on which nested selection compares configurations
    validation_rows: int = 2000

    def __post_init__(self) -> None:
        if self.n_folds < 2:
            raise DataError(f"cross-validation needs at least 2 folds, but folds is {self.n_folds}.")
        if not 0 <= self.seed < 2**32:
            raise DataError(f"seed must lie between 0 and 2**32 - 1, but is {self.seed}.")
        if not 0 < self.validation < 1:
            raise DataError(f"validation must lie between 0 and 1, but is {self.validation}.")
        if self.validation_rows < 1:
            raise DataError(f"the number of validation rows must be at least 1, but is {self.validation_rows}.")
        for name, values in (("c_hats", self.c_hats), ("n_steps", self.n_steps), ("ks", self.ks)):
            if not values or min(values) < 1 or len(set(values)) < len(values):
                listed = ", ".join(map(str, values)) or "empty"
                raise DataError(f"{name} must be distinct positive numbers, but is {listed}.")
            object.__setattr__(self, name, tuple(sorted(values)))

    def values(self, axis: str) -> tuple[int, ...]:
        """The values to try of one axis of the grid: ``"c_hat"``, ``"n_steps"`` or ``"k"``."""
        return {"c_hat": self.c_hats, "n_steps": self.n_steps, "k": self.ks}[axis]

    def as_json(self) -> dict[str, Any]:
        """The settings as JSON values, in which two runs must agree to share a results folder."""
        return {key: list(value) if isinstance(value, tuple) else value for key, value in asdict(self).items()}

    @classmethod
    def from_json(cls, settings: Mapping[str, Any], source: str = "the results") -> "Protocol":
        """Read what :meth:`as_json` wrote; an error that names ``source`` if the settings are other ones."""
        if settings.keys() != cls().as_json().keys():
            raise DataError(f"{source} holds results of another version of the protocol: run `sldl reproduce` again.")
        values: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in settings.items()}
        return cls(**values)

    def fold_of_rows(self, dataset: Dataset) -> NDArray[np.int64]:
        """The test fold of every row, of shape (n_samples,)."""
        if dataset.n_samples < self.n_folds:
            raise DataError(
                f"data set {dataset.name!r} has {dataset.n_samples} rows, fewer than the {self.n_folds} folds: "
                f"use --folds {max(dataset.n_samples // 2, 2)} or fewer, or leave it out."
            )
        if self.stratified:
            return stratified_folds(dataset.Y, self.n_folds, random_state=self.seed)
        fold = np.empty(dataset.n_samples, dtype=np.int64)
        splits = KFold(self.n_folds, shuffle=True, random_state=self.seed).split(fold)
        for number, (_, test) in enumerate(splits):
            fold[test] = number
        return fold

    def fold(self, fold_of_row: NDArray[np.int64], number: int) -> Fold:
        """Fold ``number``, its training rows split again for the choice of a configuration."""
        train = np.flatnonzero(fold_of_row != number)
        shuffled = np.random.RandomState([self.seed, number]).permutation(train)
        n_validation = max(1, round(self.validation * len(train)))
        n_trials = min(-(-self.validation_rows // n_validation), len(train) // n_validation)
        parts = shuffled[: n_trials * n_validation].reshape(n_trials, n_validation)
        trials = tuple((np.setdiff1d(train, part), np.sort(part)) for part in parts)
        return Fold(number, train, np.flatnonzero(fold_of_row == number), trials)


def fingerprint(dataset: Dataset) -> str:
    """A digest of features and labels, which tells whether stored results are of the same data."""
    digest = hashlib.sha256()
    for matrix in (dataset.X, dataset.Y):
        digest.update(repr(matrix.shape).encode())
        parts = (matrix.indptr, matrix.indices, matrix.data) if sparse.issparse(matrix) else (matrix,)
        for part in parts:
            whole = part.astype(np.int64) if part.dtype.kind == "i" else part  # index widths differ between systems
            digest.update(np.ascontiguousarray(whole).data)
    return digest.hexdigest()
