"""The rows of every label's classifier in blocks of rows, and the classifiers, fitted in shards of labels.

A fit within one process has one block and one shard. On a cluster a worker turns the candidates of a block of rows
round, and another one fits the labels of a shard to the rows that they need: nobody holds all candidates or all rows.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from pysldl.backend.dispatch import as_int32_indices
from pysldl.backend.half_precision import fits_half, round_in_place
from pysldl.backend.label_problems import HeldOutPairs, LabelProblems, held_out_pairs, label_problems
from pysldl.backend.squared_hinge import fit_squared_hinge, solve_squared_hinge, warn_open_labels
from pysldl.backend.workspace import Workspace, current_workspace, shared_parts

FEWEST_ROWS, ROWS_AT_ONCE = 1 << 15, 1 << 16  # of a block
PAIRS_AT_ONCE = 1 << 22  # of a label and a row, in a shard: what a worker has in memory
COPIED_BYTES = 1 << 28  # of the rows of a shard; more are read where they lie


class LabelRows(NamedTuple):
    """The rows of every label, in blocks of rows one behind the other, and how many there are in all blocks.

    Each block has all labels, and numbers of rows among all rows.
    """

    blocks: list[LabelProblems]
    sizes: NDArray[np.int64]

    def of_labels(self, labels: NDArray[np.integer]) -> LabelProblems:
        """The rows of some labels, given in ascending order; the others have none."""
        if len(self.blocks) == 1 and len(labels) == len(self.sizes):
            return self.blocks[0]
        counts = np.zeros_like(self.sizes)
        counts[labels] = self.sizes[labels]
        indptr = np.concatenate([[0], np.cumsum(counts)])
        rows, late = np.empty(indptr[-1], dtype=np.int32), np.zeros(indptr[-1], dtype=np.bool_)
        place = indptr[labels]
        for block in self.blocks:
            start = block.indptr[labels]
            sizes = block.indptr[labels + 1] - start
            within = np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)
            into, out_of = np.repeat(place, sizes) + within, np.repeat(start, sizes) + within
            rows[into] = block.rows[out_of]
            if block.late is not None:
                late[into] = block.late[out_of]
            place = place + sizes
        return LabelProblems(indptr, rows, late)


class FittedShard(NamedTuple):
    """Classifiers of neighboring labels: as many weights as ``counts`` says, one label after the other."""

    counts: NDArray[np.int64]
    columns: NDArray[np.int32]
    values: NDArray[np.float32]
    bias: NDArray[np.float32]
    are_halves: bool  # whether the values can be rounded
    n_open: int


class HeldCandidates(NamedTuple):
    """Rows held out from the classifiers, (n_held,), and the labels that each is scored for, -1 for none."""

    rows: NDArray[np.integer]
    labels: NDArray[np.int32]


def label_rows(
    candidates: Sequence[NDArray[np.int32]],
    Y: sparse.csr_array,
    everywhere: NDArray[np.int32],
    late: NDArray[np.int32] | None = None,
) -> LabelRows:
    """The rows that have a label, and those that were offered it by several sources; see :func:`label_problems`."""
    workspace = current_workspace().for_pass(candidates, Y)
    if workspace.n_shards == 1:
        blocks = [label_problems(_side_by_side(candidates), Y, everywhere=everywhere, late=late)]
    else:
        parts = shared_parts(Y.shape[0], FEWEST_ROWS, ROWS_AT_ONCE)
        blocks = workspace.map("label rows", _block_of_rows, parts, list(candidates), Y, everywhere, late)
    sizes = np.zeros(Y.shape[1], dtype=np.int64)
    for block in blocks:
        sizes += np.diff(block.indptr)
    return LabelRows(blocks, sizes)


def _side_by_side(candidates: Sequence[NDArray[np.int32]]) -> NDArray[np.int32]:
    return candidates[0] if len(candidates) == 1 else np.hstack(candidates)


def _block_of_rows(
    part: slice,
    candidates: list[NDArray[np.int32]],
    Y: sparse.csr_array,
    everywhere: NDArray[np.int32],
    late: NDArray[np.int32] | None,
) -> LabelProblems:
    offered = np.ascontiguousarray(_side_by_side([source[part] for source in candidates]))
    own_late = None if late is None else np.ascontiguousarray(late[part])
    indptr, rows, is_late = label_problems(offered, Y[part], everywhere=everywhere, late=own_late)
    return LabelProblems(indptr, np.where(rows >= 0, rows + part.start, rows - part.start).astype(np.int32), is_late)


def label_shards(sizes: NDArray[np.integer], n_shards: int, most: int) -> list[slice]:
    """Neighboring labels together: about ``n_shards`` parts with about equally many rows, and not more than ``most``.

    A label with more rows than that is a part of its own.

    Examples
    --------
    >>> label_shards(np.array([1, 1, 6, 2, 2]), n_shards=3, most=5)
    [slice(0, 2, None), slice(2, 3, None), slice(3, 5, None)]
    """
    target = max(1, min(-(-int(sizes.sum()) // n_shards), most))
    shards, start, rows = [], 0, 0
    for label, size in enumerate(sizes.tolist()):
        if rows and rows + size > target:
            shards.append(slice(start, label))
            start, rows = label, 0
        rows += size
    return [*shards, slice(start, len(sizes))]


def fit_label_rows(
    X: sparse.csr_array,
    rows: LabelRows,
    *,
    C: float,
    positive_weight: NDArray[np.float32] | None,
    max_epochs: int,
    tol: float,
    min_weight: float,
    held: HeldCandidates,
) -> tuple[sparse.csr_array, NDArray[np.float32], NDArray[np.float32]]:
    """The classifiers of all labels: :func:`fit_squared_hinge`, by whoever the workspace has, with the same result.

    Returns weights, biases, and the scores of the candidates of ``held`` by classifiers that have not seen their rows;
    -inf where there is no candidate.
    """
    settings: dict[str, Any] = {"C": C, "max_epochs": max_epochs, "tol": tol, "min_weight": min_weight}
    workspace = current_workspace()
    n_labels = len(rows.sizes)
    held_scores = workspace.empty(held.labels.shape, np.float32)
    held_scores[...] = -np.inf
    if workspace.n_shards == 1:
        problems = rows.of_labels(np.arange(n_labels))
        fitted = fit_squared_hinge(X, problems, positive_weight=positive_weight, held_out=held.rows, **settings)
        _put_held_scores(slice(0, n_labels), held, held.rows, fitted.held, fitted.held_scores, held_scores)
        return fitted.W, fitted.bias, held_scores
    if positive_weight is None:
        positive_weight = np.ones(n_labels, dtype=np.float32)
    shards = label_shards(rows.sizes, workspace.n_shards, PAIRS_AT_ONCE)
    # Those with the most rows first: a large one that begins last would be waited for.
    order = np.argsort([-rows.sizes[labels].sum() for labels in shards], kind="stable")
    shared = (X, rows, positive_weight, held, held_scores, settings)
    done = workspace.map("classifiers", _fit_shard, [shards[number] for number in order], *shared)
    fitted_shards = [done[place] for place in np.argsort(order)]
    W = _joined_weights(workspace, fitted_shards, (n_labels, X.shape[1]))
    warn_open_labels(sum(shard.n_open for shard in fitted_shards), max_epochs)
    return W, np.concatenate([shard.bias for shard in fitted_shards]), held_scores


def _fit_shard(
    labels: slice,
    X: sparse.csr_array,
    rows: LabelRows,
    positive_weight: NDArray[np.float32],
    held: HeldCandidates,
    held_scores: NDArray[np.float32],
    settings: dict[str, Any],
) -> FittedShard:
    """Fit neighboring labels to the rows that they need."""
    problems = rows.of_labels(np.arange(labels.start, labels.stop))
    is_held = np.zeros(X.shape[0], dtype=np.bool_)
    is_held[held.rows] = True
    own, X, problems = _needed_rows(X, problems)
    pairs = held_out_pairs(problems, len(own), np.flatnonzero(is_held[own]))
    numbers = (settings["C"], positive_weight, settings["max_epochs"], settings["tol"], settings["min_weight"])
    W, bias, scores, n_open = solve_squared_hinge(X, problems, pairs, *numbers)
    _put_held_scores(labels, held, np.searchsorted(own, held.rows), pairs, scores, held_scores)
    counts = np.diff(W.indptr)[labels].astype(np.int64)
    are_halves = W.nnz == 0 or fits_half(W.data)
    return FittedShard(counts, W.indices.astype(np.int32, copy=False), W.data, bias[labels], are_halves, n_open)


def _put_held_scores(
    labels: slice,
    held: HeldCandidates,
    numbers: NDArray[np.integer],
    pairs: HeldOutPairs,
    scores: NDArray[np.float32],
    held_scores: NDArray[np.float32],
) -> None:
    """The scores of some labels for the rows held out; ``numbers`` are those of the rows among the ``pairs``."""
    at, slots = np.nonzero((held.labels >= labels.start) & (held.labels < labels.stop))
    held_scores[at, slots] = scores[pairs.places_of(held.labels[at, slots], numbers[at])]


def _joined_weights(workspace: Workspace, shards: list[FittedShard], shape: tuple[int, int]) -> sparse.csr_array:
    """The weights of all shards one behind the other, rounded as a model stores them."""
    indptr = np.concatenate([[0], np.cumsum(np.concatenate([shard.counts for shard in shards]))])
    n_weights, workspace = int(indptr[-1]), workspace.for_pass(shards)
    columns, values = workspace.empty(n_weights, np.int32), workspace.empty(n_weights, np.float32)
    ends = np.cumsum([len(shard.values) for shard in shards]).tolist()
    are_halves = all(shard.are_halves for shard in shards)
    workspace.map("classifiers", _put_weights, range(len(shards)), shards, ends, columns, values, are_halves)
    W = sparse.csr_array(shape, dtype=np.float32)
    W.data, W.indices = values, columns
    W.indptr = indptr
    return as_int32_indices(W)


def _put_weights(
    number: int,
    shards: list[FittedShard],
    ends: list[int],
    columns: NDArray[np.int32],
    values: NDArray[np.float32],
    are_halves: bool,
) -> None:
    """Copy the weights of a shard to their place among all."""
    shard = shards[number]
    places = slice(ends[number] - len(shard.values), ends[number])
    columns[places], values[places] = shard.columns, shard.values
    if are_halves:
        round_in_place(values[places])


def _needed_rows(
    X: sparse.csr_array, problems: LabelProblems
) -> tuple[NDArray[np.integer], sparse.csr_array, LabelProblems]:
    """The rows of some labels: their numbers, their features, and the problems with numbers among them.

    They are copied, unless they are most of all rows or very many: then all stay where they lie.
    """
    signed = problems.rows
    numbers = np.where(signed >= 0, signed, ~signed)
    is_needed = np.zeros(X.shape[0], dtype=np.bool_)
    is_needed[numbers] = True
    own = np.flatnonzero(is_needed)
    is_canonical = X.has_canonical_format  # asked of the matrix that all shards share, which remembers it
    n_bytes = 8 * int((X.indptr[own + 1] - X.indptr[own]).sum(dtype=np.int64))
    if 2 * len(own) > X.shape[0] or n_bytes > COPIED_BYTES:
        own, needed = np.arange(X.shape[0]), X
    else:
        needed = X[own]
        places = (np.cumsum(is_needed, dtype=np.int32) - 1)[numbers]
        problems = problems._replace(rows=np.where(signed >= 0, places, ~places))
    needed = as_int32_indices(sparse.csr_array(needed))
    if not is_canonical:
        needed = needed.copy()
        needed.sum_duplicates()
    return own, needed, problems
