"""The model card, an HTML page or Markdown: what a model learned from, its quality, and its known limits."""

from pysldl.inspection.card.content import HeldOut, ModelCard, make_card, render_card, write_card
from pysldl.inspection.card.hub import export_model, hub_readme

__all__ = ["HeldOut", "ModelCard", "export_model", "hub_readme", "make_card", "render_card", "write_card"]
