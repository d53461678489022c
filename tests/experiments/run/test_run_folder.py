"""Results folders: continued by the same settings, and refused to others."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from small_world import CONSTANT, QUICK, SMALL, numbers, other_sldl, reproduce, run_small, small_file

from pysldl.exceptions import DataError, SLDLWarning
from pysldl.experiments.run import run_folder
from pysldl.experiments.run.environment import library_versions
from pysldl.experiments.run.methods import Method
from pysldl.experiments.run.run_folder import Journal, Record, locked, open_run, read_journal
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


# Records survive a kill whole, or are dropped


METRICS = {"keep": {"P@1": 0.5}, "drop": {"P@1": 0.25}}


def record(fold: int, k: int) -> Record:
    return Record("söt", "sldl", fold, {"k": k}, METRICS, None, 1.0, 0.1, 100.0, None, 0, {"pysldl": "0"}, "abc")


def test_records_survive_the_file_and_the_first_of_two_is_kept(tmp_path):
    path = tmp_path / "new" / "fold-00.jsonl"
    Journal(path).append([record(0, 3), record(0, 7)])
    Journal(path).append([record(1, 3)])
    assert read_journal(path) == ([record(0, 3), record(0, 7)], [])
    assert read_journal(tmp_path / "nowhere.jsonl") == ([], [])


@pytest.mark.parametrize("length", [1, 30, -2, -1])
def test_a_line_that_is_cut_short_is_dropped_before_more_is_appended(tmp_path, length):
    path = tmp_path / "fold-00.jsonl"
    lines = [record(0, k).to_line() for k in (3, 7)]
    path.write_text(lines[0] + lines[1][:length], encoding="utf-8")
    journal = Journal(path)
    assert (journal.records, journal.damaged) == ([record(0, 3)], [2])
    journal.append([record(0, 7)])
    assert path.read_text(encoding="utf-8") == "".join(lines)


def test_what_is_no_number_is_not_recorded(tmp_path):
    broken = Record("a", "b", 0, {}, {"keep": {"P@1": float("nan")}}, None, 1.0, 0.1, 1.0, None, 0, {})
    journal = Journal(tmp_path / "fold-00.jsonl")
    with pytest.raises(ValueError, match="not JSON compliant"):
        journal.append([record(0, 3), broken])
    assert read_journal(journal.path) == ([], [])


def test_a_journal_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match=r"cannot (read|write)"):
        Journal(tmp_path / "file" / "fold-00.jsonl")


# Folds shared out among folders, as among machines, and brought together


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
