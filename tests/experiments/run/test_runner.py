"""Runs that stop, fail, meet old results, and go on."""

import json
import os
from dataclasses import replace

import pytest
from small_world import (
    CONSTANT,
    LAST,
    NOT_INSTALLED,
    SMALL,
    UNABLE,
    Constant,
    numbers,
    other_sldl,
    small_file,
)
from small_world import run_small as run

from pysldl.exceptions import DataError, SLDLWarning
from pysldl.experiments.run import methods
from pysldl.experiments.run.methods import find_methods, register_method
from pysldl.experiments.run.run_folder import read_journal
from pysldl.experiments.run.runner import Died, RunStep, Source, find_sources, run_experiment, run_in_processes


def test_a_record_for_every_fold_and_configuration(source, tmp_path):
    finished, steps = run(source, tmp_path / "out")
    records = finished.folder.records("small")
    assert not finished.failures
    assert len(records) == 3 * (8 + 1) == sum(step.n_configurations for step in steps)
    record = records[0]
    assert record.parameters == {"c_hat": 4, "n_steps": 10, "k": 3}
    assert record.validation is not None and set(record.test) == {"keep", "drop"}
    assert record.fit_seconds > 0 and record.predict_seconds > 0 and record.peak_mb > 10
    assert {"pysldl", "numpy", "scipy", "scikit-learn", "python"} <= record.versions.keys()
    stored = json.loads((tmp_path / "out" / "folds" / "small.json").read_text())
    assert sorted(set(stored["fold_of_row"])) == [0, 1, 2]


def test_what_is_finished_is_not_run_again_and_methods_can_be_added(source, tmp_path):
    run(source, tmp_path / "out", methods=[CONSTANT])
    before = read_journal(tmp_path / "out" / "records" / "small" / "fold-00.jsonl")[0]
    finished, steps = run(source, tmp_path / "out")
    assert [step.method for step in steps if step.found] == ["constant"] * 3
    assert finished.folder.records("small")[0] == before[0]


def test_the_number_of_processes_changes_no_number(source, tmp_path):
    alone, _ = run(source, tmp_path / "one", jobs=1)
    together, _ = run(source, tmp_path / "two", jobs=2)
    assert numbers(alone) == numbers(together)


def test_folds_of_the_costliest_data_set_come_first(source, tmp_path):
    large = Source(small_file(tmp_path, "large", n_samples=180))
    steps: list[RunStep] = []
    run_experiment([CONSTANT], [source, large], SMALL, tmp_path / "out", on_step=steps.append)
    assert [(step.dataset, step.fold) for step in steps] == [(name, f) for name in ("large", "small") for f in range(3)]


@pytest.mark.parametrize("harm", ["cut", "digit", "nonsense"])
def test_a_damaged_record_is_run_again_with_a_warning(source, tmp_path, harm):
    finished, _ = run(source, tmp_path / "out")
    whole = numbers(finished)
    path = tmp_path / "out" / "records" / "small" / "fold-01.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    number = 9 if harm == "cut" else 2
    lines[number - 1] = {
        "cut": lines[8][:200],
        "digit": lines[1].replace('"P@1": 0.', '"P@1": 0.1', 1),
        "nonsense": "\x00\xff{]\n",
    }[harm]
    path.write_text("".join(lines))
    with pytest.warns(SLDLWarning, match=rf"fold-01.jsonl: damaged in line {number}; what was recorded there is run"):
        again, steps = run(source, tmp_path / "out")
    assert sum(step.n_configurations for step in steps if not step.found) == 1
    assert sorted(map(repr, numbers(again))) == sorted(map(repr, whole))


def test_compiled_loops_get_one_thread_too(source, tmp_path, monkeypatch):
    numba = pytest.importorskip("numba")
    seen = []
    monkeypatch.setattr(Constant, "fit", lambda self, X, Y: seen.append(numba.get_num_threads()) or self)
    before = numba.get_num_threads()
    run(source, tmp_path / "out", methods=[CONSTANT], jobs=1)
    assert seen == [1, 1, 1] and numba.get_num_threads() == before


