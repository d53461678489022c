"""Results reduced to small files, and back: tables and figures need nothing else."""

import csv
import json
from dataclasses import replace

import pytest
from small_world import CONSTANT, QUICK, SMALL, UNABLE, other_sldl, reproduce, run_small, small_file

from pysldl.exceptions import DataError
from pysldl.experiments.run.archive import Archive, export_results, select_configurations
from pysldl.experiments.run.evaluation import PAPER_METRICS
from pysldl.experiments.run.methods import Method
from pysldl.experiments.run.run_folder import Record, open_run
from pysldl.experiments.run.runner import Source

METHODS = (QUICK, CONSTANT)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A run of a method with a grid and one without, on two data sets."""
    place = tmp_path_factory.mktemp("archive")
    sources = [Source(small_file(place, name, seed=seed)) for seed, name in enumerate(("small", "other"))]
    for source in sources:
        run_small(source, place / "out", METHODS)
    return place


@pytest.mark.parametrize("selection", ["nested", "as-published"])
def test_an_export_gives_the_results_of_the_run(finished, tmp_path, selection):
    export_results(finished / "out", tmp_path / "export")
    from_run = Archive.of_run(open_run(finished / "out"))
    from_export = Archive.read(tmp_path / "export")
    expected, found = from_run.measurements(selection), from_export.measurements(selection)
    assert found.summaries == expected.summaries
    for part in ("terms", "curves", "variants", "n_folds", "n_planned_folds", "shown_as"):
        assert getattr(found, part) == getattr(expected, part), part
    dropped = [archive.measurements(selection, lambda _: "drop").summaries for archive in (from_run, from_export)]
    assert dropped[0] == dropped[1]
    assert {row.dataset for row in found.summaries} == {"small", "other"}


def test_files_written_from_an_export_are_those_of_the_run(finished, tmp_path):
    export = tmp_path / "export"
    assert reproduce(out=finished / "out", report_only=True, export=export) == 0
    assert reproduce(out=tmp_path / "rebuilt", from_export=export) == 0
    files = [path for kind in ("tables", "figures", "timings") for path in (finished / "out" / kind).iterdir()]
    names = {path.name for path in files}
    assert {"results-p-1.md", "average-ranks.csv", "friedman.tex", "training-time.csv", "theorem-1.svg"} <= names
    assert {"curve-c-hat-p-1.svg", "curve-n-steps-psp-5.png", "curve-k-p-5.svg", "cd-psndcg-5.svg"} <= names
    for path in [*files, finished / "out" / "results.csv"]:
        rebuilt = tmp_path / "rebuilt" / path.relative_to(finished / "out")
        assert rebuilt.read_bytes() == path.read_bytes(), path.name


def cells(path):
    return list(csv.DictReader(path.read_text().splitlines()))


def test_a_line_for_each_method_data_set_and_fold(finished, tmp_path):
    export_results(finished / "out", tmp_path)
    rows = cells(tmp_path / "folds.csv")
    assert len(rows) == 2 * 3 * (2 + 1), "the grid's two selections, and the only configuration of the other"
    chosen = next(row for row in rows if row["method"] == "quick")
    assert chosen["c_hat"] in ("4", "8") and chosen["n_steps"] in ("10", "30") and chosen["k"] in ("3", "7")
    runs = {row["run"]: row for row in cells(tmp_path / "runs.csv")}
    assert runs[chosen["run"]]["numpy"] and runs[chosen["run"]]["date"] and "processor" in runs[chosen["run"]]
    times = cells(tmp_path / "times.csv")
    assert {(row["c_hat"], row["n_steps"], row["k"]) for row in times} == {("8", "30", "7"), ("", "", "")}
    grid = [row for row in cells(tmp_path / "grid.csv") if row["dataset"] == "small"]
    assert len(grid) == 4 + 1 and [row["preferred"] for row in grid].count("yes") == 1


def test_methods_that_were_run_later_join_an_export(finished, tmp_path, source):
    export_results(finished / "out", tmp_path / "export")
    later = Method("later", "Later", CONSTANT.make)
    run_small(source, tmp_path / "more", (later,))
    export_results(tmp_path / "more", tmp_path / "export")
    archive = Archive.read(tmp_path / "export")
    assert [method.title for method in archive.methods] == ["SLDL", "constant", "Later"]
    assert {row.method for row in archive.measurements().summaries if row.dataset == "small"} == {
        "SLDL",
        "constant",
        "Later",
    }
    run_small(source, tmp_path / "other", (later,), replace(SMALL, n_folds=4))
    with pytest.raises(DataError, match="another protocol or of other folds: export to another folder"):
        export_results(tmp_path / "other", tmp_path / "export")


def test_a_report_of_own_methods_needs_no_registration(source, tmp_path, capsys):
    """What a run by code leaves is enough for tables, though this command has never heard of the method."""
    run_small(source, tmp_path / "a", (QUICK,), folds=[0])
    run_small(source, tmp_path / "b", (Method("own", "My own", CONSTANT.make),), folds=[0])
    merged = f"{tmp_path / 'a'},{tmp_path / 'b'}"
    assert reproduce(out=tmp_path / "all", merge=merged, report_only=True) == 0
    printed = capsys.readouterr().out
    assert "My own" in printed and "small, percent" in printed and "P@1" in printed and "PSP@5" in printed
    assert "1 of the 3 folds of a cross-validation" in (tmp_path / "all" / "report.html").read_text()
    assert "My own" in (tmp_path / "all" / "tables" / "results-p-5.md").read_text()
    assert reproduce(out=tmp_path / "all", report_only=True, methods="own") == 0
    assert "SLDL" not in (tmp_path / "all" / "tables" / "results-p-5.csv").read_text()
    with pytest.raises(DataError, match="no results of method 'sldk': choose from"):
        reproduce(out=tmp_path / "all", report_only=True, methods="sldk")


def test_folders_that_do_not_belong_together_are_not_merged(source, tmp_path):
    run_small(source, tmp_path / "a", (QUICK,), folds=[0])
    run_small(source, tmp_path / "b", (Method("quick", "SLDL", other_sldl),), folds=[1])
    run_small(source, tmp_path / "c", (CONSTANT,), replace(SMALL, n_steps=(5,)), folds=[1])
    run_small(Source(small_file(tmp_path, seed=1)), tmp_path / "d", (CONSTANT,), folds=[1])
    for other, message in (("b", "another method quick"), ("c", "another protocol"), ("d", "other rows or folds")):
        with pytest.raises(DataError, match=message):
            reproduce(out=tmp_path / "a", merge=str(tmp_path / other), report_only=True)


def test_a_failing_method_is_simply_absent(source, tmp_path):
    run_small(source, tmp_path / "out", (CONSTANT, UNABLE))
    export_results(tmp_path / "out", tmp_path / "export")
    assert {row.method for row in Archive.read(tmp_path / "export").measurements().summaries} == {"constant"}


@pytest.mark.parametrize(
    ("file", "harm", "message"),
    [
        ("settings.json", "{", "settings.json is damaged"),
        ("settings.json", json.dumps({"format": 99}), "has format 99, but this version reads"),
        ("folds.csv", "selection,method\nnested,x\n", "folds.csv, line 1: has no column 'dataset'"),
        ("times.csv", None, "times.csv: no such file"),
    ],
)
def test_damaged_exports_are_one_clear_error(finished, tmp_path, file, harm, message):
    export_results(finished / "out", tmp_path)
    (tmp_path / file).unlink()
    if harm is not None:
        (tmp_path / file).write_text(harm)
    with pytest.raises(DataError, match=message):
        Archive.read(tmp_path)


@pytest.mark.parametrize(
    ("column", "value"), [("P@1", "1.5"), ("P@1", "nan"), ("fold", "first"), ("selection", "guessed")]
)
def test_a_line_that_makes_no_sense_is_named(finished, tmp_path, column, value):
    export_results(finished / "out", tmp_path)
    rows = cells(tmp_path / "folds.csv")
    rows[1][column] = value
    with (tmp_path / "folds.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    with pytest.raises(DataError, match=r"folds.csv, line 3: not a line of an export \(.+\)"):
        Archive.read(tmp_path)


def test_places_without_results(tmp_path):
    with pytest.raises(DataError, match="holds no results of `sldl reproduce`"):
        reproduce(out=tmp_path / "nothing", report_only=True)
    with pytest.raises(DataError, match="holds no exported results"):
        reproduce(out=tmp_path / "out", from_export=tmp_path)
    with pytest.raises(DataError, match="leave out --report-only"):
        reproduce(out=tmp_path / "out", from_export=tmp_path, report_only=True)


def record(fold: int, c_hat: int, k: int, test: float, validation: float) -> Record:
    of_test, of_validation = (dict.fromkeys(PAPER_METRICS, value) for value in (test, validation))
    return Record(
        "small",
        "sldl",
        fold,
        {"c_hat": c_hat, "k": k},
        {"keep": of_test, "drop": of_test},
        {"keep": of_validation, "drop": of_validation},
        1.0,
        0.1,
        100.0,
        None,
        0,
        {},
    )


@pytest.fixture
def by_fold():
    """Fold 0 likes k=3 on its validation rows and k=7 on its test rows; fold 1 likes k=7 a little on both."""
    made = [
        record(0, 4, 3, 0.5, 0.9),
        record(0, 4, 7, 0.7, 0.1),
        record(1, 4, 3, 0.5, 0.5),
        record(1, 4, 7, 0.6, 0.6),
    ]
    folds: dict[int, dict] = {}
    for one in made:
        folds.setdefault(one.fold, {})[one.configuration] = one
    return folds


def test_nested_selection_looks_at_validation_rows_and_published_at_test_rows(by_fold):
    assert [r.parameters["k"] for r in select_configurations(by_fold, "nested", "keep")] == [3, 7]
    assert [r.parameters["k"] for r in select_configurations(by_fold, "as-published", "keep")] == [7, 7]
