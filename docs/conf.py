"""Sphinx settings of the documentation: ``make docs`` builds it into build/docs."""

import sys
from importlib import import_module
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "src"))

from pysldl import __version__  # noqa: E402

project = "pysldl"
author = "The pysldl developers"
copyright = author
version = release = __version__

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "sphinx_gallery.gen_gallery",
]
myst_enable_extensions = ["colon_fence", "dollarmath"]
myst_heading_anchors = 4
exclude_patterns = ["_build", "templates"]
suppress_warnings = ["misc.highlighting_failure"]  # answers shown in part are not JSON
autosummary_generate = True
autodoc_typehints = "none"  # the numpydoc entries say it in words
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False
templates_path = ["templates"]

html_theme = "pydata_sphinx_theme"
html_title = f"pysldl {release}"
html_show_sourcelink = False
html_theme_options = {
    "navigation_with_keys": True,
    "show_toc_level": 2,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": ["sphinx-version"],
}

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": "/plot_",
    "remove_config_comments": True,
    "min_reported_time": 1e9,
    "show_memory": False,
    "within_subsection_order": "FileNameSortKey",
    "abort_on_example_error": True,
}

PACKAGES = {
    "pysldl": "The classifier, its presets, loading and evaluation.",
    "pysldl.embedding": "Labels to Gaussians or vectors.",
    "pysldl.mapping": "Features to the latent space.",
    "pysldl.decoding": "Latent codes or features to labels.",
    "pysldl.ranking": "Candidates to rankings.",
    "pysldl.neighbors": "Indexes of rows.",
    "pysldl.metrics": "Metrics of rankings.",
    "pysldl.datasets": "Readers, writers, splits, vocabularies and generators.",
    "pysldl.baselines": "The paper's baselines, and controls.",
    "pysldl.persistence": "The model folder.",
    "pysldl.dask": "Fits and predictions on a Dask cluster.",
    "pysldl.annif": "The backend for Annif.",
    "pysldl.inspection.card": "The model card, as a page or as the README of a model hub.",
    "pysldl.exceptions": "Errors and warnings.",
}


def write_reference(*_: object) -> None:
    """Write a page for every package, with a table of its public names, from which autosummary makes their pages."""
    folder = HERE / "reference"
    folder.mkdir(exist_ok=True)
    for package, summary in PACKAGES.items():
        names = [name for name in import_module(package).__all__ if not name.startswith("__")]
        lines = [package, "=" * len(package), "", summary, "", f".. currentmodule:: {package}", "", ".. autosummary::"]
        lines += ["   :toctree: generated", "   :nosignatures:", "", *(f"   {name}" for name in sorted(names)), ""]
        page, text = folder / f"{package}.rst", "\n".join(lines)
        if not page.exists() or page.read_text() != text:  # an unchanged page is not built again
            page.write_text(text)


def skip_foreign_members(
    _app: object, _what: str, name: str, member: object, skip: bool, _options: object
) -> bool | None:
    """Leave out what classes inherit from scikit-learn, which documents it."""
    foreign = str(getattr(member, "__module__", "")).startswith("sklearn")
    return True if foreign or name.endswith("_request") or skip else None


def setup(app: Any) -> None:
    """Called by Sphinx."""
    app.connect("autodoc-skip-member", skip_foreign_members)


write_reference()
