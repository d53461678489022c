"""New versions of a model folder: served when they are complete, reported when they are not."""

import shutil

import pytest
from quick_models import fitted

from pysldl.persistence import save_model
from pysldl.serve import source as module
from pysldl.serve.source import ModelSource
from pysldl.serve.telemetry import Telemetry


@pytest.fixture
def telemetry():
    return Telemetry()


@pytest.fixture
def source(word_model, tmp_path):
    return ModelSource(shutil.copytree(word_model, tmp_path / "model"))


def test_a_new_version_is_served_and_an_unchanged_one_is_not_read(source, telemetry, world):
    before = source.current
    source.refresh(telemetry)
    assert source.current is before
    save_model(fitted(world, range(200)), source.path, overwrite=True)
    source.refresh(telemetry)
    assert source.current.version != before.version and source.problem is None
    assert "sldl_reloads_total 1.0" in telemetry.text("")


@pytest.mark.parametrize("error", [MemoryError(), OverflowError("too large"), AttributeError("no such thing")])
def test_after_a_version_with_any_error_later_ones_are_served(source, telemetry, world, monkeypatch, error):
    def fail(path):
        raise error

    before = source.current
    with monkeypatch.context() as patched:
        patched.setattr(module, "open_version", fail)
        save_model(fitted(world, range(200)), source.path, overwrite=True)
        source.refresh(telemetry)
    assert source.current is before and source.problem == (str(error) or "MemoryError")
    assert "sldl_reload_failures_total 1.0" in telemetry.text("")
    save_model(fitted(world, range(240)), source.path, overwrite=True)
    source.refresh(telemetry)
    assert source.current is not before and source.problem is None


def test_a_folder_that_is_gone_changes_nothing_but_is_told(source, telemetry):
    before = source.current
    shutil.rmtree(source.path)
    source.refresh(telemetry)
    assert source.current is before and "no such model folder" in source.problem
