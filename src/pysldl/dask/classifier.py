"""A meta-estimator: the ordinary classifier, fitted and asked on a Dask cluster."""

import os
import shutil
import tempfile
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, Self

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import check_is_fitted

from pysldl._utils.progress import reporting
from pysldl.backend.threads import at_most_threads
from pysldl.backend.workspace import use_workspace
from pysldl.dask.cluster import connect, memory_per_worker, require_dask, shared_folder
from pysldl.dask.memory import require_worker_memory
from pysldl.dask.parts import Block, LazyBlock, blocks_of, labeled_rows, named_errors, read_in_order
from pysldl.dask.prepare import prepare_rows
from pysldl.dask.transport import Packed, pack, release_pages, unpacked
from pysldl.dask.workspace import DaskWorkspace, FolderWorkspace, releasing_pages
from pysldl.estimator.classifier import SLDLClassifier
from pysldl.estimator.presets import make_sldl
from pysldl.persistence import load_model, save_model


class DaskSLDLClassifier(BaseEstimator):
    """Fit and ask a classifier on a Dask cluster, with rows that need not fit into the memory of any machine.

    The fitted model is the ordinary one, bit for bit what a local fit of the same rows gives, whatever the number of
    partitions and workers. Predictions are lazy, block by block; every worker maps the model once.

    Parameters
    ----------
    estimator : SLDLClassifier, optional
        Default: ``make_sldl("accurate")``.
    client : distributed.Client, optional
        Default: the client that the program has; without one, a cluster of this machine is made for the length of
        ``fit``.
    scratch : path, optional
        Folder for the arrays of a fit, on a disk that the client and all workers see. Default: where this machine keeps
        temporary files.

    Attributes
    ----------
    estimator_ : SLDLClassifier
        The fitted classifier, read from the model folder when it is first asked for, its arrays mapped.
    model_folder_ : str
        The model folder that workers read; it goes with this object. :meth:`save` copies it.

    Examples
    --------
    >>> from pysldl.dask import DaskSLDLClassifier, read_parts
    >>> clf = DaskSLDLClassifier()
    >>> clf.fit(read_parts("records/*.parquet")).save("model")  # doctest: +SKIP
    """

    _loaded: SLDLClassifier | None = None

    def __init__(
        self,
        estimator: SLDLClassifier | None = None,
        client: Any = None,
        *,
        scratch: str | os.PathLike[str] | None = None,
    ) -> None:
        self.estimator = estimator
        self.client = client
        self.scratch = scratch

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        text: str = "text",
        labels: str = "labels",
        label_names: Sequence[str] | None = None,
        feature_names: Sequence[str] | None = None,
    ) -> Self:
        """Fit the classifier to rows in blocks.

        Parameters
        ----------
        X : Parts, dask array, DataFrame, Series or bag, or list of delayed blocks
            Features, CSR or dense, or texts: ``read_parts(...)``, a dask array with blocks of whole rows, a Series or
            bag of texts, a frame or a bag of records with a column of texts, or blocks in any form that
            :meth:`pysldl.SLDLClassifier.fit` takes.
        y : the same, optional
            Labels in the same blocks: indicators or lists of label names. None where ``X`` has a column of them.
        text, labels : str
            Columns of ``X`` where ``y`` is None; ``read_parts`` has its own.
        label_names, feature_names : sequences of str, optional
            Names of the columns of indicators and of features.
        """
        estimator = make_sldl("accurate") if self.estimator is None else clone(self.estimator)
        blocks, names = blocks_of(X, y, text=text, label_lists=labels), (label_names, feature_names)
        with self._client() as client, fitted_to_blocks(estimator, client, blocks, self.scratch, *names) as fitted:
            self._take(fitted)
        return self

    def partial_fit(self, X: Any, y: Any = None, *, text: str = "text", labels: str = "labels") -> Self:
        """Learn from further blocks, as ``partial_fit`` of the classifier does; the first call is :meth:`fit`.

        The estimator must be one with ``online=True``. Blocks are read by the workers, one after the other, and
        learned in their order.

        Parameters
        ----------
        X, y, text, labels
            As in :meth:`fit`.
        """
        if not hasattr(self, "model_folder_"):
            return self.fit(X, y, text=text, labels=labels)
        blocks = blocks_of(X, y, text=text, label_lists=labels)
        grown = load_model(self.model_folder_, mmap=False)
        with self._client() as client:
            for block in read_in_order(client, blocks, "update"):
                X, y, names = labeled_rows(block, grown.label_names_)
                with named_errors(block):
                    grown.partial_fit(X, y, label_names=names)
        self._take(grown)
        return self

    def predict_topk(self, X: Any, k: int = 5, *, names: bool = False, proba: bool = False, text: str = "text") -> Any:
        """Return the k best labels of every row, best first, as two dask arrays of shape (n_samples, k).

        Parameters
        ----------
        X : as in :meth:`fit`
        k : int
        names : bool
            Give names instead of columns of ``Y``.
        proba : bool
            Give calibrated probabilities instead of scores.
        text : str
            Column of texts, where ``X`` is a frame or a bag of records.

        Returns
        -------
        labels, scores : dask arrays
        """
        import dask.array as da

        from dask import delayed

        check_is_fitted(self, "model_folder_")
        found = self._blocks(X, "predict_topk", text, k=k, names=names, proba=proba)
        sizes, pick = _block_sizes(X, len(found)), delayed(_pick)
        label_type = self.estimator_.label_names_.dtype if names else np.dtype(np.int64)
        score_type = np.dtype(np.float64 if proba else np.float32)
        return tuple(
            da.concatenate(
                [
                    da.from_delayed(pick(block, which), shape=(size, k), dtype=dtype)
                    for block, size in zip(found, sizes, strict=True)
                ],
                allow_unknown_chunksizes=True,
            )
            for which, dtype in enumerate((label_type, score_type))
        )

    def predict(self, X: Any, *, text: str = "text") -> Any:
        """Return the labels of every row above the learned threshold.

        Parameters
        ----------
        X, text
            As in :meth:`predict_topk`.

        Returns
        -------
        dask array with CSR blocks, or bag of lists of names
            In the form that ``fit`` was given.
        """
        check_is_fitted(self, "model_folder_")
        found = self._blocks(X, "predict", text)
        if self.estimator_.target_kind_ == "names":
            from dask.bag import from_delayed

            return from_delayed(found)
        return self._array_of(found, X, np.float32, sparse.csr_array((0, 0), dtype=np.float32))

    def predict_proba(self, X: Any, top: int | None = None, *, text: str = "text") -> Any:
        """Return calibrated probabilities as a dask array of shape (n_samples, n_labels).

        Parameters
        ----------
        X, text
            As in :meth:`predict_topk`.
        top : int, optional
            Keep only so many labels of each row; the blocks are then CSR.
        """
        check_is_fitted(self, "model_folder_")
        found = self._blocks(X, "predict_proba", text, top=top)
        if top is None:
            return self._array_of(found, X, np.float64, np.empty((0, 0)))
        return self._array_of(found, X, np.float32, sparse.csr_array((0, 0), dtype=np.float32))

    @property
    def estimator_(self) -> SLDLClassifier:
        """The fitted classifier."""
        if not hasattr(self, "model_folder_"):
            raise AttributeError("estimator_: call fit first.")
        if self._loaded is None:
            classifier: SLDLClassifier = load_model(self.model_folder_, verify=False)
            self._loaded = classifier
        return self._loaded

    def to_local(self) -> SLDLClassifier:
        """Return the fitted classifier."""
        check_is_fitted(self, "model_folder_")
        return self.estimator_

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write the model folder; see :func:`pysldl.persistence.save_model`.

        Parameters
        ----------
        path : path
        overwrite : bool
        """
        save_model(self.to_local(), path, overwrite=overwrite)

    @contextmanager
    def _client(self) -> Iterator[Any]:
        require_dask()
        with connect(None) if self.client is None else nullcontext(self.client) as client:
            yield client

    def _take(self, estimator: SLDLClassifier) -> None:
        """Keep a fitted classifier as a model folder that workers can map."""
        folder = tempfile.mkdtemp(prefix="pysldl-model-", dir=self.scratch)
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        self.model_folder_ = str(Path(folder, "model"))
        save_model(estimator, self.model_folder_)
        self._loaded = None

    def _blocks(self, X: Any, method: str, text: str, **arguments: Any) -> list[Any]:
        """Delayed results of a method of the classifier for every block."""
        from dask import delayed

        ask, folder = delayed(ask_block), self.model_folder_
        model = delayed(open_model)(folder, f"{folder}-arrays", dask_key_name=f"model-{folder}")
        blocks = blocks_of(X, labels=False, text=text)
        return [ask(block.rows, model, folder, method, arguments) for block in blocks]

    def _array_of(self, found: list[Any], X: Any, dtype: Any, meta: Any) -> Any:
        import dask.array as da

        width = len(self.estimator_.label_names_)
        pieces = [
            da.from_delayed(block, shape=(size, width), dtype=dtype, meta=meta)
            for block, size in zip(found, _block_sizes(X, len(found)), strict=True)
        ]
        return da.concatenate(pieces, allow_unknown_chunksizes=True)


@contextmanager
def fitted_to_blocks(
    estimator: SLDLClassifier,
    client: Any,
    blocks: Sequence[LazyBlock],
    scratch: str | os.PathLike[str] | None = None,
    label_names: Sequence[str] | None = None,
    feature_names: Sequence[str] | None = None,
) -> Iterator[SLDLClassifier]:
    """Fit an estimator on a cluster; its arrays lie in files that go at the end of the block.

    Parameters
    ----------
    estimator : SLDLClassifier
    client : distributed.Client
    blocks : sequence of LazyBlock
    scratch : path, optional
    label_names, feature_names : sequences of str, optional
    """
    with shared_folder(client, scratch) as folder, reporting(estimator.progress) as report:
        workspace = DaskWorkspace(client, folder, report)
        rows = prepare_rows(
            workspace, blocks, estimator.vectorizer, label_names=label_names, feature_names=feature_names
        )
        require_worker_memory(estimator, rows, memory_per_worker(client), workspace.n_shards)
        estimator.fit_prepared(rows, workspace)
        release_pages()
        with use_workspace(workspace):  # of what is saved, too
            yield estimator


def open_model(folder: str, arrays: str, *, verify: bool = False) -> Packed:
    """Read a model, and put its arrays into files that all workers map, in the folder ``arrays``.

    What the model folder holds compressed is written there as it is unpacked.
    """
    Path(arrays).mkdir(exist_ok=True)
    with releasing_pages(), use_workspace(FolderWorkspace(arrays)):
        return pack(load_model(folder, verify=verify), arrays)


def ask_block(block: Block, model: Packed, token: str, method: str, arguments: dict[str, Any]) -> Any:
    """Ask a model, which each process maps once, for one block; ``token`` tells it from others."""
    with releasing_pages(), named_errors(block), at_most_threads(1):
        return getattr(unpacked(token, model), method)(block.X, **arguments)


def _pick(pair: tuple[Any, Any], which: int) -> Any:
    return pair[which]


def _block_sizes(X: Any, n_blocks: int) -> list[float]:
    """Rows of every block, NaN where it is not known."""
    if hasattr(X, "parts"):
        return [part.n_rows for part in X.parts]
    chunks = getattr(X, "chunks", None)
    return list(chunks[0]) if chunks is not None and len(chunks[0]) == n_blocks else [np.nan] * n_blocks
