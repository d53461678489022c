"""The heaviest terms of sparse rows on the device, and indexes of them."""

from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor

from pysldl.backend.dispatch import device_copies
from pysldl.backend.half_precision import SMALLEST
from pysldl.backend.linear_algebra import NEARLY
from pysldl.backend.torch.arrays import kept_tensor, memory_of, ranges, remember, segment_sums


class Terms(NamedTuple):
    """Terms of rows, one after the other: the row, the place among its terms, column and value of each."""

    row: Tensor
    place: Tensor
    column: Tensor
    value: Tensor


def best_terms(X: Any, n_terms: int) -> tuple[NDArray[np.integer], NDArray[np.float32]]:
    columns, values = padded_terms(heaviest_terms(X, n_terms), X.shape[0], n_terms)
    return columns.cpu().numpy(), values.cpu().numpy()


def padded_terms(terms: Terms, n_rows: int, n_terms: int) -> tuple[Tensor, Tensor]:
    """Columns and values side by side, of shape (n_rows, n_terms); -1 and 0 for none."""
    columns = torch.full((n_rows, n_terms), -1, dtype=torch.int32, device=terms.value.device)
    values = torch.zeros((n_rows, n_terms), device=terms.value.device)
    columns[terms.row, terms.place] = terms.column
    values[terms.row, terms.place] = terms.value
    return columns, values


def heaviest_terms(X: Any, n_terms: int | None) -> Terms:
    """The ``n_terms`` largest values of every row, largest first, of equals the lower column; all for None.

    All terms are sorted once, however often some of them are asked for in a fit.
    """
    if not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
    copies, key = device_copies(), (*memory_of(X.data), "by weight")
    if key not in copies:
        starts, value = kept_tensor(X.indptr, torch.int64), kept_tensor(X.data, torch.float32)
        row = torch.repeat_interleave(torch.arange(X.shape[0], device=value.device), torch.diff(starts))
        # The bits of a number are ordered as it is, those of a negative one the other way round.
        bits = value.view(torch.int32).to(torch.int64)
        falling = torch.where(bits < 0, (bits & 0x7FFFFFFF) + 0x80000000, 0x7FFFFFFF - bits)
        order = torch.sort((row << 32) | falling, stable=True).indices
        place = torch.arange(len(row), device=row.device) - starts[row]
        column = kept_tensor(X.indices, torch.int32)[order]
        copies[key] = X.data, Terms(row, place, column, value[order])
    terms: Terms = copies[key][1]
    if n_terms is None:
        return terms
    kept = terms.place < n_terms
    return Terms(*(part[kept] for part in terms))


def postings_of(X: Any, n_terms: int | None) -> sparse.csr_array:
    terms = heaviest_terms(X, n_terms)
    order = torch.sort(terms.column.to(torch.int64) * X.shape[0] + terms.row).indices
    sizes, values = torch.bincount(terms.column, minlength=X.shape[1]), terms.value[order]
    magnitude = values.abs()
    smallest = torch.where(magnitude > 0, magnitude, 1.0)
    if len(values) and bool((magnitude.max() <= torch.finfo(torch.float16).max) & (smallest.min() >= SMALLEST)):
        values = values.half().float()
    return _as_csr(values, terms.row[order], sizes, (X.shape[1], X.shape[0]))


def mean_rows(X: Any, Y: Any, n_terms: int) -> sparse.csr_array:
    terms, n_features = heaviest_terms(X, n_terms), X.shape[1]
    n_of_row = torch.bincount(terms.row, minlength=X.shape[0])
    starts = torch.cumsum(n_of_row, 0) - n_of_row
    carried, label = kept_tensor(Y.indptr, torch.int64), kept_tensor(Y.indices, torch.int64)
    rows = torch.repeat_interleave(torch.arange(Y.shape[0], device=label.device), torch.diff(carried))
    places = ranges(starts[rows], n_of_row[rows])
    labels = torch.repeat_interleave(label, n_of_row[rows])
    cells, order = torch.sort(labels * n_features + terms.column[places], stable=True)
    cells, lengths = torch.unique_consecutive(cells, return_counts=True)
    sums = segment_sums(terms.value[places][order], lengths)
    labels = cells // n_features
    sizes = torch.bincount(labels, minlength=Y.shape[1])
    squares = segment_sums((sums * sums).double(), sizes)
    size = torch.sqrt(squares)
    scaled = (size > 0) & ((size - 1.0).abs() > NEARLY)
    factors = torch.where(scaled, 1.0 / size, 1.0).float()
    return _as_csr(sums * factors[labels], cells % n_features, sizes, (Y.shape[1], n_features))


def _as_csr(values: Tensor, columns: Tensor, sizes: Tensor, shape: tuple[int, int]) -> sparse.csr_array:
    """A matrix whose arrays stay on the device, too; its columns ascend in every row."""
    indptr = torch.nn.functional.pad(torch.cumsum(sizes, 0), (1, 0))
    index = torch.int32 if max(len(values), *shape) < 2**31 else torch.int64
    matrix = sparse.csr_array(shape, dtype=np.float32)
    matrix.data, matrix.indices = remember(values), remember(columns.to(index))
    matrix.indptr = remember(indptr.to(index))
    matrix.has_canonical_format = True
    return matrix
