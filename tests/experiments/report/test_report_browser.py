"""The page in a real Chromium: it opens from disk, sorts, and shows no console error."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from pysldl.experiments.report.reproduction import reproduction_context, write_report
from pysldl.experiments.stats.results import FoldRecord, Measurements, Published, Summary
from webdriver import ENTER, Browser

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
CHROMEDRIVER = shutil.which("chromedriver")

pytestmark = pytest.mark.skipif(
    CHROMIUM is None or CHROMEDRIVER is None,
    reason="no Chromium with chromedriver on this machine: apt-get install chromium chromium-driver",
)


@pytest.fixture
def page(records: list[FoldRecord], tmp_path: Path) -> Path:
    unfinished = [r for r in records if (r.dataset, r.method, r.fold) != ("birds", "SLDL", 9)]
    published = [Summary("P@1", dataset, "SLDL", 60.0, 1.0) for dataset in ("birds", "emotions")]
    context = reproduction_context(Measurements(unfinished, variants=["random"]), Published(published))
    return write_report(context, tmp_path / "report.html")


@pytest.fixture
def browser() -> Iterator[Browser]:
    assert CHROMIUM is not None and CHROMEDRIVER is not None
    with Browser(CHROMIUM, CHROMEDRIVER) as opened:
        yield opened


def column(browser: Browser, table: str, index: int) -> list[str]:
    """The texts of one column of the body, from top to bottom."""
    script = (
        "return [...document.getElementById(arguments[0]).tBodies[0].rows].map(r => r.cells[arguments[1]].innerText)"
    )
    texts: list[str] = browser.run(script, table, index)
    return texts


def header(index: int) -> str:
    return f"#table-results-p-1 thead th:nth-child({index + 1}) button"


def order(browser: Browser, index: int) -> str:
    script = "return document.querySelector(arguments[0]).parentElement.getAttribute('aria-sort')"
    said: str = browser.run(script, header(index))
    return said


def test_opens_from_disk_sorts_and_stays_silent(browser: Browser, page: Path) -> None:
    browser.open(page)
    assert browser.run("return document.title").startswith("SLDL")
    assert browser.run("return document.querySelectorAll('svg').length") >= 3
    assert column(browser, "table-results-p-1", 0) == ["birds", "emotions", "a|b_c"]

    # Numbers: highest first, then lowest first; the cell without a value stays last both times.
    browser.click(header(3))
    assert order(browser, 3) == "descending"
    assert column(browser, "table-results-p-1", 0) == ["a|b_c", "emotions", "birds"]
    browser.click(header(3))
    assert order(browser, 3) == "ascending"
    assert column(browser, "table-results-p-1", 0) == ["emotions", "a|b_c", "birds"]
    assert column(browser, "table-results-p-1", 3)[-1] == "–"

    # Names, by keyboard; the other header no longer claims the order, the average rank stays below.
    browser.press(header(0), ENTER)
    assert (order(browser, 0), order(browser, 3)) == ("ascending", "none")
    assert column(browser, "table-results-p-1", 0) == ["a|b_c", "birds", "emotions"]
    assert browser.run("return document.querySelector('#table-results-p-1 tfoot th').innerText") == "average rank"

    assert browser.console() == []
    assert browser.requested(page) == {page.resolve().as_uri()}


def test_figures_keep_their_own_parts(browser: Browser, page: Path) -> None:
    """Every reference inside a figure leads to a part of that same figure."""
    browser.open(page)
    strays = browser.run(
        """
        const target = (use) => document.querySelector(use.getAttribute("xlink:href"));
        const uses = [...document.querySelectorAll("svg use")];
        return uses.filter((use) => target(use)?.closest("svg") !== use.closest("svg")).length;
        """
    )
    assert strays == 0


def test_narrow_windows_scroll_the_table_not_the_page(browser: Browser, page: Path) -> None:
    browser.resize(400, 800)
    browser.open(page)
    assert browser.run("return document.documentElement.scrollWidth <= window.innerWidth")


def test_follows_the_dark_setting(page: Path) -> None:
    assert CHROMIUM is not None and CHROMEDRIVER is not None
    shades = []
    for dark in (False, True):
        with Browser(CHROMIUM, CHROMEDRIVER, dark=dark) as browser:
            browser.open(page)
            shades.append(browser.run("return getComputedStyle(document.documentElement).backgroundColor"))
    assert shades == ["rgb(255, 255, 255)", "rgb(20, 23, 26)"]
