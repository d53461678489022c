"""The model card: one HTML page on what a model learned from, how good it is, and where it is not to be trusted."""

from pysldl.inspection.card.content import ModelCard, make_card
from pysldl.inspection.card.page import render_card, write_card

__all__ = ["ModelCard", "make_card", "render_card", "write_card"]
