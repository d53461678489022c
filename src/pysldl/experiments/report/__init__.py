"""The page: one self-contained HTML file with every table and figure of a reproduction."""

from pysldl.experiments.report.page import Missing, ReportContext, Section, build_report, write_report
from pysldl.experiments.report.reproduction import (
    Measurements,
    Published,
    reproduction_context,
    write_reproduction,
)

__all__ = [
    "Measurements",
    "Missing",
    "Published",
    "ReportContext",
    "Section",
    "build_report",
    "reproduction_context",
    "write_report",
    "write_reproduction",
]
