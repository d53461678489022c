"""Read a model folder, whole or only what predicts, after checking that it is complete and of a known format."""

import hashlib
import json
import os
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from pysldl._utils.files import open_regular
from pysldl.exceptions import MissingDependencyError, ModelFormatError
from pysldl.persistence.decoding import TreeDecoder
from pysldl.persistence.manifest import ARRAYS, Manifest, load_manifest
from pysldl.persistence.registry import home_of
from pysldl.persistence.state import check_state
from pysldl.persistence.tensors import read_tensors
from pysldl.persistence.versions import read_current

# The predicting half of a class; the estimator lies above this layer, so that it is named and not imported.
HALVES = {
    "SLDLClassifier": ("pysldl.estimator.predictor", "StagedPredictor"),
    "RidgeMapping": ("pysldl.mapping.linear_predictor", "LinearPredictor"),
    "LandmarkRidge": ("pysldl.mapping.linear_predictor", "LandmarkPredictor"),
}
WHOLE = (
    *("pysldl.decoding", "pysldl.neighbors", "pysldl.ranking"),
    *("pysldl.estimator.calibration", "pysldl.preprocessing.vocabulary"),
)
PARAMETERS = {
    "SLDLClassifier": {"normalize", "device", "memory_limit"},
    "RidgeMapping": {"fit_intercept"},
    "LandmarkRidge": {"fit_intercept"},
}
ONLY_TO_LEARN = {"training_features_", "training_labels_", "normal_equations_"}


def load_model(path: str | os.PathLike[str], *, mmap: bool = True, verify: bool = True) -> Any:
    """Load a model that :func:`save_model` wrote.

    Nothing in the folder can run code: only classes of the library, or registered ones, are built.

    Parameters
    ----------
    path : str or path
        The model folder, or one version of it (:func:`current_version`).
    mmap : bool
        Leave the arrays on the disk and read what is used when it is used; several processes share it. What
        is changed in them stays in this process. False reads them into memory.
    verify : bool
        Compare every file with its SHA-256. Shapes, types, indices and finiteness of the arrays are checked in any
        case.

    Raises
    ------
    ModelFormatError
        The folder is missing, damaged, foreign, or of a newer format.
    """
    return read_model(path, TreeDecoder, mmap=mmap, verify=verify)


def read_model(
    path: str | os.PathLike[str],
    decoder: type[TreeDecoder],
    *,
    mmap: bool = True,
    verify: bool = True,
    arrays: Path | None = None,
) -> Any:
    """Read a model folder with ``decoder``; ``arrays`` names another file for its arrays. See :func:`load_model`."""

    def load(folder: Path) -> Any:
        manifest = load_manifest(folder, verify=verify)
        where = {name: folder / name for name in manifest.files}
        if arrays is not None:
            where[ARRAYS] = arrays
        _check_files(folder, where, manifest, verify=verify)
        return _build(folder, where, decoder, manifest.tree, mapped=mmap)

    return read_current(path, load)


def read_manifest(path: str | os.PathLike[str]) -> Manifest:
    """Read the manifest of a model folder, without loading the model.

    The manifest is checked against its checksum, the other files are not looked at.

    Parameters
    ----------
    path : str or path
        The model folder, or one version of it (:func:`current_version`).

    Returns
    -------
    Manifest
        Its content.

    Raises
    ------
    ModelFormatError
        The folder is missing or foreign, its manifest is damaged, or its format is another.
    """
    return read_current(path, lambda folder: load_manifest(folder, verify=True))


def _check_files(folder: Path, where: dict[str, Path], manifest: Manifest, *, verify: bool) -> None:
    for name, record in manifest.files.items():
        path = folder / name  # the sealed copy has no name that tells a person anything
        try:
            with open_regular(where[name]) as stream:
                size = os.fstat(stream.fileno()).st_size
                if size != record.bytes:
                    raise ModelFormatError(f"{path}: has {size} bytes instead of {record.bytes}: the model is damaged.")
                if verify and hashlib.file_digest(stream, "sha256").hexdigest() != record.sha256:
                    raise ModelFormatError(f"{path}: does not match its SHA-256: the model is damaged.")
        except FileNotFoundError as error:
            raise ModelFormatError(f"{path}: is missing: the model is damaged.") from error
        except OSError as error:
            raise ModelFormatError(f"{path}: cannot be read: {error.strerror}.") from error


def _read_strings(path: Path) -> Any:
    with open_regular(path) as stream:
        return json.loads(stream.read())


def _build(
    folder: Path, where: dict[str, Path], decoder: type[TreeDecoder], tree: dict[str, Any], *, mapped: bool
) -> Any:
    try:
        arrays = read_tensors(where[ARRAYS], mapped=mapped)
        strings = {name: _read_strings(path) for name, path in where.items() if name != ARRAYS}
        model = decoder(str(folder), arrays, strings).estimator(tree)
    except (ModelFormatError, MissingDependencyError):
        raise
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError, OSError) as error:
        # The checksums hold, so this is no accident of the disk: another program wrote or edited the folder.
        raise ModelFormatError(
            f"{folder}: does not describe a model that this library can build ({type(error).__name__}: "
            f"{str(error)[:200]})."
        ) from error
    try:
        check_state(model)
    except ModelFormatError as error:
        raise ModelFormatError(f"{folder}: does not describe a model that can answer: {error}") from None
    return model


class _WholeNeededError(Exception):
    """The model holds something that has no predicting half."""


def load_predictor(path: str | os.PathLike[str], *, mmap: bool = True, arrays: Path | None = None) -> Any:
    """Load the predicting half of a model, its arrays verified; the whole model if it has no halves.

    What it predicts is what the whole model predicts, to the bit. It does not wait for scikit-learn, which takes longer
    than all else, unless the model holds a vectorizer; so its features must have been checked.

    Parameters
    ----------
    path : str or path
        The model folder, or one version of it (:func:`current_version`).
    mmap : bool
        Leave the arrays where they are and read what is used when it is used; False reads them into memory.
    arrays : Path, optional
        Take the arrays from here, a copy of the version's own that :func:`frozen_arrays` made.

    Returns
    -------
    StagedPredictor, or the model itself
    """
    try:
        return read_model(path, _Half, mmap=mmap, arrays=arrays)
    except _WholeNeededError:
        return read_model(path, TreeDecoder, mmap=mmap, arrays=arrays)


class _Half(TreeDecoder):
    """Builds the half that predicts."""

    def estimator(self, node: Mapping[str, Any]) -> Any:
        name, home = node["class"], home_of(node["class"]) or ""
        if home.startswith("pysldl.embedding"):  # nothing but its arrays is asked any more
            return SimpleNamespace(**self._fitted(node))
        if name in HALVES:
            module, half = HALVES[name]
            predictor = getattr(import_module(module), half)()
            params = {key: value for key, value in node["params"].items() if key in PARAMETERS[name]}
            if len(params) < len(PARAMETERS[name]):  # one that was not saved has its default, which the class knows
                raise _WholeNeededError(name)
            vars(predictor).update(self._items(params) | self._fitted(node))
            return predictor
        if home and not home.startswith(WHOLE):
            raise _WholeNeededError(name)
        return super().estimator(node)

    def _fitted(self, node: Mapping[str, Any]) -> dict[str, Any]:
        """The fitted attributes; all are named with an underscore at the end, which no method is."""
        for attribute in node["state"]:
            if attribute.startswith("_") or not attribute.endswith("_"):
                raise ModelFormatError(f"{self.source}: sets {attribute!r}, which no {node['class']} has.")
        return self._items({key: value for key, value in node["state"].items() if key not in ONLY_TO_LEARN})
