"""The trial of a researcher (docs/trial.md): own data and own method with all tables, and the method by hand."""

import json
import runpy
from pathlib import Path

import numpy as np
import pytest

from pysldl.baselines import LabelPrior
from pysldl.experiments.run import methods
from pysldl.experiments.run.methods import find_methods, register_method
from pysldl.experiments.run.protocol import Protocol
from pysldl.experiments.run.runner import find_sources, run_experiment

ROOT = Path(__file__).resolve().parents[2]
QUICK = ("--c-hats", "4", "--n-steps", "5", "--ks", "3", "--validation-rows", "10", "--jobs", "1")


def constant_method():
    return LabelPrior()


def test_the_method_by_hand(capsys):
    example = ROOT / "examples" / "paper_by_hand.py"
    if not example.is_file():
        pytest.skip("the examples are not part of an installed package")
    found = runpy.run_path(str(example))
    assert found["by_hand"]["P@1"] > 0.7 and "P@1" in capsys.readouterr().out
    body = [line for line in example.read_text().splitlines() if line and not line.startswith(("#", "import", "from"))]
    assert len(body) <= 20


def test_own_data_with_controls_in_one_command(sldl, records_file, tmp_path):
    pytest.importorskip("matplotlib", reason="figures need the extra plot")
    out = tmp_path / "out"
    chosen = ("--methods", "sldl,controls", "--datasets", records_file, "--folds", "4", "--first-folds", "2")
    told = sldl("reproduce", "--out", out, *chosen, *QUICK, "--json").document
    assert not told["failures"]
    assert {row["method"] for row in told["summaries"]} == {"SLDL", "prior", "knn", "ovr", "ridge"}
    assert {row["dataset"] for row in told["summaries"]} == {"records"}
    page = (out / "report.html").read_text()
    assert "2 of the 4 folds of a cross-validation" in page and "4-fold" not in page
    tex = sorted((out / "tables").glob("*.tex"))
    assert tex and "\\begin{tabular}" in tex[0].read_text()


def test_all_methods_have_a_name_together():
    everything = [method.name for method in find_methods(["all"])]
    assert len(everything) == len(set(everything)) and {"sldl", "random", "CLIF", "prior", "accurate"} <= set(
        everything
    )
    assert find_methods(["baselines"])[0].name == "SLEEC"


def test_an_own_method_gets_its_tables(sldl, records_file, tmp_path, monkeypatch):
    pytest.importorskip("matplotlib", reason="figures need the extra plot")
    sources, _ = find_sources([str(records_file)], None)
    with monkeypatch.context() as patch:
        patch.setattr(methods, "_REGISTERED", {})
        register_method("mine", constant_method, title="Mine")
        run_experiment(find_methods(["mine", "knn"]), sources, Protocol(n_folds=2), tmp_path / "run", jobs=1)
    # the command that writes the tables does not know the method
    told = sldl("reproduce", "--report-only", "--out", tmp_path / "run", "--json").document
    assert {row["method"] for row in told["summaries"]} == {"Mine", "knn"}
    assert any("Mine" in path.read_text() for path in (tmp_path / "run" / "tables").glob("*.md"))
    printed = sldl("reproduce", "--report-only", "--out", tmp_path / "run").out
    assert "P@1" in printed and "Mine" in printed  # figures without --check


def test_means_of_many_methods_can_be_read_on_a_narrow_terminal(monkeypatch, capsys):
    from pysldl.cli.reproduce import _print_means
    from pysldl.experiments.stats.results import Summary

    monkeypatch.setenv("COLUMNS", "80")
    methods = [method.title for method in find_methods(["all"])]
    metrics = ("P@1", "P@5", "nDCG@5", "PSP@5")
    _print_means([Summary(metric, "records", name, 12.345, 6.7) for metric in metrics for name in methods])
    printed = capsys.readouterr().out
    assert len(methods) > 20 and all(name in printed for name in methods) and printed.count("±") >= 3 * len(methods)


def test_ranks_that_tie_are_the_same_everywhere(sldl, tmp_path):
    path = tmp_path / "results.csv"
    rows = [("a", 0.5), ("b", 0.5), ("c", 0.1)]
    lines = [f"P@1,{data},{method},{mean}" for data in ("x", "y", "z") for method, mean in rows]
    path.write_text("\n".join(["metric,dataset,method,mean", *lines]) + "\n")
    told = sldl("stats", path, "--json").document["P@1"]
    assert told["mid_ranks"] == {"a": 1.5, "b": 1.5, "c": 3.0}
    assert set(told["nemenyi_p_values"]) and np.isfinite(told["p_value"])
    printed = sldl("stats", path).out
    assert printed.count("1.50") == 2
    sldl("stats", path, "--tables", tmp_path / "tables")
    tex = (tmp_path / "tables" / "average-ranks.tex").read_text()
    assert tex.count("1.50") == 2 and "tabular" in tex and (tmp_path / "tables" / "friedman.tex").is_file()
    slow = json.loads(sldl("stats", path, "--lower-is-better", "P@1", "--json").out)["P@1"]
    assert slow["mid_ranks"]["c"] == 1.0
