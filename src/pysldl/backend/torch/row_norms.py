"""Lengths of rows on the device."""

from typing import Any

import torch

from pysldl.backend.row_norms import NEARLY
from pysldl.backend.torch.arrays import row_squares


def has_unit_rows(X: Any) -> bool:
    lengths = torch.sqrt(row_squares(X).double())
    return not bool(((lengths > 0) & ((lengths - 1.0).abs() > NEARLY)).any())
