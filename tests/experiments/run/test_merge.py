"""Folds shared out among folders, as among machines, and brought together."""

from dataclasses import replace

import pytest
from small_world import CONSTANT, QUICK, SMALL, numbers, other_sldl, reproduce, run_small, small_file

from pysldl.exceptions import DataError
from pysldl.experiments.run import run_folder
from pysldl.experiments.run.methods import Method
from pysldl.experiments.run.runner import Source

GRID = {"folds": 3, "c_hats": "4,8", "ks": "3,7", "validation_rows": 7}


def run(*arguments, **options):
    """A run, and the steps it made itself."""
    finished, steps = run_small(*arguments, **options)
    return finished, [step for step in steps if not step.found]


def test_parts_together_are_the_whole(source, tmp_path):
    whole, _ = run(source, tmp_path / "whole")
    first, ran = run(source, tmp_path / "a", folds=[2, 0])
    assert first.folds == (0, 2) and {step.fold for step in ran} == {0, 2}
    run(source, tmp_path / "b", methods=[CONSTANT], folds=[1, 2])
    merged, ran = run(source, tmp_path / "all", merge=[tmp_path / "a", tmp_path / "b"])
    assert {(step.method, step.fold) for step in ran} == {("quick", 1)}, "only what neither part had"
    assert merged.n_merged == 2 * (8 + 1) + 1
    assert sorted(map(repr, numbers(merged))) == sorted(map(repr, numbers(whole)))
    again, ran = run(source, tmp_path / "all", merge=[tmp_path / "a", tmp_path / "b"])
    assert again.n_merged == 0 and not ran


def test_other_versions_may_be_merged_and_stay_known(source, tmp_path, monkeypatch):
    older = {**run_folder.library_versions(), "numpy": "1.26.0"}
    with monkeypatch.context() as machine:
        machine.setattr(run_folder, "library_versions", lambda: older)
        run(source, tmp_path / "a", methods=[CONSTANT], folds=[0])
    merged, _ = run(source, tmp_path / "all", methods=[CONSTANT], merge=[tmp_path / "a"])
    assert [record.versions["numpy"] == "1.26.0" for record in merged.folder.records("small")] == [True, False, False]


def test_other_settings_rows_and_parameters_are_refused_and_nothing_is_written(source, tmp_path):
    run(source, tmp_path / "a", methods=[QUICK], folds=[0])
    with pytest.raises(DataError, match=r"--merge .*a: holds results of another protocol \(n_folds 3, now 4\)"):
        run(source, tmp_path / "all", methods=[QUICK], protocol=replace(SMALL, n_folds=4), merge=[tmp_path / "a"])
    with pytest.raises(DataError, match=r"another method quick \(embedding__margin 0.2, now 0.3\)"):
        run(source, tmp_path / "all", methods=[Method("quick", "SLDL", other_sldl)], merge=[tmp_path / "a"])
    assert not (tmp_path / "all").exists()
    (tmp_path / "other").mkdir()
    with pytest.raises(DataError, match="other rows or folds under the name 'small'"):
        run(Source(small_file(tmp_path / "other", seed=1)), tmp_path / "all", methods=[QUICK], merge=[tmp_path / "a"])


@pytest.mark.parametrize(("content", "message"), [("{", "run.json is damaged"), ("{}", "another format")])
def test_a_broken_folder_is_refused(source, tmp_path, content, message):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "run.json").write_text(content)
    with pytest.raises(DataError, match=message):
        run(source, tmp_path / "all", methods=[CONSTANT], merge=[tmp_path / "a"])
    assert not (tmp_path / "all").exists()


def test_from_the_command_line(tmp_path, capsys):
    request = {"datasets": small_file(tmp_path), "methods": "prior", "jobs": 1, **GRID}
    for part, folds in (("a", "0"), ("b", "1-2")):
        assert reproduce(out=tmp_path / part, which_folds=folds, **request) == 0
    assert reproduce(out=tmp_path / "all", merge=f"{tmp_path / 'a'},{tmp_path / 'b'}", **request) == 0
    assert "merged 3 finished configurations" in capsys.readouterr().err
    assert (tmp_path / "all" / "report.html").is_file()
