"""Saving changes everything or nothing, whatever happens on the way."""

import errno
import os
import shutil
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
from pysldl.persistence import current_version, load_model, lock_model, save_model, saving, versions

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
def test_what_is_no_model_is_never_touched(overwrite: bool, tmp_path: Path) -> None:
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "manifest.json").write_text("{}")
    with pytest.raises(DataError, match="not a pysldl model"):
        save_model(numbered(1), tmp_path / "thesis", overwrite=overwrite)
    (tmp_path / "file").write_text("hello")
    with pytest.raises(DataError, match="is a file"):
        save_model(numbered(1), tmp_path / "file", overwrite=overwrite)
    assert (tmp_path / "file").read_text() == "hello"
    assert [entry.name for entry in (tmp_path / "thesis").iterdir()] == ["manifest.json"]


def test_an_empty_folder_takes_a_model_and_notes_beside_it_stay(tmp_path: Path) -> None:
    path = tmp_path / "model"
    path.mkdir()
    save_model(numbered(1), path)
    (path / "notes.txt").write_text("dear diary")
    (path / "versions" / "mine").mkdir()
    save_model(numbered(2), path, overwrite=True)
    assert number_of(path) == 2
    assert (path / "notes.txt").read_text() == "dear diary" and (path / "versions" / "mine").is_dir()


def test_versions_lie_beside_each_other_until_the_next_save(tmp_path: Path) -> None:
    path = tmp_path / "model"
    seen = []
    for number in range(4):
        save_model(numbered(number), path, overwrite=True)
        seen.append(current_version(path))
    assert sorted(entry.name for entry in (path / "versions").iterdir()) == sorted(v.name for v in seen[-2:])
    assert [number_of(version) for version in seen[-2:]] == [2, 3]
    with pytest.raises(DataError, match="not a pysldl model"):  # a version is not a place to save to
        save_model(numbered(9), seen[-1], overwrite=True)


def test_a_model_is_saved_only_over_the_version_it_comes_from(tmp_path: Path) -> None:
    path = tmp_path / "model"
    save_model(numbered(1), path)
    first = current_version(path).name
    save_model(numbered(2), path, overwrite=True, expected_version=first)
    with pytest.raises(DataError, match="replaced by another process"):
        save_model(numbered(3), path, overwrite=True, expected_version=first)
    assert number_of(path) == 2


def test_a_writer_waits_for_another_and_then_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "model"
    save_model(numbered(1), path)
    outcome: list[str] = []

    def save() -> None:
        try:
            with lock_model(path, wait=0.2):
                outcome.append("got it")
        except DataError as error:
            outcome.append(str(error))

    with lock_model(path), lock_model(path):  # a thread may take it twice
        other = threading.Thread(target=save)
        other.start()
        other.join()
    assert "is being written by another process" in outcome[0]
    save()
    assert outcome[1] == "got it"


def test_a_link_that_is_turned_leads_to_the_other_model(tmp_path: Path) -> None:
    save_model(numbered(1), tmp_path / "first")
    save_model(numbered(2), tmp_path / "second")
    link = tmp_path / "link"
    link.symlink_to("first")
    before = current_version(link)
    link.unlink()
    link.symlink_to("second")
    assert current_version(link) != before and number_of(link) == 2


def test_a_model_copied_over_another_leaves_its_versions_alone(tmp_path: Path) -> None:
    save_model(numbered(1), tmp_path / "model")
    save_model(numbered(2), tmp_path / "new")
    loaded = load_model(tmp_path / "model")
    shutil.copytree(tmp_path / "new", tmp_path / "model", dirs_exist_ok=True)
    assert number_of(tmp_path / "model") == 2
    assert np.unique(loaded.components_).tolist() == [1]


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


@pytest.mark.parametrize("step", ["mkdir", "write", "fsync", "rename"])
@pytest.mark.parametrize("replacing", [True, False])
def test_any_step_may_fail(step: str, replacing: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "model"
    if replacing:
        save_model(numbered(1), path)

    def fail(*args: Any, **options: Any) -> Any:
        raise OSError(errno.ENOSPC, "No space left on device")

    match step:
        case "mkdir":
            monkeypatch.setattr(Path, "mkdir", fail)
        case "write":
            monkeypatch.setattr(versions.HashedFile, "write", fail)
        case "fsync":
            monkeypatch.setattr(os, "fsync", fail)
        case "rename":
            monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(DataError, match=r"No space left on device.*needs .* are free\. Nothing was changed") as caught:
        save_model(numbered(2), path, overwrite=True)
    monkeypatch.undo()
    behind: BaseException | None = caught.value
    for _ in range(20):  # no error lies behind itself, which would keep those busy for ever who look for the cause
        behind = None if behind is None else behind.__cause__ or behind.__context__
    assert behind is None
    if replacing:
        assert number_of(path) == 1
        assert len(list((path / "versions").iterdir())) == 1
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
@pytest.mark.parametrize("through_a_link", [False, True])
@pytest.mark.parametrize("replacing", [False, True])
def test_killed_at_every_step(through_a_link: bool, replacing: bool, tmp_path: Path) -> None:
    """SIGKILL before the n-th change to the file system, for every n: the old model or the new one is there, whole.

    The next save goes through without a word, and leaves nothing of what the killed one wrote.
    """
    script = f"""
        import shutil
        from pysldl.persistence import current_version
        CHANGES = {{"open", "os.mkdir", "os.rename", "os.remove", "os.rmdir", "shutil.rmtree"}}
        real = path.with_name("real") if {through_a_link} else path
        if {through_a_link}:
            real.mkdir()
            path.symlink_to("real")

        def save_and_die(step):
            count = 0
            def hook(event, args):
                nonlocal count
                if event in CHANGES and str(path.parent) in str(args[0]):
                    count += 1
                    if count == step:
                        os.kill(os.getpid(), signal.SIGKILL)
            sys.addaudithook(hook)
            save_model(numbered(2), path, overwrite={replacing})

        for step in range(1, 100):
            for entry in real.iterdir() if real.exists() else ():
                shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
            if {replacing}:
                save_model(numbered(1), path)
            child = os.fork()
            if child == 0:
                save_and_die(step)
                os._exit(0)
            _, status = os.waitpid(child, 0)
            found = number_of(path) if (path / "current.json").exists() else 0
            save_model(numbered(3), path, overwrite=found > 0)
            left = {{str(entry.relative_to(real)) for entry in real.rglob("*") if entry.parent != real / "versions"}}
            versions = len(list((real / "versions").iterdir()))
            assert number_of(path) == 3
            left = {{name for name in left if not name.startswith("versions/")}}
            assert left == {{"lock", "current.json", "versions"}}
            print(found, versions, status)
            if status == 0:
                break
    """
    lines = [tuple(map(int, line.split())) for line in run(script, tmp_path).splitlines()]
    found = [number for number, _, _ in lines]
    assert found == sorted(found), "once the new model is there, it stays"
    assert set(found) == ({1, 2} if replacing else {0, 2})
    assert all(versions == (1 if number == 0 else 2) for number, versions, _ in lines)
    assert lines[-1][2] == 0 and all(status == 9 for _, _, status in lines[:-1])


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
