"""From blocks of rows, wherever they are, to the checked training rows of a fit, in files that all workers see."""

import secrets
from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import clone
from sklearn.utils import check_array

from pysldl.dask.cluster import clear_errors
from pysldl.dask.parts import Block, LazyBlock, named_errors, named_labels
from pysldl.dask.transport import Packed, pack, unpack, unpacked
from pysldl.dask.workspace import ClientWorkspace, DaskWorkspace, gather, same
from pysldl.estimator.base import TrainingRows
from pysldl.exceptions import DataError
from pysldl.persistence.vectorizers import is_vectorizer, restore_vectorizer
from pysldl.preprocessing.features import canonical_rows
from pysldl.preprocessing.labels import (
    EncodedLabels,
    as_indicator,
    check_label_names,
    columns_among,
    join_encoded,
    name_array,
)
from pysldl.preprocessing.term_counts import (
    CountedTexts,
    TermCounts,
    count_texts,
    counts_of_terms,
    merge_term_counts,
    vocabulary_of_counts,
    weighted_counts,
)
from pysldl.preprocessing.text import (
    as_texts,
    choice_of_probe,
    default_vectorizer,
    has_terms,
    hashing_vectorizer,
    probe_rows,
)

MERGED_AT_ONCE = 8
FEW_BLOCKS = 64  # of which the client may look at each
INT32 = np.iinfo(np.int32).max


class BlockSize(NamedTuple):
    """How much of the arrays of all rows a block takes."""

    n_rows: int
    n_values: int  # of sparse features
    n_carried: int  # labels of its rows


class ReadBlock(NamedTuple):
    """A block of rows, checked, in numbers of its own."""

    name: str
    from_texts: bool
    X: Any  # features, or counts of terms
    terms: NDArray[Any] | None  # that the columns of counts are for
    Y: sparse.csr_array
    names: NDArray[Any] | None  # of the columns of Y; None where it is an indicator


class Survey(NamedTuple):
    """What blocks of rows hold together."""

    sizes: list[BlockSize]
    kind: Literal["names", "indicator"]
    label_names: list[str] | None  # those that occur, sorted
    n_labels: int  # columns of an indicator
    from_texts: bool
    terms: TermCounts | None
    n_features: int
    dtype: np.dtype[Any]
    is_sparse: bool
    block: str


class Weighting(NamedTuple):
    """What makes features of counts: the vectorizer without its vocabulary, and the weights of the terms."""

    vectorizer: Any
    idf: NDArray[Any] | None


class TermColumns(NamedTuple):
    """Where the terms of a block stand in the vocabulary, -1 for none, and how many of its values stay."""

    columns: NDArray[np.int32]
    n_values: int


def prepare_rows(
    workspace: DaskWorkspace,
    blocks: Sequence[LazyBlock],
    vectorizer: Any = None,
    *,
    label_names: Sequence[str] | None = None,
    feature_names: Sequence[str] | None = None,
) -> TrainingRows:
    """Read all blocks, agree on labels and vocabulary, and put the rows one behind the other.

    Every block is read once, by a worker, and kept in files of its own until all are put together: by the client, if
    they are small. The rows are those that a local fit would make. A plain ``vectorizer`` is made for texts if none is
    given.
    """
    vectorizer = _made_vectorizer(workspace, blocks, vectorizer, label_names)
    with workspace.folder_for_a_while() as folder:
        block_names = [block.name for block in blocks]
        read, is_few = _submit(workspace, _read, blocks, vectorizer, folder), len(blocks) <= FEW_BLOCKS
        packed = workspace.results("reading", read, block_names, wanted=is_few)
        merging = workspace.for_pass(packed) if is_few else workspace
        read = read if merging is workspace else packed
        found = _survey(merging, read, vectorizer)
        names = _names_of(found, label_names)
        fitted, weighting, columns = vectorizer if found.from_texts else None, None, [None] * len(read)
        if found.terms is not None:
            terms, idf = vocabulary_of_counts(vectorizer, found.terms)
            state: dict[str, Any] = {"vocabulary_": terms} | ({} if idf is None else {"idf_": idf})
            fitted = restore_vectorizer(type(vectorizer).__name__, vectorizer.get_params(deep=False), state)
            weighting = Weighting(vectorizer, idf)
            columns, kept = _agree(merging, block_names, read, terms, folder)
            sizes = [size._replace(n_values=n) for size, n in zip(found.sizes, kept, strict=True)]
            dtype = np.dtype(vectorizer.dtype if vectorizer.dtype in (np.float32, np.float64) else np.float32)
            found = found._replace(sizes=sizes, n_features=len(terms), dtype=dtype, terms=None)
        X, Y = _stacked(merging, block_names, read, columns, found, names, weighting)
    return TrainingRows(X, EncodedLabels(Y, names, found.kind), _feature_names(fitted, feature_names, X), fitted)


