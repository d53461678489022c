"""Write a model folder, completely or not at all."""

import json
import os
import shutil
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pysldl._utils.memory import format_bytes
from pysldl.exceptions import DataError
from pysldl.persistence.encoding import TreeEncoder
from pysldl.persistence.manifest import (
    ARRAYS,
    FORMAT_VERSION,
    MANIFEST,
    REQUIRED_LIBRARY,
    FileRecord,
    Manifest,
    dump_json,
    seal,
)
from pysldl.persistence.tensors import tensors_size, write_tensors
from pysldl.persistence.versions import check_target, new_version, write_file


def save_model(
    model: Any,
    path: str | os.PathLike[str],
    *,
    extra: Mapping[str, Any] | None = None,
    overwrite: bool = False,
    expected_version: str | None = None,
) -> None:
    """Write a fitted model into the folder ``path``.

    A new version is written beside the present one, and becomes the current one in one step when it is whole. If
    anything fails, the present version is what it was. It stays until the next save; versions before it are removed.
    Writers of the same folder wait for each other.

    Parameters
    ----------
    model : estimator of the library
        Fitted. A random generator or a callback among its parameters is not saved; it is None after loading.
    path : str or path
        Folder to make, in a folder that exists.
    extra : dict, optional
        Anything JSON can hold, for :func:`read_manifest` to give back: where the data came from, its metrics.
    overwrite : bool
        Replace a model that is there. A folder that is something else is never touched.
    expected_version : str, optional
        Name of the version that this model was made from (``current_version(path).name``). If another one is current
        by now, the model is not saved, so that nobody's changes are lost.

    Raises
    ------
    DataError
        The folder may not be replaced, cannot be written (no space, no permission), or the model holds something that
        has no place in it. Nothing was changed.
    """
    from sklearn.utils.validation import check_is_fitted  # not above: reading a model does not wait for it

    target = Path(path).resolve()
    check_target(target, overwrite=overwrite, expected=expected_version)
    encoder = TreeEncoder()
    tree = encoder.estimator(model)
    check_is_fitted(model)
    texts = {name: dump_json(content) for name, content in encoder.strings.items()}
    about = _check_extra(extra)
    needed = tensors_size(encoder.arrays) + sum(map(len, texts.values())) + len(dump_json(tree))
    try:
        if shutil.disk_usage(target.parent).free < needed:
            raise OSError("there is not enough space")
        with new_version(target, overwrite=overwrite, expected=expected_version) as folder:
            with write_file(folder / ARRAYS) as file:
                write_tensors(file, encoder.arrays)
            files = {ARRAYS: FileRecord(file.size, file.sha256.hexdigest())}
            for name, text in texts.items():
                with write_file(folder / name) as file:
                    file.write(text)
                files[name] = FileRecord(file.size, file.sha256.hexdigest())
            with write_file(folder / MANIFEST) as file:
                file.write(seal(_manifest(model, tree, files, about)))
    except OSError as error:
        raise DataError(
            f"{path}: the model cannot be written: {error.strerror or error}. It needs {format_bytes(needed)}"
            f"{_free_space(target.parent)}. Nothing was changed."
        ) from error


def _manifest(model: Any, tree: dict[str, Any], files: dict[str, FileRecord], extra: dict[str, Any]) -> Manifest:
    from pysldl import __version__  # the package itself imports this module's callers

    names, n_features = getattr(model, "label_names_", None), getattr(model, "n_features_in_", None)
    return Manifest(
        format_version=FORMAT_VERSION,
        library_version=__version__,
        required_library=REQUIRED_LIBRARY,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        model_class=tree["class"],
        n_labels=None if names is None else len(names),
        n_features=None if n_features is None else int(n_features),
        n_bytes=sum(record.bytes for record in files.values()),
        files=files,
        extra=extra,
        tree=tree,
    )


def _check_extra(extra: Mapping[str, Any] | None) -> dict[str, Any]:
    try:
        about: dict[str, Any] = json.loads(dump_json(dict(extra or {})))
    except (TypeError, ValueError) as error:
        raise DataError(f"extra must hold only what JSON can hold ({error}).") from error
    return about


def _free_space(folder: Path) -> str:
    try:
        return f", and {format_bytes(shutil.disk_usage(folder).free)} are free"
    except OSError:
        return ""
