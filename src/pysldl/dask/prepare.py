"""From blocks of rows, wherever they are, to the checked training rows of a fit, in files that all workers see."""

import secrets
from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils import check_array

from pysldl.dask.cluster import clear_errors
from pysldl.dask.parts import Block, LazyBlock, named_errors
from pysldl.dask.transport import Packed, pack, unpack
from pysldl.dask.workspace import DaskWorkspace, gather, same, unpacked
from pysldl.estimator.base import TrainingRows
from pysldl.exceptions import DataError
from pysldl.persistence.vectorizers import is_vectorizer, restore_vectorizer
from pysldl.preprocessing.labels import (
    EncodedLabels,
    as_indicator,
    as_rows_of_names,
    check_label_names,
    indicator_of_names,
    name_array,
)
from pysldl.preprocessing.term_counts import TermCounts, count_terms, merge_term_counts, vocabulary_of_counts
from pysldl.preprocessing.text import as_texts, default_vectorizer

__all__ = ["prepare_rows"]

MERGED_AT_ONCE = 8
INT32 = np.iinfo(np.int32).max


class Survey(NamedTuple):
    """What blocks of rows hold, before any of them is kept."""

    n_rows: int
    kind: Literal["names", "indicator"]
    label_names: list[str] | None  # those that occur, sorted
    n_labels: int  # columns of an indicator
    terms: TermCounts | None
    n_features: int
    dtype: np.dtype[Any] | None
    is_sparse: bool
    block: str


class EncodedBlock(NamedTuple):
    """A block of rows in its final form."""

    X: Any
    Y: sparse.csr_array


def prepare_rows(
    workspace: DaskWorkspace,
    blocks: Sequence[LazyBlock],
    vectorizer: Any = None,
    *,
    label_names: Sequence[str] | None = None,
    feature_names: Sequence[str] | None = None,
) -> TrainingRows:
    """Survey all blocks, agree on labels and vocabulary, encode the blocks, and put them one behind the other.

    Parameters
    ----------
    workspace : DaskWorkspace
    blocks : sequence of LazyBlock
        Read twice, and never all at once.
    vectorizer : CountVectorizer or TfidfVectorizer, optional
        For texts; a plain one is made if none is given.
    label_names, feature_names : sequences of str, optional

    Returns
    -------
    TrainingRows
        As a local fit to all rows would make them, with arrays that lie in files.
    """
    vectorizer = default_vectorizer() if vectorizer is None else vectorizer
    if isinstance(vectorizer, str):
        raise DataError(
            f"vectorizer={vectorizer!r} looks at all texts at once; on Dask give a CountVectorizer or TfidfVectorizer."
        )
    if not is_vectorizer(vectorizer):
        raise DataError(
            f"{type(vectorizer).__name__}: on Dask texts are taken by CountVectorizer or TfidfVectorizer of "
            "scikit-learn, whose vocabulary can be counted block by block."
        )
    found = _survey(workspace, blocks, vectorizer)
    fitted = None
    if found.terms is not None:
        terms, idf = vocabulary_of_counts(vectorizer, found.terms)
        state: dict[str, Any] = {"vocabulary_": terms} | ({} if idf is None else {"idf_": idf})
        fitted = restore_vectorizer(type(vectorizer).__name__, vectorizer.get_params(deep=False), state)
        found = found._replace(terms=None, n_features=len(terms), is_sparse=True)
    names = _names_of(found, label_names)
    column_of = {name: column for column, name in enumerate(names.tolist())}
    encoded = _map_blocks(workspace, "encoding", _encode, blocks, fitted, column_of, found._replace(label_names=None))
    X, Y = _stacked(workspace, encoded, found, len(names))
    return TrainingRows(X, EncodedLabels(Y, names, found.kind), _feature_names(fitted, feature_names, X), fitted)


def _survey(workspace: DaskWorkspace, blocks: Sequence[LazyBlock], vectorizer: Any) -> Survey:
    """One pass over all blocks; what is found is put together on the workers, eight at a time."""
    client, stage = workspace.client, "reading"
    with clear_errors(client, stage):
        level = _submit(workspace, _look_at, blocks, vectorizer)
        gather(client, stage, level, [block.name for block in blocks], workspace.progress, results=False)
        while len(level) > 1:
            groups = [level[start : start + MERGED_AT_ONCE] for start in range(0, len(level), MERGED_AT_ONCE)]
            level = [client.submit(_merge, group, pure=False) for group in groups]
        found: Survey = gather(client, "merging", level, ["what was read"])[0]
    return found


