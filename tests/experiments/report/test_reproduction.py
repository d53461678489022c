"""The page and the files beside it."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
from fold_records import make_record

from pysldl.experiments.report.reproduction import (
    Missing,
    ReportContext,
    build_report,
    protocol_notes,
    reproduction_context,
    write_reproduction,
)
from pysldl.experiments.stats.error_bound import ErrorBoundTerms
from pysldl.experiments.stats.results import FoldRecord, Measurements, Published, Summary

PUBLISHED = [
    Summary(metric, dataset, method, mean, 5.0)
    for metric in ("P@1", "P@5")
    for dataset, mean in (("birds", 49.0), ("emotions", 61.0), ("CUB", 70.0))
    for method in ("AdaC2", "SLDL")
]


@pytest.fixture
def context(records: list[FoldRecord]) -> ReportContext:
    measured = Measurements(
        records,
        variants=["w/o AC", "random"],
        terms=[ErrorBoundTerms("birds", "SLDL", 0.5, 1.0, 1.7)],
        curves={("k", "P@1"): {"birds": [(10, 50.0), (20, 51.0)]}},
    )
    return reproduction_context(
        measured,
        Published(PUBLISHED, [replace(row, method="w/o AC") for row in PUBLISHED if row.metric == "P@5"] + PUBLISHED),
        missing=[Missing("data set CUB", "no file of that name")],
        settings={"seed": "0"},
        versions={"pysldl": "0.1"},
    )


def test_sections_in_their_order(context: ReportContext) -> None:
    assert [section.title for section in context.sections] == [
        "Published and measured",
        "Results",
        "Ranks over the data sets",
        "Ablation",
        "The two terms of Theorem 1",
        "Training time",
        "Effect of the parameters",
        "The published tables",
    ]
    page = build_report(context)
    assert page.index("What is missing") < page.index("Published and measured") < page.index('id="settings"')


def test_what_is_missing_is_listed_once(context: ReportContext) -> None:
    assert [(item.what, item.why) for item in context.missing] == [
        ("data set CUB", "no file of that name"),
        ("method AdaC2", "published, but not run"),
    ]


def test_unfinished_folds_are_left_out_and_listed(records: list[FoldRecord]) -> None:
    context = reproduction_context(Measurements(records[:-1]), Published())
    assert context.missing == (Missing("SLDL on a|b_c", "left out, since only 9 of 10 folds are finished"),)
    results = next(section for section in context.sections if section.title == "Results").tables[0]
    assert results.rows[-1].cells[-1].value is None


def test_ablation_has_a_sentence_a_data_set(context: ReportContext) -> None:
    ablation = next(section for section in context.sections if section.title == "Ablation")
    assert [sentence.split(":")[0] for sentence in ablation.sentences] == ["birds", "emotions", "a|b_c"]
    assert all("significantly better than random" in sentence for sentence in ablation.sentences)
    page = build_report(context)
    assert all(f"<li>{sentence}</li>" in page for sentence in ablation.sentences)


def test_ablation_also_shows_rare_labels(records: list[FoldRecord]) -> None:
    """Here SLDL is ahead of random on P@5 and behind it on PSP@5, on every set."""
    both = [replace(record, metrics=record.metrics | {"PSP@5": 0.9 - record.metrics["P@5"]}) for record in records]
    context = reproduction_context(Measurements(both, variants=["random", "w/o AC"]), Published())
    ablation = next(section for section in context.sections if section.title == "Ablation")
    assert [table.name for table in (*ablation.tables, *ablation.details)] == ["ablation-p-5", "ablation-psp-5"]
    assert all(
        re.fullmatch(r".*on P@5, SLDL is .*better than random .*; on PSP@5, it is .*worse than random .*", sentence)
        for sentence in ablation.sentences
    )


def test_agreement_is_counted(context: ReportContext) -> None:
    """P@1 is published near the measured level, P@5 (half of it) far above."""
    assert "Of 4 means of SLDL, 2 lie within one" in context.sections[0].paragraphs[0]
    assert "0 above and 2 below" in context.sections[0].paragraphs[0]


def test_selection_on_the_test_folds_is_said_at_every_table(records: list[FoldRecord]) -> None:
    published = [replace(record, selection="as-published") for record in records]
    context = reproduction_context(Measurements(published, variants=["random"]), Published(PUBLISHED))
    for section in context.sections[:2] + context.sections[3:4]:
        for table in (*section.tables, *section.details):
            assert any("on the test folds (as published)" in note for note in table.notes), table.name


def test_notes_say_where_unseen_labels_are_dropped() -> None:
    kept, dropped = make_record("birds", "A", 0, 0.5), make_record("coffee", "A", 0, 0.5, unseen="drop")
    assert protocol_notes([kept])[1:] == ()
    assert protocol_notes([kept, dropped])[1].endswith("before scoring on coffee.")
    assert protocol_notes([dropped])[1].endswith("before scoring.")
    assert protocol_notes([make_record("birds", "B", 0, 0.5, selection="as-published")])[0].endswith("are optimistic.")


def test_nothing_measured_still_gives_a_page() -> None:
    page = build_report(reproduction_context(Measurements([]), Published()))
    assert "0 methods on 0 data sets" in page
    assert "Nothing: every data set was found" in page


def test_files_are_the_same_each_time(context: ReportContext, tmp_path: Path) -> None:
    first, second = (write_reproduction(context, tmp_path / name) for name in ("first", "second"))
    files = sorted(path.relative_to(first.parent) for path in first.parent.rglob("*") if path.is_file())
    assert {path.suffix for path in files} == {".html", ".md", ".tex", ".csv", ".svg", ".png"}
    assert Path("tables/results-p-1.md") in files and Path("figures/cd-p-1.svg") in files
    for path in files:
        assert (first.parent / path).read_bytes() == (second.parent / path).read_bytes(), path


def test_a_method_that_is_shown_under_another_name_still_meets_its_published_row(records: list[FoldRecord]) -> None:
    measured = [replace(record, method="AdaC2") if record.method == "random" else record for record in records]
    renamed = Measurements(measured, shown_as={"AdaC2": "AdaC2 (reconstruction)"})
    context = reproduction_context(renamed, Published(PUBLISHED))
    assert not any("AdaC2" in item.what for item in context.missing), "it was measured"
    tables = [table for section in context.sections for table in (*section.tables, *section.details)]
    for table in tables:
        names = [*table.columns, *(row.label for row in table.rows)]
        plain = [name for name in names if name.startswith("AdaC2") and "(reconstruction)" not in name]
        assert bool(plain) == (table.name.startswith("published-") and "AdaC2" in names), table.name
    assert any("AdaC2 (reconstruction)" in table.columns for table in tables)