def test_one_failing_method_is_reported_and_the_rest_goes_on(source, tmp_path):
    finished, _ = run(source, tmp_path / "out", methods=[NOT_INSTALLED, UNABLE, CONSTANT])
    assert [(f.where, f.fold) for f in finished.failures] == [
        ("absent on every data set", None),
        *(("unable on small", fold) for fold in range(3)),
    ]
    assert "no convergence on these rows" in finished.failures[1].reason
    assert [record.method for record in finished.folder.records("small")] == ["constant"] * 3


def test_a_process_that_dies_takes_nothing_else_down(source, tmp_path):
    finished, _ = run(source, tmp_path / "out", methods=[CONSTANT, LAST], jobs=2, folds=range(2))
    assert sorted((f.where, f.fold) for f in finished.failures) == [("every method on small", f) for f in range(2)]
    assert "ended with code 7" in finished.failures[0].reason
    assert [record.method for record in finished.folder.records("small")] == ["constant"] * 2


def test_fewer_rows_than_folds(source, tmp_path):
    with pytest.raises(DataError, match="fewer than the 91 folds"):
        run(source, tmp_path / "out", methods=[CONSTANT], protocol=replace(SMALL, n_folds=91))


def test_unknown_methods_are_answered_with_the_nearest_names():
    with pytest.raises(DataError, match=r"unknown method 'sldll': did you mean 'sldl'"):
        find_methods(["random", "sldll"])
    with pytest.raises(DataError, match=r"unknown method 'qqqq': choose from sldl, official"):
        find_methods(["qqqq"])
    assert [method.name for method in find_methods(["SLDL", "kd-tea", "w/o GE", "sldl"])] == [
        "sldl",
        "KD-TEA",
        "without-ge",
    ]


def test_unknown_data_sets_are_answered_with_the_nearest_names(tmp_path):
    with pytest.raises(DataError, match="stackex-chess"):
        find_sources(["stackex-ches"], tmp_path)
    with pytest.raises(DataError, match="no local copy of cal500"):
        find_sources(["cal500"], tmp_path)
    path = small_file(tmp_path)
    assert find_sources([path, "cal500"], tmp_path) == ([Source(path)], ["cal500"])


def test_own_methods_can_be_registered_once(monkeypatch):
    monkeypatch.setattr(methods, "_REGISTERED", {})
    register_method("mine", other_sldl, title="Mine")
    assert find_methods(["mine"])
    assert find_methods(["mine"])[0].title == "Mine"
    with pytest.raises(DataError, match="already a method 'mine'"):
        register_method("mine", other_sldl)
    with pytest.raises(DataError, match="'mine:too' has a colon or a comma"):
        register_method("mine:too", other_sldl)


# Items shared out among processes that may die


def count(item: int):
    """Yield as many events as the item says; a negative one ends the process."""
    for number in range(abs(item)):
        yield number, os.getpid()
    if item < 0:
        os._exit(3)


def test_one_process_is_this_one_and_keeps_the_order():
    found = list(run_in_processes(count, [2, 1], 1))
    assert found == [(2, (0, os.getpid())), (2, (1, os.getpid())), (1, (0, os.getpid()))]


@pytest.mark.parametrize("items", [[3, -1, 2, 1], [-1, -2]])
def test_every_event_of_every_item_arrives_and_a_dead_process_is_replaced(items):
    found = list(run_in_processes(count, items, 2))
    for item in items:
        events = [event for of, event in found if of == item]
        died = [event for event in events if isinstance(event, Died)]
        assert died == ([Died(3)] if item < 0 else [])
        assert [event[0] for event in events if not isinstance(event, Died)] == list(range(abs(item)))
    assert os.getpid() not in {event[1] for _, event in found if not isinstance(event, Died)}
