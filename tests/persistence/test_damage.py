"""A damaged, truncated, foreign or newer model gives one clear error, which names the file."""

import hashlib
import json
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pysldl.exceptions import ModelFormatError
from pysldl.persistence import load_model, read_manifest
from pysldl.persistence.manifest import _checksum


def edit(folder: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Change the manifest as a forger would: checksums fit."""
    path = folder / "manifest.json"
    content = json.loads(path.read_bytes())
    del content["sha256"]
    change(content)
    for name, record in content.get("files", {}).items():
        if (folder / name).is_file():
            data = (folder / name).read_bytes()
            record.update(bytes=len(data), sha256=hashlib.sha256(data).hexdigest())
    path.write_text(json.dumps({**content, "sha256": _checksum(content)}))


def refused(folder: Path, message: str, **options: Any) -> None:
    with pytest.raises(ModelFormatError, match=message) as caught:
        load_model(folder, **options)
    assert str(folder) in str(caught.value)


def test_missing(tmp_path: Path) -> None:
    refused(tmp_path / "nowhere", "no such model folder")


def test_a_file_instead_of_a_folder(tmp_path: Path) -> None:
    path = tmp_path / "model"
    path.write_text("hello")
    refused(path, "a model is a folder")


def test_a_foreign_folder(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    refused(tmp_path, r"not a pysldl model: it has no current\.json")


@pytest.mark.parametrize("content", ["{}", "[]", '"pysldl-model"', '{"format": "other", "format_version": 1}'])
def test_a_foreign_manifest(content: str, tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text(content)
    refused(tmp_path, "not the manifest of a pysldl model")


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe", b"[" * 100_000], ids=["empty", "cut", "binary", "deep"])
def test_a_manifest_that_is_no_json(content: bytes, folder: Path) -> None:
    (folder / "manifest.json").write_bytes(content)
    refused(folder, "not valid JSON")


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe", b"[" * 4000], ids=["empty", "cut", "binary", "deep"])
def test_a_pointer_that_is_no_json(content: bytes, folder: Path) -> None:
    pointer = folder.parents[1] / "current.json"
    pointer.write_bytes(content)
    refused(folder.parents[1], "current.json: is not valid JSON")


def test_one_flipped_bit_in_the_pointer(folder: Path) -> None:
    pointer = folder.parents[1] / "current.json"
    data = pointer.read_bytes()
    for position in range(len(data)):
        flipped = bytearray(data)
        flipped[position] ^= 1
        pointer.write_bytes(flipped)
        with pytest.raises(ModelFormatError):
            load_model(folder.parents[1])
    pointer.write_bytes(data)
    load_model(folder.parents[1])


@pytest.mark.parametrize("name", ["../../other", "/etc", "0123456789abcdeg", "0123456789ABCDEF", 7, None])
def test_a_pointer_leads_to_a_version_and_nowhere_else(name: Any, folder: Path) -> None:
    pointer = folder.parents[1] / "current.json"
    pointer.write_text(json.dumps(json.loads(pointer.read_text()) | {"current": name}, indent=1) + "\n")
    refused(folder.parents[1], "does not name a version")


def test_a_pointer_to_a_version_that_is_not_there(folder: Path) -> None:
    shutil.rmtree(folder)
    refused(folder.parents[1], r"manifest\.json: is missing")


def test_a_pointer_of_a_newer_format_says_what_to_install(folder: Path) -> None:
    content = {"format": "pysldl-model", "format_version": 99, "required_library": "7.2.0"}
    (folder.parents[1] / "current.json").write_text(json.dumps(content))
    refused(folder.parents[1], "format 99.*Install pysldl 7.2.0 or newer")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no pipes with names")
@pytest.mark.parametrize("name", ["manifest.json", "arrays.safetensors", "labels.json", "../../current.json"])
@pytest.mark.timeout(20, func_only=True)
def test_a_pipe_or_a_device_in_place_of_a_file_is_not_opened(name: str, folder: Path) -> None:
    path = folder / name
    path.unlink()
    os.mkfifo(path)
    refused(folder.parents[1], "not a regular file")
    path.unlink()
    path.symlink_to("/dev/zero")
    refused(folder.parents[1], "not a regular file")


def test_a_manifest_of_any_length_is_not_read(folder: Path) -> None:
    with (folder / "manifest.json").open("ab") as stream:
        stream.truncate(10**12)  # a file with a hole, which takes no space
    refused(folder, "so it is no manifest")


def test_a_manifest_that_is_a_folder(tmp_path: Path) -> None:
    (tmp_path / "manifest.json").mkdir()
    refused(tmp_path, "not a regular file")


def test_a_newer_format_says_what_to_install(folder: Path) -> None:
    # A newer manifest may look different altogether; only these three keys are promised.
    content = {"format": "pysldl-model", "format_version": 99, "required_library": "7.2.0"}
    (folder / "manifest.json").write_text(json.dumps(content))
    refused(folder, "format 99.*Install pysldl 7.2.0 or newer")
    with pytest.raises(ModelFormatError, match=r"Install pysldl 7\.2\.0"):
        read_manifest(folder)


@pytest.mark.parametrize("version", [2, 1, 0, -1, "3", None, 1.5, True, [3]])
def test_any_other_format_says_to_fit_again(version: Any, folder: Path) -> None:
    edit(folder, lambda content: content.update(format_version=version))
    refused(folder, "format .*Fit it again")


@pytest.mark.parametrize("name", ["arrays.safetensors", "labels.json"])
@pytest.mark.parametrize("verify", [True, False])
def test_missing_truncated_and_extended_files(name: str, verify: bool, folder: Path) -> None:
    path = folder / name
    data = path.read_bytes()
    path.write_bytes(data[:-1])
    refused(folder, f"{name}: has {len(data) - 1} bytes instead of {len(data)}", verify=verify)
    path.write_bytes(data + b" ")
    refused(folder, f"{name}: has", verify=verify)
    path.write_bytes(b"")
    refused(folder, f"{name}: has 0 bytes", verify=verify)
    path.unlink()
    refused(folder, f"{name}: is missing", verify=verify)
    path.mkdir()
    refused(folder, f"{name}: ", verify=verify)


@pytest.mark.parametrize("name", ["arrays.safetensors", "labels.json", "manifest.json"])
def test_one_flipped_bit_anywhere(name: str, folder: Path) -> None:
    path = folder / name
    data = path.read_bytes()
    for position in np.random.default_rng(0).choice(len(data), min(len(data), 150), replace=False):
        flipped = bytearray(data)
        flipped[position] ^= 1
        path.write_bytes(flipped)
        with pytest.raises(ModelFormatError):
            load_model(folder)
    path.write_bytes(data)
    load_model(folder)


def test_an_edited_manifest(folder: Path) -> None:
    path = folder / "manifest.json"
    path.write_text(path.read_text().replace('"n_neighbors": 5', '"n_neighbors": 6'))
    refused(folder, "damaged or edited")
    with pytest.raises(ModelFormatError, match="damaged or edited"):
        read_manifest(folder)
    assert load_model(folder, verify=False).decoder.n_neighbors == 6


@pytest.mark.parametrize(
    "key", ["library_version", "required_library", "created", "class", "n_labels", "n_bytes", "files", "extra", "model"]
)
def test_an_incomplete_manifest(key: str, folder: Path) -> None:
    edit(folder, lambda content: content.pop(key))
    refused(folder, f"incomplete.*{key}")


@pytest.mark.parametrize("name", ["../secret.json", "/etc/passwd", "a/b.json", "", ".json", "A.JSON", "code.py"])
def test_files_outside_of_the_folder_are_not_opened(name: str, folder: Path) -> None:
    edit(folder, lambda content: content["files"].update({name: {"bytes": 1, "sha256": ""}}))
    refused(folder, "no file of a model")


def set_class(tree: dict[str, Any], name: Any) -> None:
    tree["class"] = name


@pytest.mark.parametrize("name", ["Popen", "os.system", "TfidfVectorizer", "BaseEstimator", "", None, ["x"]])
def test_only_registered_classes_are_built(name: Any, folder: Path) -> None:
    edit(folder, lambda content: set_class(content["model"]["state"]["decoder_"], name))
    refused(folder, "no class of this library|can build")


def test_no_module_of_the_file_is_imported(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "evil.py").write_text("raise SystemExit('imported')")
    monkeypatch.syspath_prepend(tmp_path)
    edit(folder, lambda content: set_class(content["model"], "evil.Model"))
    refused(folder, "evil.Model")
    assert "evil" not in sys.modules


CRAFTED: dict[str, Callable[[dict[str, Any]], None]] = {
    "unknown parameter": lambda tree: tree["params"].update(surprise=1),
    "unknown attribute": lambda tree: tree["state"].update(predict=1),
    "unknown kind": lambda tree: tree["state"].update(label_names_={"kind": "pickle", "data": "gASV"}),
    "no kind": lambda tree: tree["state"].update(label_names_={"data": "gASV"}),
    "unknown array": lambda tree: tree["state"]["label_counts_"].update(name="nothing"),
    "unknown file": lambda tree: tree["state"]["label_names_"].update(file="nothing.json"),
    "wrong shape": lambda tree: tree["state"]["label_names_"].update(shape=[7]),
    "wrong matrix shape": lambda tree: tree["state"]["decoder_"]["state"]["Y_"].update(shape=[3, 3]),
    "too few columns": lambda tree: tree["state"]["decoder_"]["state"]["Y_"].update(shape=[30, 2]),
    "negative shape": lambda tree: tree["state"]["decoder_"]["state"]["Y_"].update(shape=[-1, 2]),
    "unknown container": lambda tree: tree["state"]["decoder_"]["state"]["Y_"].update(container="lil"),
    "unknown dtype": lambda tree: tree["params"].update(mapping={"kind": "dtype", "value": "V8"}),
    "bad float": lambda tree: tree["params"].update(mapping={"kind": "float", "value": "much"}),
    "state is a list": lambda tree: tree.update(state=[]),
    "no state": lambda tree: tree.pop("state"),
    "parameters missing": lambda tree: tree.pop("params"),
}


@pytest.mark.parametrize("change", CRAFTED.values(), ids=CRAFTED)
def test_a_crafted_tree(change: Callable[[dict[str, Any]], None], folder: Path) -> None:
    edit(folder, lambda content: change(content["model"]))
    refused(folder, str(folder))


def test_a_tree_that_is_no_estimator(folder: Path) -> None:
    edit(folder, lambda content: content.update(model=[1, 2]))
    refused(folder, "describes no model")


def test_crafted_array_bounds(folder: Path) -> None:
    path = folder / "arrays.safetensors"
    data = path.read_bytes()
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    entry = header["embedding_.components_"]
    entry["shape"][0] *= 1000
    entry["data_offsets"][1] = entry["data_offsets"][0] + 4 * entry["shape"][0] * entry["shape"][1]
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data[8 + length :])
    edit(folder, lambda content: None)
    refused(folder, r"embedding_\.components_.*does not lie within")


def test_strings_that_are_no_json(folder: Path) -> None:
    (folder / "labels.json").write_bytes(b"[" * 100_000)
    edit(folder, lambda content: None)
    refused(folder, "can build")


def test_every_file_must_have_its_checksum(folder: Path) -> None:
    edit(folder, lambda content: content["files"].pop("labels.json"))
    refused(folder, "can build")
    edit(folder, lambda content: content["files"].pop("arrays.safetensors"))
    refused(folder, "describes no model")


def test_a_copied_folder_loads(folder: Path, tmp_path: Path, model: Any, X: Any) -> None:
    shutil.copytree(folder, tmp_path / "ein Ordner")
    found = load_model(str(tmp_path / "ein Ordner"))
    assert (found.decision_function(X) == model.decision_function(X)).all()
