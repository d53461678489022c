"""The report as one self-contained HTML file."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pysldl._utils.files import slug, write_atomically
from pysldl._utils.page_templates import page_style, page_templates
from pysldl.experiments.report.figures import Drawing
from pysldl.experiments.report.tables import Cell, Table


@dataclass(frozen=True, slots=True)
class Missing:
    """Something that a reader would look for and not find ("data set CUB"), and why ("no local copy was found")."""

    what: str
    why: str


@dataclass(frozen=True, slots=True)
class Section:
    """A part of the page."""

    title: str
    paragraphs: tuple[str, ...] = ()  # plain text above the tables
    sentences: tuple[str, ...] = ()  # plain text as a list
    tables: tuple[Table, ...] = ()  # shown open
    figures: tuple[Drawing, ...] = ()
    details: tuple[Table, ...] = ()  # further tables, folded until a reader opens them
    timed: bool = False  # whether it shows times, which differ from run to run: their files lie apart from the others

    @property
    def anchor(self) -> str:
        """Its name in addresses."""
        return slug(self.title)


@dataclass(frozen=True, slots=True)
class ReportContext:
    """Everything the page shows: title and lead, what is missing, the sections, settings and versions."""

    title: str
    lead: str
    missing: tuple[Missing, ...] = ()
    sections: tuple[Section, ...] = ()
    settings: Mapping[str, str] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)


def build_report(context: ReportContext) -> str:
    """Return the page as HTML with its style, script and figures inside; equal contexts give equal pages."""
    environment, templates = page_templates("pysldl.experiments.report", "the report")
    import markupsafe  # jinja2 needs it, too

    environment.filters["sort_key"] = _sort_key
    environment.filters["inline_svg"] = lambda drawing: markupsafe.Markup(_inline_svg(drawing))
    style, script = page_style(templates / "page.css"), (templates / "sort.js").read_text(encoding="utf-8")
    page: str = environment.get_template("page.html.jinja").render(
        report=context, style=markupsafe.Markup(style), script=markupsafe.Markup(script)
    )
    return page + "\n"


def write_report(context: ReportContext, path: Path) -> Path:
    """Write the page to `path`, replacing an older one only once the new one is complete."""
    return write_atomically(path, build_report(context))


def _sort_key(cell: Cell) -> str:
    """What the script sorts by: the number in full, or the text; empty if there is nothing."""
    if cell.value is None:
        return ""
    return str(cell.value).replace("inf", "Infinity") if isinstance(cell.value, float) else str(cell.value)


def _inline_svg(drawing: Drawing) -> str:
    """Return the drawing for use inside HTML: no XML prolog, and names that no other drawing has.

    Every drawing calls its parts the same; in one document a reference would find the first of them.
    """
    svg = drawing.svg[drawing.svg.index("<svg") :].strip()
    svg = re.sub(r"<metadata>.*?</metadata>\s*", "", svg, flags=re.DOTALL)
    svg = re.sub(r'(\bid="|href="#|url\(#)', rf"\1figure-{drawing.name}-", svg)
    return svg.replace("<svg ", '<svg aria-hidden="true" ', 1)