def _map_blocks(
    workspace: DaskWorkspace, stage: str, function: Callable[..., Any], blocks: Sequence[LazyBlock], *shared: Any
) -> list[Any]:
    """``function(block, *shared)`` for all blocks; large results are mapped files."""
    with clear_errors(workspace.client, stage):
        payload = pack(shared, workspace.folder)
        futures = _submit(workspace, _run_block, blocks, function, payload, secrets.token_hex(8), workspace.folder)
        names = [block.name for block in blocks]
        return [unpack(found) for found in gather(workspace.client, stage, futures, names, workspace.progress)]


def _submit(
    workspace: DaskWorkspace, function: Callable[..., Any], blocks: Sequence[LazyBlock], *arguments: Any
) -> list[Any]:
    """Futures of ``function(block, *arguments)``; the blocks are made by the tasks themselves."""
    from dask import delayed

    client = workspace.client
    shared = [client.submit(same, argument, pure=False) if argument is not None else None for argument in arguments]
    call = delayed(function, pure=False)
    futures: list[Any] = client.compute([call(block.rows, *shared) for block in blocks], optimize_graph=True)
    return futures


def _run_block(block: Block, function: Callable[..., Any], payload: Packed, token: str, folder: str) -> Packed:
    return pack(function(block, *unpacked(token, payload)), folder)


def _look_at(block: Block, vectorizer: Any) -> Survey:
    """What one block holds."""
    with named_errors(block):
        return _surveyed(block, vectorizer)


def _surveyed(block: Block, vectorizer: Any) -> Survey:
    rows = as_rows_of_names(block.y)
    if rows is not None:
        names: list[str] | None = sorted({name for row in rows for name in row})
        n_rows, n_labels = len(rows), 0
    elif isinstance(block.y, (list, tuple)) and all(isinstance(row, (list, tuple)) and not row for row in block.y):
        names, n_rows, n_labels = [], len(block.y), 0  # rows, none of which has a label
        rows = []
    else:
        Y = as_indicator(block.y, "y")
        names, (n_rows, n_labels) = None, Y.shape
    texts = as_texts(block.X)
    if texts is None:
        X = _checked(block.X)
        of_X: dict[str, Any] = {
            "n_features": X.shape[1],
            "dtype": X.dtype,
            "is_sparse": sparse.issparse(X),
            "terms": None,
        }
        n_given = X.shape[0]
    else:
        of_X = {"n_features": 0, "dtype": None, "is_sparse": True, "terms": count_terms(vectorizer, texts)}
        n_given = len(texts)
    if n_given != n_rows:
        raise DataError(f"X has {n_given} rows, but y has {n_rows}.")
    kind: Literal["names", "indicator"] = "indicator" if rows is None else "names"
    return Survey(n_rows=n_rows, kind=kind, label_names=names, n_labels=n_labels, block=block.name, **of_X)


def _merge(found: Sequence[Survey]) -> Survey:
    """Several surveys together; blocks that do not go together are an error that names one."""
    first = found[0]
    for other in found[1:]:
        if other.kind != first.kind:
            raise DataError(f"{other.block}: holds labels as {other.kind}, but {first.block} as {first.kind}.")
        if (other.terms is None) != (first.terms is None):
            holds = ["texts" if survey.terms is not None else "features" for survey in (other, first)]
            raise DataError(f"{other.block}: holds {holds[0]}, but {first.block} holds {holds[1]}.")
        for what, theirs, own in (
            ("features", other.n_features, first.n_features),
            ("labels", other.n_labels, first.n_labels),
        ):
            if theirs != own:
                raise DataError(f"{other.block}: has {theirs} {what}, but {first.block} has {own}.")
        if other.is_sparse != first.is_sparse:
            raise DataError(f"{other.block} and {first.block}: one is sparse, the other dense.")
    lists = [survey.label_names for survey in found if survey.label_names is not None]
    counts = [survey.terms for survey in found if survey.terms is not None]
    return first._replace(
        n_rows=sum(survey.n_rows for survey in found),
        label_names=sorted(set().union(*lists)) if lists else None,
        terms=merge_term_counts(counts) if counts else None,
        dtype=None if first.dtype is None else np.result_type(*(survey.dtype for survey in found if survey.dtype)),
    )


def _names_of(found: Survey, label_names: Sequence[str] | None) -> NDArray[Any]:
    """What the columns of the indicator are called, as :func:`~pysldl.preprocessing.labels.encode_labels` says."""
    if label_names is None:
        return name_array(range(found.n_labels) if found.label_names is None else found.label_names)
    if found.label_names is None:
        return check_label_names(label_names, found.n_labels)
    given = check_label_names(label_names)
    strange = sorted(set(found.label_names).difference(given.tolist()))
    if strange:
        raise DataError(f"Rows carry the label {strange[0]!r}, which is not one of the {len(given)} label_names.")
    return given


