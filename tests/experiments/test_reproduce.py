"""`sldl reproduce`, from the command line to the files it leaves."""

import json
from pathlib import Path

import pytest
from small_world import SMALL, reproduce, small_file

from pysldl.exceptions import DataError
from pysldl.experiments.run.evaluation import PAPER_METRICS

GRID = {"folds": 3, "c_hats": "4,8", "n_steps": "10,30", "ks": "3,7", "validation_rows": 7}


def paper_of(folder: Path, mean: float) -> Path:
    """A results.csv that claims the same mean for every metric of the small data set."""
    lines = [f"{metric},small,SLDL,{mean},5.0" for metric in PAPER_METRICS]
    (folder / "results.csv").write_text("\n".join(["metric,dataset,method,mean,std", *lines]) + "\n")
    return folder / "results.csv"


def test_tables_figures_page_and_comparison(tmp_path, capsys):
    out = tmp_path / "out"
    code = reproduce(
        out=out,
        methods="sldl,random,identity,prior",
        datasets=small_file(tmp_path),
        metrics="p@1,P@5",
        published=paper_of(tmp_path, 1.0),
        check=True,
        jobs=1,
        **GRID,
    )
    printed = capsys.readouterr().out
    assert code == 0
    assert "SLDL: 2 means" in printed and "random: 2 means" in printed and "identity: 2 means" in printed
    assert "holds" in printed and str(out / "report.html") in printed.replace("\n", "")
    for suffix in ("md", "tex", "csv"):
        assert (out / "tables" / f"results-p-5.{suffix}").is_file()
    assert (out / "figures" / "curve-c-hat-p-5.svg").is_file()
    assert (out / "figures" / "theorem-1.png").is_file()
    assert "small" in (out / "report.html").read_text()
    assert (out / "comparison.csv").read_text().startswith("dataset,metric,method,measured")
    settings = json.loads((out / "run.json").read_text())
    assert settings["protocol"] == SMALL.as_json()

    code = reproduce(
        out=out,
        methods="sldl",
        datasets=str(tmp_path / "small.npz"),
        metrics="P@1",
        selection="as-published",
        published=paper_of(tmp_path, 99.0),
        check=True,
        jobs=1,
        **GRID,
    )
    assert code == 1 and "does not hold" in capsys.readouterr().out
    table = (out / "as-published" / "tables" / "results-p-1.md").read_text()
    assert "chosen on the test folds" in table


def test_a_log_file_hears_which_fold_is_done(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("pysldl.cli.reproduce.SECONDS_BETWEEN_LINES", 0)
    request = {"out": tmp_path / "out", "datasets": small_file(tmp_path), "methods": "prior", "jobs": 1, **GRID}
    reproduce(**request)
    heard = [line for line in capsys.readouterr().err.splitlines() if "is done" in line]
    assert [line.partition(": ")[2] for line in heard] == [
        f"prior on small, fold {fold} is done, {percent} % of all" for fold, percent in enumerate((33, 67, 100))
    ]
    reproduce(**request)
    assert "is done" not in capsys.readouterr().err, "folds of an earlier run are not news"


def test_check_needs_the_published_results(tmp_path):
    with pytest.raises(DataError, match="--check needs --published"):
        reproduce(out=tmp_path / "out", check=True)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"methods": "sldk"}, "unknown method 'sldk': did you mean 'sldl'"),
        ({"datasets": "stackex-ches"}, "stackex-chess"),
        ({"metrics": "PSP@4"}, "unknown metric 'PSP@4': did you mean 'PSP@"),
        ({"ks": "10;20"}, "--ks 10;20: expected whole numbers"),
        ({"folds": 1}, "at least 2 folds"),
        ({"published": Path("nowhere.csv")}, r"nowhere.csv: no such file"),
        ({"jobs": 0}, "jobs must be at least 1"),
        ({"validation_rows": 0}, "number of validation rows must be at least 1"),
        ({"first_folds": 11}, "must lie between 1 and 10"),
        ({"which_folds": "0-10"}, "--which-folds 0-10: there is no fold 10; the last is 9"),
        ({"which_folds": "0,x"}, "expected fold numbers"),
        ({"which_folds": "0", "first_folds": 1}, "give one of them"),
        ({"merge": "nowhere"}, "--merge nowhere: holds no results of this command"),
    ],
)
def test_bad_requests_are_one_clear_error_and_leave_nothing(tmp_path, options, message):
    datasets = {"datasets": small_file(tmp_path)}
    with pytest.raises(DataError, match=message):
        reproduce(out=tmp_path / "out", **(datasets | options))
    assert not (tmp_path / "out").exists()