def _made_vectorizer(
    workspace: DaskWorkspace, blocks: Sequence[LazyBlock], vectorizer: Any, label_names: Sequence[str] | None
) -> Any:
    """The vectorizer of a local fit to the same rows, not yet fitted."""
    if vectorizer is None:
        return default_vectorizer()
    if isinstance(vectorizer, str):
        return hashing_vectorizer() if vectorizer == "hashing" else _chosen_vectorizer(workspace, blocks, label_names)
    if not is_vectorizer(vectorizer):
        raise DataError(
            f"{type(vectorizer).__name__}: on Dask texts are taken by CountVectorizer, TfidfVectorizer or "
            "HashingVectorizer of scikit-learn, whose vocabulary can be counted block by block."
        )
    return clone(vectorizer)


def _chosen_vectorizer(workspace: DaskWorkspace, blocks: Sequence[LazyBlock], label_names: Sequence[str] | None) -> Any:
    """What :func:`choose_vectorizer` chooses for all rows: it looks at a few thousand of them, which are read first."""
    names, known = [block.name for block in blocks], [block.n_rows for block in blocks]
    read = [] if None not in known else _submit(workspace, _n_rows, blocks)
    sizes = np.array(gather(workspace.client, "reading", read, names) if read else known, dtype=np.int64)
    ends = np.cumsum(sizes)
    rows = probe_rows(int(ends[-1]))
    of_block = np.searchsorted(ends, rows, side="right")
    places = [np.flatnonzero(of_block == block) for block in range(len(blocks))]
    own = [rows[some] - start for some, start in zip(places, (ends - sizes).tolist(), strict=True)]
    tasks = _submit_each(workspace, _some_rows, blocks, own)
    found = gather(workspace.client, "reading", tasks, names, workspace.progress)
    if any(texts is None for texts, _ in found):
        return default_vectorizer()  # there are features, which need none
    order = np.argsort(np.concatenate(places))
    texts, labels = [text for some, _ in found for text in some], [y for _, y in found]
    if not all(isinstance(y, EncodedLabels) for y in labels):
        return choice_of_probe([texts[row] for row in order], sparse.csr_array(sparse.vstack(labels))[order])
    joined = join_encoded(labels)
    columns = joined.names if label_names is None else name_array(label_names)
    Y = _renumbered(joined.Y, columns_among(joined.names, columns), len(columns))  # columns decide among equals
    return choice_of_probe([texts[row] for row in order], Y[order])


def _n_rows(block: Block) -> int:
    return len(block.X) if isinstance(block.X, list) else int(np.shape(block.X)[0])


def _some_rows(block: Block, rows: NDArray[np.int64]) -> tuple[list[str] | None, Any]:
    """Texts and labels of some rows of a block; None for texts where it holds features."""
    with named_errors(block):
        texts, labels = as_texts(block.X), named_labels(block.y)
        if texts is None:
            return None, None
        Y = as_indicator(block.y, "y") if labels is None else labels.Y
        if len(texts) != Y.shape[0]:
            raise DataError(f"X has {len(texts)} rows, but y has {Y.shape[0]}.")
        own = sparse.csr_array(Y[rows])
        return [texts[row] for row in rows], own if labels is None else EncodedLabels(own, labels.names, "names")


def _submit(
    workspace: DaskWorkspace, function: Callable[..., Any], blocks: Sequence[LazyBlock], *arguments: Any
) -> list[Any]:
    """Futures of ``function(block, *arguments)``; the blocks are made by the tasks themselves."""
    client = workspace.client
    with clear_errors(client, "reading"):
        shared = [client.submit(same, argument, pure=False) for argument in arguments]
    return _submit_each(workspace, function, blocks, *([argument] * len(blocks) for argument in shared))


def _submit_each(
    workspace: DaskWorkspace, function: Callable[..., Any], blocks: Sequence[LazyBlock], *arguments: Sequence[Any]
) -> list[Any]:
    """Futures of ``function(block, *own)`` with arguments of each block's own."""
    from dask import delayed

    with clear_errors(workspace.client, "reading"):
        call = delayed(function, pure=False)
        tasks = [call(block.rows, *own) for block, *own in zip(blocks, *arguments, strict=True)]
        futures: list[Any] = workspace.client.compute(tasks, optimize_graph=True)
    return futures