def _feature_names(fitted: Any, feature_names: Sequence[str] | None, X: Any) -> NDArray[Any] | None:
    if feature_names is None and fitted is None:
        return None
    names = name_array(fitted.get_feature_names_out() if feature_names is None else feature_names)
    if names.shape != (X.shape[1],):
        raise DataError(f"feature_names holds {names.size} names, but X has {X.shape[1]} columns.")
    return names


def _encode(block: Block, vectorizer: Any, column_of: dict[str, int], found: Survey) -> EncodedBlock:
    """Features and label indicator of one block."""
    with named_errors(block):
        return _encoded(block, vectorizer, column_of, found)


def _encoded(block: Block, vectorizer: Any, column_of: dict[str, int], found: Survey) -> EncodedBlock:
    X = _checked(block.X if vectorizer is None else vectorizer.transform(as_texts(block.X)))
    if found.kind == "indicator":
        return EncodedBlock(X, as_indicator(block.y, "y"))
    rows = as_rows_of_names(block.y) or [[] for _ in block.y]
    own = sorted({name for row in rows for name in row})
    Y = indicator_of_names(rows, name_array(own))
    columns = np.array([column_of[name] for name in own], dtype=np.int32)
    placed = sparse.csr_array((Y.data, columns[Y.indices], Y.indptr), shape=(len(rows), len(column_of)))
    placed.sort_indices()
    return EncodedBlock(X, placed)


def _checked(X: Any) -> Any:
    """Features as a local fit takes them."""
    X = check_array(X, accept_sparse="csr", dtype=[np.float32, np.float64])
    return sparse.csr_array(X) if sparse.issparse(X) else X


def _stacked(
    workspace: DaskWorkspace, blocks: list[EncodedBlock], found: Survey, n_labels: int
) -> tuple[Any, sparse.csr_array]:
    """All blocks one behind the other, in files."""
    first_rows = np.concatenate([[0], np.cumsum([block.Y.shape[0] for block in blocks])])
    Y, put_Y = _empty_rows(workspace, [block.Y for block in blocks], (int(first_rows[-1]), n_labels), np.float32)
    if found.is_sparse:
        dtype = np.result_type(*(block.X.dtype for block in blocks))
        X, put_X = _empty_rows(workspace, [block.X for block in blocks], (Y.shape[0], found.n_features), dtype)
    else:
        X, put_X = workspace.empty((Y.shape[0], found.n_features), np.dtype(found.dtype)), first_rows
    workspace.map("stacking", _put_block, range(len(blocks)), blocks, first_rows, put_X, put_Y, X, Y, found.is_sparse)
    return X, Y


def _empty_rows(
    workspace: DaskWorkspace, blocks: list[sparse.csr_array], shape: tuple[int, int], dtype: Any
) -> tuple[sparse.csr_array, NDArray[np.int64]]:
    """A matrix with room for all blocks, and where the values of each begin."""
    starts = np.concatenate([[0], np.cumsum([block.nnz for block in blocks])]).astype(np.int64)
    index = np.int32 if max(int(starts[-1]), *shape) < INT32 else np.int64
    data, indices = workspace.empty(int(starts[-1]), dtype), workspace.empty(int(starts[-1]), index)
    indptr = workspace.empty(shape[0] + 1, index)
    matrix = sparse.csr_array(shape, dtype=dtype)
    matrix.data, matrix.indices, matrix.indptr = data, indices, indptr
    return matrix, starts


def _put_block(
    number: int,
    blocks: list[EncodedBlock],
    first_rows: NDArray[np.int64],
    X_starts: NDArray[np.int64],
    Y_starts: NDArray[np.int64],
    X: Any,
    Y: sparse.csr_array,
    is_sparse: bool,
) -> None:
    """Copy one block to its place."""
    rows = slice(int(first_rows[number]), int(first_rows[number + 1]))
    pairs = [(blocks[number].Y, Y, Y_starts)]
    if is_sparse:
        pairs.append((blocks[number].X, X, X_starts))
    else:
        X[rows] = blocks[number].X
    for block, whole, starts in pairs:
        places = slice(int(starts[number]), int(starts[number + 1]))
        whole.data[places], whole.indices[places] = block.data, block.indices
        whole.indptr[rows.start + 1 : rows.stop + 1] = block.indptr[1:] + starts[number]
