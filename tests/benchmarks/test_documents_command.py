"""Documents are made from records: fresh ones first, earlier ones marked, and every difference is found."""

import re
import shutil
from pathlib import Path

import pytest

from pysldl.datasets import make_asymmetric_multilabel, write_npz

RESULTS = Path(__file__).resolve().parents[2] / "results"


@pytest.fixture
def place(tmp_path):
    """A small repository: a README with every block, no docs, and the records from before records were kept."""
    import documents

    blocks = "\n\n".join(f"<!-- measured: {name} -->\nold\n<!-- end -->" for name in documents.BLOCKS)
    (tmp_path / "README.md").write_text(f"Text.\n\n{blocks}\n\nMore.\n", encoding="utf-8")
    (tmp_path / "docs").mkdir()
    results = tmp_path / "results"
    shutil.copytree(RESULTS / "earlier", results / "earlier")
    for path in RESULTS.glob("*.csv"):
        if "published" in path.name or "ablation" in path.name:
            shutil.copy(path, results)
    return tmp_path


@pytest.fixture
def run(place, command_line):
    """Run the command in the small repository."""
    import documents

    def call(what):
        command_line(what, "--root", place, "--results", place / "results")
        return documents.main()

    return call


def block(place, name):
    text = (place / "README.md").read_text(encoding="utf-8")
    return re.search(rf"<!-- measured: {name} -->\n(.*?)\n<!-- end -->", text, re.DOTALL)[1]


def test_writing_makes_the_check_pass_and_changes_nothing_else(place, run, capsys):
    assert run("--check") == 1 and "-old" in capsys.readouterr().out
    assert run("--write") == 0
    assert run("--check") == 0
    text = (place / "README.md").read_text(encoding="utf-8")
    assert text.startswith("Text.\n") and text.endswith("More.\n") and "\nold\n" not in text
    capsys.readouterr()
    assert run("--write") == 0 and "nothing has changed" in capsys.readouterr().out


def test_a_changed_record_is_found(place, run, capsys):
    run("--write")
    path = place / "results" / "earlier" / "peers.csv"
    path.write_text(path.read_text().replace("91.37", "99.99", 1))
    capsys.readouterr()
    assert run("--check") == 1
    printed = capsys.readouterr().out
    assert "-| eurlex57k | `accurate` | 91.37" in printed and "+| eurlex57k | `accurate` | 99.99" in printed


def test_a_figure_by_hand_and_a_figure_that_is_missing_are_found(place, run, capsys):
    run("--write")
    readme = place / "README.md"
    readme.write_text(readme.read_text(encoding="utf-8") + "\n| by hand | 12.5 |\n", encoding="utf-8")
    next((place / "docs" / "figures").glob("*.svg")).unlink()
    capsys.readouterr()
    assert run("--check") == 1
    printed = capsys.readouterr().out
    assert "| by hand | 12.5 |" in printed and "does not show what the records say" in printed


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("<!-- measured: peers -->\nno end", "has no <!-- end -->"),
        ("<!-- measured: beers -->\n<!-- end -->", "no block 'beers'"),
    ],
)
def test_a_block_that_cannot_be_filled_is_refused(place, run, capsys, text, message):
    (place / "docs" / "page.md").write_text(text)
    assert run("--write") == 1
    assert message in capsys.readouterr().err


def test_earlier_figures_say_so_until_they_are_measured_again(place, run):
    from records import write_rows

    run("--write")
    assert "Measured before records were kept (`results/earlier/online.csv`)" in block(place, "online").replace(
        "\n", " "
    )
    row = {"data": "tibkat", "preset": "fast", "rows": 10, "labels": 2, "fit_s": 4.0, "update_s": 1.0}
    write_rows(place / "results" / "online.csv", [row], ("data", "preset"))
    run("--write")
    text = block(place, "online")
    assert "| tibkat | `fast` | 10 | 2 | 4.0 | 1.00 | 25.0 % |" in text
    assert "accurate" not in text and "before records were kept" not in text and "`results/online.csv`" in text


def test_what_has_no_record_says_so(place, run):
    run("--write")
    assert block(place, "steps") == block(place, "machines") == "*Not recorded yet.*"


def test_rankings_say_both_what_holds_and_what_does_not(place, run):
    run("--write")
    text = block(place, "results").replace("\n  ", " ")
    assert "SLDL is first on 3, 1 and 1 of 11 sets" in text and "ridge regression is ahead of it on 6, 6 and 6" in text
    assert "197 lie more than two published deviations above their published values and 1 below" in text