def _read(block: Block, vectorizer: Any, folder: str) -> Packed:
    """Check a block, and put it into files."""
    with named_errors(block):
        return pack(_checked_block(block, vectorizer), folder)


def _checked_block(block: Block, vectorizer: Any) -> ReadBlock:
    labels = named_labels(block.y)
    Y, names = (as_indicator(block.y, "y"), None) if labels is None else (labels.Y, labels.names)
    texts, terms = as_texts(block.X), None
    if texts is None:
        X = _checked(block.X)
    elif not has_terms(vectorizer):
        X = _checked(vectorizer.transform(texts))
    else:
        terms, X = count_texts(vectorizer, texts)
    if X.shape[0] != Y.shape[0]:
        raise DataError(f"X has {X.shape[0]} rows, but y has {Y.shape[0]}.")
    return ReadBlock(block.name, texts is not None, X, terms, Y, names)


def _survey(workspace: DaskWorkspace | ClientWorkspace, read: list[Any], vectorizer: Any) -> Survey:
    """What all blocks hold, put together eight at a time."""
    with workspace.clear_errors("merging"):
        level = [workspace.submit(_survey_of, group, vectorizer) for group in _groups(read)]
        while len(level) > 1:
            level = [workspace.submit(_merge, group) for group in _groups(level)]
        found: Survey = workspace.results("merging", level, ["what was read"])[0]
    return found


def _groups(items: list[Any]) -> list[list[Any]]:
    return [items[start : start + MERGED_AT_ONCE] for start in range(0, len(items), MERGED_AT_ONCE)]


def _survey_of(blocks: list[Packed], vectorizer: Any) -> Survey:
    return _merge([_survey_of_one(block, vectorizer) for block in blocks])


def _survey_of_one(packed: Packed, vectorizer: Any) -> Survey:
    block: ReadBlock = unpack(packed)
    is_sparse = sparse.issparse(block.X)
    terms = None if block.terms is None else counts_of_terms(vectorizer, CountedTexts(block.terms, block.X))
    return Survey(
        sizes=[BlockSize(block.X.shape[0], block.X.nnz if is_sparse else 0, block.Y.nnz)],
        kind="indicator" if block.names is None else "names",
        label_names=None if block.names is None else block.names.tolist(),
        n_labels=block.Y.shape[1] if block.names is None else 0,
        from_texts=block.from_texts,
        terms=terms,
        n_features=block.X.shape[1] if terms is None else 0,
        dtype=block.X.dtype,
        is_sparse=is_sparse,
        block=block.name,
    )


def _merge(found: Sequence[Survey]) -> Survey:
    """Several surveys together; blocks that do not go together are an error that names one."""
    first = found[0]
    for other in found[1:]:
        if other.kind != first.kind:
            raise DataError(f"{other.block}: holds labels as {other.kind}, but {first.block} as {first.kind}.")
        if other.from_texts != first.from_texts:
            holds = ["texts" if survey.from_texts else "features" for survey in (other, first)]
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
        sizes=[size for survey in found for size in survey.sizes],
        label_names=sorted(set().union(*lists)) if lists else None,
        terms=merge_term_counts(counts) if counts else None,
        dtype=np.result_type(*(survey.dtype for survey in found)),
    )


def _agree(
    workspace: DaskWorkspace | ClientWorkspace, block_names: list[str], read: list[Any], terms: list[str], folder: str
) -> tuple[list[Any], list[int]]:
    """Where the terms of each block stand in the vocabulary: as tasks, and how many of its values stay."""
    stage = "vocabulary"
    with workspace.clear_errors(stage):
        payload, token = workspace.share(name_array(terms)), secrets.token_hex(8)
        tasks = [workspace.submit(_term_columns, block, payload, token, folder) for block in read]
        counts = [workspace.submit(_values_kept, columns) for columns in tasks]
        return tasks, workspace.results(stage, counts, block_names)


def _term_columns(packed: Packed, payload: Packed, token: str, folder: str) -> Packed:
    block: ReadBlock = unpack(packed)
    columns = columns_among(np.asarray(block.terms), unpacked(token, payload))
    n_values = int((columns[block.X.indices] >= 0).sum())
    return pack(TermColumns(columns, n_values), folder)


def _values_kept(packed: Packed) -> int:
    found: TermColumns = packed.value
    return found.n_values


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
    if feature_names is None and (fitted is None or not has_terms(fitted)):
        return None
    names = name_array(fitted.get_feature_names_out() if feature_names is None else feature_names)
    if names.shape != (X.shape[1],):
        raise DataError(f"feature_names holds {names.size} names, but X has {X.shape[1]} columns.")
    return names


