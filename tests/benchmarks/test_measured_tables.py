"""The measured tables find their places in the page."""

import json

import pytest

from pysldl.cli.reproduce import reproduce
from pysldl.datasets import make_asymmetric_multilabel, write_npz
from pysldl.experiments.scoring import PAPER_METRICS

PAGE = """Text.

<!-- measured: ablation-settings -->
outdated
<!-- end -->

<!-- measured: ablation -->
outdated
<!-- end -->
More.
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Results of SLDL and two variants on one set, and a paper that printed 40 ± 10 everywhere."""
    place = tmp_path_factory.mktemp("results")
    made = make_asymmetric_multilabel(90, 60, 30, random_state=0)
    write_npz(made, place / "small.npz")
    grid = {"folds": 3, "c_hats": "4", "ks": "3,7", "validation_rows": 10}
    methods = "sldl,without-ge,random"
    reproduce(out=place / "run", methods=methods, datasets=str(place / "small.npz"), jobs=1, metrics="P@5", **grid)
    lines = [f"{metric},small,SLDL,40,10" for metric in PAPER_METRICS]
    (place / "results.csv").write_text("metric,dataset,method,mean,std\n" + "\n".join(lines) + "\n")
    return place


def test_the_ablation_is_put_at_its_markers(folder, command_line, tmp_path):
    import measured_tables

    page = tmp_path / "page.md"
    page.write_text(PAGE)
    command_line("--ablation", folder / "run", "--write", page)
    measured_tables.main()
    text = page.read_text()
    assert "outdated" not in text and text.startswith("Text.\n") and text.endswith("More.\n")
    assert "3 folds; c_hat in 4, k in 3, 7, chosen in each fold on as many tenths" in text and "hold 10 rows" in text
    header, row, tally = (line for line in text.splitlines() if line.startswith("|") and "---" not in line)
    assert header.startswith("| data set | P@5: SLDL | ahead of w/o GE | ahead of random | PSP@5: SLDL |")
    assert row.startswith("| small |") and tally.startswith("| significantly ahead / behind |  |")
    once = text
    measured_tables.main()
    assert page.read_text() == once


def test_measured_and_published_side_by_side(folder, command_line, capsys):
    import measured_tables

    command_line("--paper", folder / "run", "--published", folder / "results.csv")
    measured_tables.main()
    printed = capsys.readouterr().out
    run = measured_tables.chosen(measured_tables.open_run(folder / "run"))
    mean = next(row.mean for row in run.summaries if (row.metric, row.method) == ("P@5", "SLDL"))
    assert f"{mean:.2f} ({(mean - 40) / 10:+.1f})" in printed
    assert "| selection | SLDL | w/o GE | random |" in printed and "| as-published |" in printed


def test_a_page_without_markers_and_another_protocol_are_refused(folder, command_line, tmp_path):
    import measured_tables

    (tmp_path / "page.md").write_text("nothing here")
    command_line("--ablation", folder / "run", "--write", tmp_path / "page.md")
    with pytest.raises(SystemExit, match="needs one marker <!-- measured: ablation-settings -->"):
        measured_tables.main()
    settings = json.loads((folder / "run" / "run.json").read_text())
    del settings["protocol"]["validation_rows"]
    (tmp_path / "run.json").write_text(json.dumps(settings))
    with pytest.raises(SystemExit, match="another version of the protocol"):
        measured_tables.open_run(tmp_path)
