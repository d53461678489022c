"""The matrices of one comparison, and what a system does with them. Runs in every environment."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from measuring import Clock

__all__ = ["System", "Task"]


@dataclass(frozen=True)
class Task:
    """Rows to learn from, and rows to rank the labels of.

    Parameters
    ----------
    X, Y : csr_matrix of shape (n_train, n_features) and (n_train, n_labels), float32
    X_test : csr_matrix of shape (n_test, n_features)
    text_file : Path
        X and Y once more, in the text format of the extreme classification repository, for who takes no matrix.
    """

    X: Any
    Y: Any
    X_test: Any
    text_file: Path

    @classmethod
    def read(cls, folder: str | Path) -> "Task":
        """Read what the comparison wrote."""
        folder = Path(folder)
        X, Y, X_test = (sparse.csr_matrix(sparse.load_npz(folder / f"{name}.npz")) for name in ("X", "Y", "X_test"))
        return cls(X, Y, X_test, folder / "train.txt")


class System:
    """What is compared; called in the order of the methods. Only ``train`` and ``predict`` count as such.

    Parameters
    ----------
    specification : str
        The name of the system, with its settings where it takes any.
    threads : int
    clock : Clock
        For who can say more about its stages.
    """

    def __init__(self, specification: str, threads: int, clock: Clock) -> None:
        self.specification = specification
        self.threads = threads
        self.clock = clock

    def warm_up(self, task: Task) -> None:
        """Compile what training and prediction need."""

    def prepare(self, task: Task) -> None:
        """Bring the matrices into the form the system takes."""

    def train(self, task: Task, folder: Path) -> None:
        """Learn; systems that write their model meanwhile write it into ``folder``."""
        raise NotImplementedError

    def save(self, folder: Path) -> None:
        """Write the model, unless training did."""

    def load(self, folder: Path) -> None:
        """Read the model, if prediction needs it read."""

    def predict(self, X: Any, k: int) -> NDArray[np.int64]:
        """The best labels of each row, of shape (n_rows, k), -1 in unused places."""
        raise NotImplementedError