def _checked(X: Any) -> Any:
    """Features as a local fit takes them."""
    X = canonical_rows(check_array(X, accept_sparse="csr", dtype=[np.float32, np.float64]))
    return sparse.csr_array(X) if sparse.issparse(X) else X


def _stacked(
    workspace: DaskWorkspace | ClientWorkspace,
    block_names: list[str],
    read: list[Any],
    columns: list[Any],
    found: Survey,
    names: NDArray[Any],
    weighting: Weighting | None,
) -> tuple[Any, sparse.csr_array]:
    """All blocks one behind the other."""
    stage = "encoding"
    n_rows, n_values, n_carried = (np.concatenate([[0], np.cumsum(sizes)]) for sizes in zip(*found.sizes, strict=True))
    total = int(n_rows[-1])
    Y = _empty_rows(workspace, int(n_carried[-1]), (total, len(names)), np.float32)
    if found.is_sparse:
        X = _empty_rows(workspace, int(n_values[-1]), (total, found.n_features), found.dtype)
    else:
        X = workspace.empty((total, found.n_features), found.dtype)
    shared = (X, Y, weighting, names if found.kind == "names" else None)
    with workspace.clear_errors(stage):
        payload, token = workspace.share(shared), secrets.token_hex(8)
        ends = zip(n_rows.tolist(), n_values.tolist(), n_carried.tolist(), strict=True)
        starts = [BlockSize(*start) for start in ends][: len(read)]
        each = zip(read, columns, starts, strict=True)
        tasks = [workspace.submit(_put_block, *own, payload, token) for own in each]
        workspace.results(stage, tasks, block_names, wanted=False)
    return X, Y


def _empty_rows(
    workspace: DaskWorkspace | ClientWorkspace, n_values: int, shape: tuple[int, int], dtype: Any
) -> sparse.csr_array:
    """A matrix with room for all blocks."""
    index = np.int32 if max(n_values, *shape) < INT32 else np.int64
    matrix = sparse.csr_array(shape, dtype=dtype)
    matrix.data, matrix.indices = workspace.empty(n_values, dtype), workspace.empty(n_values, index)
    matrix.indptr = workspace.empty(shape[0] + 1, index)
    matrix.indptr[0] = 0
    return matrix


def _put_block(packed: Packed, packed_columns: Packed | None, start: BlockSize, payload: Packed, token: str) -> None:
    """Bring one block into the numbers of all, and copy it to its place."""
    block: ReadBlock = unpack(packed)
    X, Y, weighting, names = unpacked(token, payload)
    own_X, own_Y = block.X, block.Y
    if packed_columns is not None:
        columns: TermColumns = unpack(packed_columns)
        with named_errors(Block(block.name, None, None)):
            counts = _renumbered(own_X, columns.columns, X.shape[1])
            own_X = _checked(weighted_counts(weighting.vectorizer, counts, weighting.idf))
    if block.names is not None:
        own_Y = _renumbered(own_Y, columns_among(block.names, names), Y.shape[1])
    if sparse.issparse(X):
        _put_rows(own_X, X, start.n_rows, start.n_values)
    else:
        X[start.n_rows : start.n_rows + own_X.shape[0]] = own_X
    _put_rows(own_Y, Y, start.n_rows, start.n_carried)


def _renumbered(matrix: sparse.csr_array, columns: NDArray[np.int32], width: int) -> sparse.csr_array:
    """The matrix with other numbers of its columns; those with -1 are left out."""
    found = columns[matrix.indices]
    kept = found >= 0
    if kept.all():
        moved = sparse.csr_array((matrix.data, found, matrix.indptr), shape=(matrix.shape[0], width))
    else:
        indptr = np.concatenate([[0], np.cumsum(kept)])[matrix.indptr]
        moved = sparse.csr_array((matrix.data[kept], found[kept], indptr), shape=(matrix.shape[0], width))
    if not moved.has_sorted_indices:
        moved = moved.copy()
        moved.sort_indices()
    return moved


def _put_rows(rows: sparse.csr_array, whole: sparse.csr_array, first_row: int, first_value: int) -> None:
    places = slice(first_value, first_value + rows.nnz)
    whole.data[places], whole.indices[places] = rows.data, rows.indices
    whole.indptr[first_row + 1 : first_row + 1 + rows.shape[0]] = rows.indptr[1:].astype(np.int64) + first_value
