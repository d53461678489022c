"""`sldl stats`, called as the function that the command is."""

import json
from pathlib import Path

import pytest

from pysldl.cli.stats import stats
from pysldl.exceptions import DataError

RESULTS = """metric,dataset,method,mean
P@1,x,[A],50
P@1,x,B,60
P@1,x,C,60
P@1,y,[A],50
P@1,y,B,70
P@1,y,C,40
P@1,z,[A],50
P@1,z,B,55
P@1,z,C,20
"""


@pytest.fixture
def results(tmp_path: Path) -> Path:
    path = tmp_path / "results.csv"
    path.write_text(RESULTS, encoding="utf-8")
    return path


def test_json_has_exactly_the_promised_shape(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stats(results, json=True)
    told = json.loads(capsys.readouterr().out)
    assert list(told) == ["P@1"]
    promised = ["F_F", "critical_value", "critical_difference", "average_ranks"]
    assert list(told["P@1"]) == [*promised, "p_value", "mid_ranks", "reference", "nemenyi_p_values"]
    assert told["P@1"]["mid_ranks"] == pytest.approx({"[A]": 7 / 3, "B": 3.5 / 3, "C": 2.5})
    assert told["P@1"]["reference"] == "B"
    assert told["P@1"]["average_ranks"] == pytest.approx({"[A]": 7 / 3, "B": 1.0, "C": 7 / 3})
    # Mid-ranks sum to 7, 3.5 and 7.5, hence chi2 = 114 / 36 and F_F = 2 * 114 / (216 - 114).
    assert told["P@1"]["F_F"] == pytest.approx(228 / 102)


def test_full_agreement_is_valid_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "agreed.csv"
    rows = [f"P@1,{d},{m},{v}" for d in "xyz" for m, v in (("A", 1), ("B", 2), ("C", 3))]
    path.write_text("metric,dataset,method,mean\n" + "\n".join(rows), encoding="utf-8")
    stats(path, json=True)
    assert json.loads(capsys.readouterr().out)["P@1"]["F_F"] is None
    stats(path)
    assert "F_F infinite" in capsys.readouterr().out


def test_table_shows_ranks_best_first(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stats(results)
    out = capsys.readouterr().out
    assert out.index("B ") < out.index("[A]")
    assert "1.17" in out and "2.33" in out, "ties share their mean rank, as in the diagram"
    assert "p against B" in out and "p = " in out
    assert "critical difference 1.9136 (3 methods, 3 data sets, alpha 0.05)" in out


def test_level_moves_the_critical_values(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told = []
    for alpha in (0.05, 0.1):
        stats(results, json=True, alpha=alpha)
        told.append(json.loads(capsys.readouterr().out)["P@1"])
    assert told[1]["critical_value"] < told[0]["critical_value"]
    assert told[1]["critical_difference"] < told[0]["critical_difference"]


def test_plot_draws_a_diagram_a_metric(results: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stats(results, json=True, plot=tmp_path / "figures")
    assert sorted(path.name for path in (tmp_path / "figures").iterdir()) == ["cd-p-1.png", "cd-p-1.svg"]
    json.loads(capsys.readouterr().out)


def test_bad_input_says_where(results: Path, tmp_path: Path) -> None:
    results.write_text(RESULTS.replace("P@1,z,B,55\n", ""), encoding="utf-8")
    with pytest.raises(DataError, match=r"results\.csv: P@1 of B on z is missing"):
        stats(results)
    with pytest.raises(DataError, match="no such file"):
        stats(tmp_path / "nowhere.csv")
    results.write_text(RESULTS, encoding="utf-8")
    with pytest.raises(DataError, match="alpha is 0"):
        stats(results, alpha=0)
    (tmp_path / "taken").touch()
    with pytest.raises(DataError, match="cannot be made a folder"):
        stats(results, plot=tmp_path / "taken")


def test_p_values_are_those_of_the_tests(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A p-value is below alpha exactly where the statistic is above its critical value."""
    stats(results, json=True)
    told = json.loads(capsys.readouterr().out)["P@1"]
    for alpha in (told["p_value"] * 0.99, told["p_value"] * 1.01):
        stats(results, json=True, alpha=alpha)
        again = json.loads(capsys.readouterr().out)["P@1"]
        assert (told["p_value"] < alpha) == (again["F_F"] > again["critical_value"])
    p_value = told["nemenyi_p_values"]["C"]
    distance = told["mid_ranks"]["C"] - told["mid_ranks"]["B"]
    for alpha in (p_value * 0.99, p_value * 1.01):
        stats(results, json=True, alpha=alpha)
        again = json.loads(capsys.readouterr().out)["P@1"]
        assert (p_value < alpha) == (distance > again["critical_difference"])


def test_lower_may_be_better(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stats(results, json=True, lower_is_better="P@1", reference="[A]")
    told = json.loads(capsys.readouterr().out)["P@1"]
    assert told["mid_ranks"] == pytest.approx({"[A]": 5 / 3, "B": 8.5 / 3, "C": 1.5})
    assert told["reference"] == "[A]" and set(told["nemenyi_p_values"]) == {"B", "C"}
    with pytest.raises(DataError, match="no metric 'P@2': choose from P@1, or all"):
        stats(results, lower_is_better="P@2")
    with pytest.raises(DataError, match="has no method 'D' of P@1"):
        stats(results, reference="D")
