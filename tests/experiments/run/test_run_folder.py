"""Results folders: continued by the same settings, and refused to others."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from small_world import CONSTANT, QUICK, SMALL, other_sldl, small_file
from small_world import run_small as run

from pysldl.exceptions import DataError, SLDLWarning
from pysldl.experiments.run import run_folder
from pysldl.experiments.run.environment import library_versions
from pysldl.experiments.run.methods import Method
from pysldl.experiments.run.run_folder import locked, open_run
from pysldl.experiments.run.runner import Source


def test_results_of_other_settings_are_refused(source, tmp_path):
    run(source, tmp_path / "out", methods=[CONSTANT])
    with pytest.raises(DataError, match=r"results of another protocol \(n_folds 3, now 4\): choose another --out"):
        run(source, tmp_path / "out", methods=[CONSTANT], protocol=replace(SMALL, n_folds=4))


def test_results_of_another_version_are_refused(source, tmp_path, monkeypatch):
    run(source, tmp_path / "out", methods=[CONSTANT])
    newer = {**library_versions(), "pysldl": "99.0"}
    monkeypatch.setattr(run_folder, "library_versions", lambda: newer)
    with pytest.raises(DataError, match=r"another versions? \(pysldl '.*', now '99.0'\)"):
        run(source, tmp_path / "out", methods=[CONSTANT])


def test_results_of_a_method_with_other_parameters_are_refused(source, tmp_path):
    run(source, tmp_path / "out", methods=[QUICK], folds=[0])
    with pytest.raises(DataError, match=r"another method quick \(embedding__margin 0.2, now 0.3\)"):
        run(source, tmp_path / "out", methods=[Method("quick", "SLDL", other_sldl)])


def test_results_of_other_data_are_refused(source, tmp_path):
    run(source, tmp_path / "out", methods=[CONSTANT])
    (tmp_path / "other").mkdir()
    with pytest.raises(DataError, match="holds results of other data under the name 'small'"):
        run(Source(small_file(tmp_path / "other", seed=1)), tmp_path / "out", methods=[CONSTANT])


def test_a_folder_of_something_else_is_left_alone(source, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "thesis.tex").write_text("years of work")
    with pytest.raises(DataError, match="is not empty and holds no results of this command"):
        run(source, tmp_path / "out", methods=[CONSTANT])


def test_damaged_settings_are_an_error_and_damaged_folds_are_drawn_again(source, tmp_path):
    run(source, tmp_path / "out", methods=[CONSTANT])
    folds = tmp_path / "out" / "folds" / "small.json"
    whole = folds.read_text()
    folds.write_text(whole[:50])
    with pytest.warns(SLDLWarning, match=r"small.json is damaged; the folds are drawn again"):
        run(source, tmp_path / "out", methods=[CONSTANT])
    assert folds.read_text() == whole
    (tmp_path / "out" / "run.json").write_text("{")
    with pytest.raises(DataError, match=r"run.json is damaged: move it away"):
        run(source, tmp_path / "out", methods=[CONSTANT])


def test_a_place_that_cannot_be_written_to(source, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match=r"cannot write .*: Not a directory. Choose another --out"):
        run(source, tmp_path / "file" / "out", methods=[CONSTANT])


def test_two_runs_in_one_folder_are_told_apart(source, tmp_path):
    with locked(tmp_path / "out" / ".lock", wait=False), ThreadPoolExecutor(1) as elsewhere:
        other = elsewhere.submit(run, source, tmp_path / "out", methods=[CONSTANT])
        with pytest.raises(DataError, match="another run is writing to"):
            other.result()


def test_a_folder_is_opened_without_its_methods(source, tmp_path):
    run(source, tmp_path / "out", methods=[CONSTANT], folds=[1])
    opened = open_run(tmp_path / "out")
    assert (opened.datasets, opened.folds) == (["small"], (1,))
    assert [(method.name, method.axes) for method in opened.methods] == [("constant", ())]
    with pytest.raises(DataError, match="cannot be run: register it first"):
        opened.methods[0].make()
    settings = tmp_path / "out" / "run.json"
    settings.write_text(settings.read_text().replace('"format": 2', '"format": 1'))
    with pytest.raises(DataError, match="another version of the library: run `sldl reproduce` again"):
        open_run(tmp_path / "out")
