"""Saving changes everything or nothing, whatever happens on the way."""

import errno
import os
import subprocess
import sys
import textwrap
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pysldl import SLDLClassifier
from pysldl.embedding import RandomLabelEmbedding
from pysldl.exceptions import DataError
from pysldl.persistence import folder as folders
from pysldl.persistence import load_model, save_model, saving

needs_posix = pytest.mark.skipif(os.name != "posix", reason="uses limits and signals of POSIX systems")


def numbered(number: int) -> RandomLabelEmbedding:
    """A model that tells which one it is, in its parameters and in its arrays."""
    model = RandomLabelEmbedding(number)
    model.components_ = np.full((1000, 8), number, dtype=np.float32)
    return model


def number_of(path: Path, **options: Any) -> int:
    model = load_model(path, **options)
    numbers = {model.n_components, *np.unique(model.components_).astype(int).tolist()}
    assert len(numbers) == 1, "parts of two models"
    return numbers.pop()


def test_an_existing_model_is_replaced_only_on_request(tmp_path: Path) -> None:
    path = tmp_path / "model"
    save_model(numbered(1), path)
    with pytest.raises(DataError, match="overwrite=True"):
        save_model(numbered(2), path)
    assert number_of(path) == 1
    loaded = load_model(path)
    save_model(numbered(2), path, overwrite=True)
    assert number_of(path) == 2
    assert loaded.components_[0, 0] == 1, "a model in use keeps its arrays"
    assert [entry.name for entry in tmp_path.iterdir()] == ["model"]


def test_a_loaded_model_can_be_saved_over_itself(tmp_path: Path) -> None:
    save_model(numbered(1), tmp_path / "model")
    save_model(load_model(tmp_path / "model"), tmp_path / "model", overwrite=True)
    assert number_of(tmp_path / "model") == 1


@pytest.mark.parametrize("overwrite", [True, False])
def test_what_is_no_model_is_never_replaced(overwrite: bool, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "manifest.json").write_text("{}")
    for name in ("empty", "thesis"):
        with pytest.raises(DataError, match="not a pysldl model"):
            save_model(numbered(1), tmp_path / name, overwrite=overwrite)
    (tmp_path / "file").write_text("hello")
    with pytest.raises(DataError, match="is a file"):
        save_model(numbered(1), tmp_path / "file", overwrite=overwrite)
    assert (tmp_path / "file").read_text() == "hello"
    assert (tmp_path / "thesis" / "manifest.json").read_text() == "{}"


def test_a_model_folder_with_other_files_is_not_replaced(tmp_path: Path) -> None:
    path = tmp_path / "model"
    save_model(numbered(1), path)
    (path / "notes.txt").write_text("dear diary")
    with pytest.raises(DataError, match=r"notes\.txt"):
        save_model(numbered(2), path, overwrite=True)
    assert number_of(path) == 1


def test_a_missing_parent_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no such folder to write the model m into"):
        save_model(numbered(1), tmp_path / "nowhere" / "m")


def test_a_link_to_a_model_stays_a_link(tmp_path: Path) -> None:
    save_model(numbered(1), tmp_path / "real")
    (tmp_path / "link").symlink_to("real")
    save_model(numbered(2), tmp_path / "link", overwrite=True)
    assert (tmp_path / "link").is_symlink()
    assert number_of(tmp_path / "real") == 2


def test_the_folder_is_as_readable_as_any_new_one(tmp_path: Path) -> None:
    (tmp_path / "plain").mkdir()
    save_model(numbered(1), tmp_path / "model")
    assert (tmp_path / "model").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_too_little_space_is_refused_before_writing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save_model(numbered(1), tmp_path / "model")
    usage = type("Usage", (), {"free": 31_000})
    monkeypatch.setattr(saving.shutil, "disk_usage", lambda folder: usage)
    with pytest.raises(
        DataError, match=r"not enough space.*needs 32\.\d kB, and 31\.0 kB are free\. Nothing was changed"
    ):
        save_model(numbered(2), tmp_path / "model", overwrite=True)
    assert number_of(tmp_path / "model") == 1