def test_steps_are_a_table_a_figure_and_a_sentence(place, run):
    from records import write_rows

    rows = [
        {
            "dataset": dataset,
            "fold": fold,
            "c_hat": c_hat,
            "cooccurrence": "binary",
            "n_steps": n_steps,
            **dict.fromkeys(("P@1", "P@5", "nDCG@5", "PSP@1", "PSP@5"), value + fold),
        }
        for dataset in ("one", "two")
        for fold in (0, 1)
        for c_hat in (32, 128)
        for n_steps, value in ((0, 30.0), (100, 40.0 if c_hat == 128 else 31.0), (1000, 35.0))
    ]
    write_rows(place / "results" / "steps.csv", rows, ("dataset", "fold", "c_hat", "n_steps"))
    run("--write")
    assert "| one | 128, binary | 30.50 | **40.50** | 35.50 |" in block(place, "steps")
    assert "1,000 at width 32 and 100 at width 128" in block(place, "results").replace("\n  ", " ")
    figure = place / "docs" / "figures" / "steps.svg"
    first = figure.read_bytes()
    figure.unlink()
    run("--write")
    assert figure.read_bytes() == first


def test_records_of_planted_directions_and_machines(place, run):
    from records import write_rows

    about = {"n_components": 8, "setting": "default", "world": 0, "run": 0}
    known = {"direction": 0.9, "near": 0.5, "rank": 2.0}
    rows = [
        {**about, "table": "known", "method": m, "cooccurrence": "binary", **known}
        for m in ("trained", "fifty steps at 1e-3")
    ]
    rows.append(
        {**about, "table": "sure", "method": "counts of rows", "direction": 1.0, "sure": 0.75, "right_of_sure": 1.0}
    )
    rows.append(
        {**about, "table": "implies", "method": "counts of rows", "said": 7, "said_and_planted": 6, "planted": 8}
    )
    write_rows(place / "results" / "planted.csv", rows, ("table", "method"))
    pair = {"preset": "paper", "dataset": "cal500", "setting": "one thread", "other_setting": "two threads"}
    same = {"n_test_rows": 50, "same_five": 0.98, "same_order": 0.9, "same_bits": False}
    write_rows(
        place / "results" / "agreement.csv",
        [{**pair, **same, "same_relations": True, "same_printed_metrics": True}],
        tuple(pair),
    )
    run("--write")
    assert "| default worlds: counts of rows | 1 | 100.0 | 100.0 | 75.0 | 75.0 | 100.0 | 100.0 |" in block(
        place, "planted"
    )
    assert "| default worlds: counts of rows | 7 | 6 | 8 |" in block(place, "planted")
    assert "trained Gaussians know: in the default worlds 90.0 %" in block(place, "results").replace("\n  ", " ")
    assert "| paper | 98.00 % (0 of 1 pairs bit for bit) |" in block(place, "machines")


def test_an_export_of_a_reproduction_takes_the_place_of_earlier_figures(place, run, tmp_path, monkeypatch):
    from pysldl.cli.reproduce import ExperimentOptions, ReportOptions, reproduce

    names = ("cal500", "stackex-chess")
    for seed, name in enumerate(names):
        write_npz(make_asymmetric_multilabel(90, 60, 30, random_state=seed), tmp_path / f"{name}.npz")
    grid = {"folds": 2, "c_hats": "4,8", "ks": "3,7", "n_steps": "5,10", "validation_rows": 1, "jobs": 1}
    experiment = ExperimentOptions(
        methods="sldl,without-ge,without-ge-symmetric,without-ac,random,identity,ridge,knn",
        datasets=",".join(str(tmp_path / f"{name}.npz") for name in names),
        **grid,
    )
    report = ReportOptions(export=place / "results" / "reproduction" / "paper")
    reproduce(out=tmp_path / "run", experiment=experiment, report=report)
    run("--write")
    assert run("--check") == 0
    agreement = block(place, "agreement")
    assert "before records were kept" not in agreement and "results/reproduction/paper" in agreement
    rows = [line for line in agreement.splitlines() if line.startswith("| cal500 |")]
    assert len(rows) == 1 and "88.25" not in rows[0]
    assert "2 folds; c_hat in 4, 8, n_steps in 5, 10, k in 3, 7" in block(place, "settings")
    assert "ahead of w/o GE (symmetric)" in block(place, "ablation")
    assert "smaller for random codes" in block(place, "theorem").replace("\n", " ")
    assert "| SLDL |" in block(place, "training-times") and "| ridge |" in block(place, "training-times")
    assert " ± " in block(place, "comparison") and "†" in block(place, "comparison")
    assert {"curve-c-hat.svg", "curve-k.svg", "theorem-1.svg"} <= {
        p.name for p in (place / "docs" / "figures").iterdir()
    }
