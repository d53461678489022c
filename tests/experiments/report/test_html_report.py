"""The page: whole, self-contained, and safe from names."""

import builtins
import re
from html.parser import HTMLParser
from typing import Any

import pytest

from pysldl.exceptions import MissingDependencyError
from pysldl.experiments.report.reproduction import Missing, ReportContext, Section, build_report, reproduction_context
from pysldl.experiments.report.tables import Cell, Row, Table
from pysldl.experiments.stats.results import FoldRecord, Measurements, Published


class Outline(HTMLParser):
    """Collects tags, identifiers and references, and checks that tags close in order."""

    VOID = frozenset({"meta", "link", "br"})

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.identifiers: list[str] = []
        self.references: list[str] = []
        self._open: list[str] = []
        self.feed(page)
        assert not self._open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_startendtag(tag, attrs)
        if tag not in self.VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        for name, value in attrs:
            if name == "id":
                self.identifiers.append(str(value))
            if name in ("href", "xlink:href", "src"):
                self.references.append(str(value))

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag


def test_page_is_complete_and_needs_no_network(records: list[FoldRecord]) -> None:
    context = reproduction_context(Measurements(records, variants=["random"]), Published())
    page = build_report(context)
    outline = Outline(page)
    assert page.startswith("<!DOCTYPE html>")
    assert len(outline.identifiers) == len(set(outline.identifiers))
    inside = {f"#{name}" for name in outline.identifiers}
    assert {reference for reference in outline.references if reference not in inside} == {"data:,"}
    fetching = re.findall(r"url\((?!#)|@import|fetch\(|XMLHttpRequest|<script src", page)
    assert not fetching
    figures = sum(len(section.figures) for section in context.sections)
    assert outline.tags.count("svg") == figures >= 3


def test_names_cannot_break_the_page() -> None:
    evil = '<script>alert("x")</script>'
    table = Table("t", evil, evil, evil, (evil,), (Row(evil, (Cell(evil),)),), notes=(evil,))
    context = ReportContext(
        evil, evil, (Missing(evil, evil),), (Section(evil, (evil,), (evil,), (table,)),), {evil: evil}
    )
    page = build_report(context)
    assert "<script>alert" not in page
    assert Outline(page).tags.count("script") == 1
    Outline(build_report(reproduction_context(Measurements([]), Published())))


def test_without_jinja_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    real_import = builtins.__import__

    def refuse(name: str, *args: Any, **kwargs: Any) -> Any:
        if name == "jinja2":
            raise ImportError(name)
        return real_import(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(MissingDependencyError, match=r'pip install "pysldl\[plot\]"'):
        build_report(ReportContext("t", "l"))
