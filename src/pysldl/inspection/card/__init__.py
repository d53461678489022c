"""The model card: one HTML page on what a model learned from, its quality, and its known limits."""

from pysldl.inspection.card.content import HeldOut, ModelCard, make_card
from pysldl.inspection.card.render import render_card, write_card

__all__ = ["HeldOut", "ModelCard", "make_card", "render_card", "write_card"]
