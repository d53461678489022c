"""HTML pages from templates: the report of an experiment and the model card."""

from importlib import resources
from typing import TYPE_CHECKING

from pysldl.exceptions import MissingDependencyError

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

    from jinja2 import Environment


def page_style(own: "Traversable") -> str:
    """Return the style of a page: what all pages share, and the rules of its own file behind it."""
    shared = resources.files(__package__) / "templates" / "base.css"
    return shared.read_text(encoding="utf-8") + "\n" + own.read_text(encoding="utf-8")


def page_templates(package: str, what: str) -> tuple["Environment", "Traversable"]:
    """Return the templates of a package, and their folder; ``what`` names the page if jinja2 is missing."""
    try:
        import jinja2
    except ImportError:
        raise MissingDependencyError(
            f'{what} needs jinja2, which is not installed: pip install "pysldl[plot]".'
        ) from None
    folder = resources.files(package) / "templates"
    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(lambda name: (folder / name).read_text(encoding="utf-8")),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment, folder
