"""Tables: what is marked, and how each format spells it."""

import csv
import io

from pysldl.experiments.report.paper_tables import (
    ablation_sentence,
    ablation_table,
    agreement_table,
    error_bound_table,
    friedman_table,
    published_table,
    result_table,
    time_table,
)
from pysldl.experiments.stats.error_bound import ErrorBoundTerms
from pysldl.experiments.stats.results import FoldRecord, Summary, scores_by_metric, summarize
from pysldl.experiments.stats.significance import Comparison, compare_folds, rank_test

ROWS = [
    Summary("P@1", "x_1", "A", 50.0, 1.0),
    Summary("P@1", "x_1", "SLDL", 60.0, 1.0),
    Summary("P@1", "y", "A", 70.004, 2.0),
    Summary("P@1", "y", "SLDL", 70.0, 2.0),
    Summary("P@5", "y", "SLDL", 1.0, 2.0),
]
WORSE = [Comparison("P@1", "x_1", "A", "SLDL", 10.0, 0.001, "paired")]


def test_best_is_bold_and_worse_is_underlined_in_every_format() -> None:
    table = result_table(ROWS, WORSE, "P@1")
    markdown, latex = table.to_markdown(), table.to_latex()
    assert "| x\\_1 | <u>50.00 ± 1.00</u> | **60.00 ± 1.00** |" in markdown
    assert "| y | **70.00 ± 2.00** | 70.00 ± 2.00 |" in markdown
    assert "| average rank | 1.50 | 1.50 |" in markdown
    assert "paired over the folds" in markdown
    assert r"x\_1 & \underline{50.00 $\pm$ 1.00} & \textbf{60.00 $\pm$ 1.00} \\" in latex
    assert latex.count(r"\midrule") == 2
    rows = list(csv.DictReader(io.StringIO(table.to_csv())))
    assert rows[0] == {
        "data set": "x_1", "A": "50.000000", "A std": "1.000000", "A mark": "worse",
        "SLDL": "60.000000", "SLDL std": "1.000000", "SLDL mark": "best",
    }  # fmt: skip


def test_missing_cell_stays_empty_and_ranks_say_what_they_cover() -> None:
    rows = [*ROWS, Summary("P@1", "z", "SLDL", 5.0, 1.0)]
    table = result_table(rows, [], "P@1")
    assert table.rows[-1].cells[0].value is None
    assert "| z | – | **5.00 ± 1.00** |" in table.to_markdown()
    assert "Ranks are over the 2 data sets that have every method." in table.notes


def test_one_method_has_no_ranks() -> None:
    assert result_table([row for row in ROWS if row.method == "SLDL"], [], "P@1").footer == ()


def test_ablation_puts_the_reference_last(records: list[FoldRecord]) -> None:
    compared = compare_folds(records, "P@5", "SLDL")
    table = ablation_table(summarize(records), compared, ["SLDL", "w/o AC", "random", "absent"], "P@5")
    assert table.columns == ("w/o AC", "random", "SLDL")
    assert all(row.cells[1].worse for row in table.rows)


def test_ablation_sentence_names_each_verdict() -> None:
    def against(method: str, difference: float, p: float, metric: str = "P@5") -> Comparison:
        return Comparison(metric, "x", method, "SLDL", difference, p, "paired")

    compared = [against("a", 1.5, 0.01), against("b", -0.5, 0.01), against("c", 0.1, 0.5), against("d", 2, 0.04)]
    first = "x: on P@5, SLDL is significantly better than a (+1.50) and d (+2.00), significantly worse than b (-0.50), "
    assert ablation_sentence("x", compared) == first + "and not distinguishable from c."
    compared.append(against("a", 0.2, 0.3, "PSP@5"))
    assert ablation_sentence("x", compared) == (
        first + "and not distinguishable from c; on PSP@5, it is not distinguishable from a."
    )
    assert ablation_sentence("y", compared) == "y: nothing to compare."


def test_difference_is_in_units_of_the_published_deviation() -> None:
    measured = [Summary("P@1", "x_1", "SLDL", 58.5, 9.0), Summary("P@1", "new", "SLDL", 1.0, 1.0)]
    table = published_table(ROWS, measured, "P@1")
    by_name = {row.label: [cell.value for cell in row.cells] for row in table.rows}
    assert by_name["x_1"] == [60.0, 58.5, -1.5, -1.5]
    assert by_name["y"] == [70.0, None, None, None]
    assert by_name["new"] == [None, 1.0, None, None]


def test_difference_needs_a_published_deviation() -> None:
    table = published_table([Summary("P@1", "x", "SLDL", 1.0)], [Summary("P@1", "x", "SLDL", 2.0)], "P@1")
    assert [cell.value for cell in table.rows[0].cells] == [1.0, 2.0, 1.0, None]


def test_agreement_averages_over_the_shared_data_sets() -> None:
    measured = [Summary("P@1", "x_1", "SLDL", 61.0), Summary("P@1", "y", "SLDL", 76.0), Summary("P@1", "n", "SLDL", 9)]
    table = agreement_table(ROWS, measured)
    assert table.columns == ("P@1",)
    assert [(row.label, row.cells[0].value) for row in table.rows] == [("x_1", 1.0), ("y", 3.0)]
    assert table.footer[0].cells[0].value == 2.0
    assert agreement_table(ROWS, []).rows == ()


def test_friedman_table_shows_infinity() -> None:
    rows = [Summary("P@1", d, m, v) for d in ("x", "y", "z") for m, v in (("A", 1.0), ("B", 2.0), ("C", 3.0))]
    table = friedman_table([rank_test(scores_by_metric(rows)["P@1"])])
    assert "| P@1 | ∞ |" in table.to_markdown()
    assert r"$\infty$" in table.to_latex()


def test_fastest_is_bold_and_terms_have_their_share() -> None:
    times = time_table({"x": {"A": 2.0, "B": 1.0}, "y": {"B": 3.0}})
    assert [cell.best for cell in times.rows[0].cells] == [False, True]
    assert times.rows[1].cells[0].value is None
    assert not times.rows[1].cells[0].best
    terms = error_bound_table(
        [ErrorBoundTerms("x", "SLDL", 1.0, 3.0, 1.5), ErrorBoundTerms("x", "none", 0.0, 0.0, 1.0)]
    )
    assert [row.cells[3].value for row in terms.rows] == [0.25, None]