@pytest.mark.parametrize("step", ["mkdir", "write", "fsync", "put_in_place", "first rename", "second rename"])
@pytest.mark.parametrize("replacing", [True, False])
def test_any_step_may_fail(step: str, replacing: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "model"
    if replacing:
        save_model(numbered(1), path)
    rename = Path.rename
    renames = 0

    def fail(*args: Any, **options: Any) -> Any:
        raise OSError(errno.ENOSPC, "No space left on device")

    def fail_second(source: Path, target: Path) -> Path:
        nonlocal renames
        renames += 1
        if renames == (2 if replacing else 1):
            fail()
        return rename(source, target)

    match step:
        case "mkdir":
            monkeypatch.setattr(Path, "mkdir", fail)
        case "write":
            monkeypatch.setattr(folders.HashedFile, "write", fail)
        case "fsync":
            monkeypatch.setattr(os, "fsync", fail)
        case "put_in_place":
            monkeypatch.setattr(saving, "put_in_place", fail)
        case "first rename":
            monkeypatch.setattr(Path, "rename", fail)
        case "second rename":
            monkeypatch.setattr(Path, "rename", fail_second)
    with pytest.raises(DataError, match=r"No space left on device.*needs .* are free\. Nothing was changed"):
        save_model(numbered(2), path, overwrite=True)
    monkeypatch.undo()
    if replacing:
        assert number_of(path) == 1
    assert [entry.name for entry in tmp_path.iterdir()] == (["model"] if replacing else [])


def test_an_interrupt_cleans_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*args: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(saving, "seal", interrupt)
    with pytest.raises(KeyboardInterrupt):
        save_model(numbered(1), tmp_path / "model")
    assert list(tmp_path.iterdir()) == []


def run(script: str, folder: Path) -> str:
    """Run a script in a process of its own, with `folder` and the functions of this file at hand."""
    prelude = f"""
        import os, resource, signal, sys
        from pathlib import Path
        sys.path.insert(0, {str(Path(__file__).parent)!r})
        from test_saving import number_of, numbered
        from pysldl.exceptions import DataError
        from pysldl.persistence import save_model
        path = Path({str(folder)!r}) / "model"
    """
    result = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(prelude) + textwrap.dedent(script)],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
        check=False,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


@needs_posix
def test_a_write_that_really_fails(tmp_path: Path) -> None:
    """The system itself refuses to let a file grow beyond 10 kB, half way through the arrays."""
    script = """
        save_model(numbered(1), path)
        resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, resource.RLIM_INFINITY))
        try:
            save_model(numbered(2), path, overwrite=True)
        except DataError as error:
            print(error)
    """
    assert "File too large. It needs 32." in run(script, tmp_path)
    assert number_of(tmp_path / "model") == 1
    assert [entry.name for entry in tmp_path.iterdir()] == ["model"]


@needs_posix
def test_killed_at_every_step(tmp_path: Path) -> None:
    """SIGKILL before the n-th change to the file system, for every n: the old model or the new one is there, whole."""
    script = """
        CHANGES = {"open", "os.mkdir", "os.rename", "os.remove", "os.rmdir", "shutil.rmtree"}

        def save_and_die(step):
            count = 0
            def hook(event, args):
                nonlocal count
                if event in CHANGES and str(path.parent) in str(args[0]):
                    count += 1
                    if count == step:
                        os.kill(os.getpid(), signal.SIGKILL)
            sys.addaudithook(hook)
            save_model(numbered(2), path, overwrite=True)

        for step in range(1, 100):
            save_model(numbered(1), path, overwrite=path.exists() or step > 1)
            child = os.fork()
            if child == 0:
                save_and_die(step)
                os._exit(0)
            _, status = os.waitpid(child, 0)
            print(number_of(path), int(path.exists()), status)
            if status == 0:
                break
    """
    lines = [tuple(map(int, line.split())) for line in run(script, tmp_path).splitlines()]
    found = [number for number, _, _ in lines]
    assert found == sorted(found), "once the new model is there, it stays"
    assert found[0] == 1
    assert lines[-1] == (2, 1, 0)
    assert all(status == 9 for _, _, status in lines[:-1])
    assert any(not exists for _, exists, _ in lines), "the moment between the two renames was among the steps"
    assert number_of(tmp_path / "model") == 2


def test_the_model_put_aside_by_a_killed_save_is_not_lost(tmp_path: Path) -> None:
    path = tmp_path / "model"
    save_model(numbered(1), path)
    path.rename(folders._previous(path))
    assert number_of(path) == 1
    with pytest.raises(DataError, match="overwrite=True"):
        save_model(numbered(2), path)
    save_model(numbered(2), path, overwrite=True)
    assert number_of(path) == 2
    assert [entry.name for entry in tmp_path.iterdir()] == ["model"]


@pytest.mark.parametrize("verify", [True, False])
def test_a_reader_never_sees_half_a_model(verify: bool, tmp_path: Path) -> None:
    path = tmp_path / "model"
    save_model(numbered(0), path)
    stop = threading.Event()

    def keep_saving() -> None:
        number = 1
        while not stop.wait(0.002):
            save_model(numbered(number), path, overwrite=True)
            number += 1

    writer = threading.Thread(target=keep_saving)
    writer.start()
    seen: list[int] = []
    try:
        while len(seen) < 100 or len(set(seen)) < 10:
            seen.append(number_of(path, verify=verify))
    finally:
        stop.set()
        writer.join()
    assert seen == sorted(seen)


def test_save_method_of_the_classifier(model: SLDLClassifier, X: Any, tmp_path: Path) -> None:
    model.save(tmp_path / "model")
    with pytest.raises(DataError, match="overwrite=True"):
        model.save(tmp_path / "model")
    model.save(tmp_path / "model", overwrite=True)
    assert (load_model(tmp_path / "model").decision_function(X) == model.decision_function(X)).all()
