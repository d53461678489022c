"""A classifier from the command line: ``fast``, or with settings ``fast(embedding=RandomLabelEmbedding(256))``."""

import argparse
import ast
from typing import Any

import pysldl.decoding
import pysldl.embedding
import pysldl.mapping
from pysldl import SLDLClassifier, make_sldl
from pysldl.exceptions import SLDLError

__all__ = ["check_preset", "read_preset"]


def read_preset(specification: str) -> SLDLClassifier:
    """A classifier from the way one would write it: a preset's name, or a call of it with overrides.

    Values are literals, or calls of the stages of the library with such values.
    """
    try:
        expression = ast.parse(specification, mode="eval").body
    except SyntaxError as error:
        raise ValueError(f"{specification!r} is not a preset, nor a call of one: {error.msg}") from error
    if isinstance(expression, ast.Name):
        return make_sldl(expression.id)
    if not (isinstance(expression, ast.Call) and isinstance(expression.func, ast.Name)):
        raise ValueError(f"{specification!r} is not a preset, nor a call of one, such as fast(calibrate=False)")
    return make_sldl(expression.func.id, **_keywords(expression))


def check_preset(parser: argparse.ArgumentParser, specification: str) -> None:
    """End with the parser's error where ``specification`` says nothing that can be made."""
    try:
        read_preset(specification)
    except (SLDLError, ValueError, TypeError) as error:
        parser.error(f"{specification}: {error}")


def _value(node: ast.expr) -> Any:
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name)):
        return ast.literal_eval(node)
    for module in (pysldl.embedding, pysldl.mapping, pysldl.decoding):
        if node.func.id in module.__all__:
            return getattr(module, node.func.id)(*map(_value, node.args), **_keywords(node))
    raise ValueError(f"the library has no stage {node.func.id!r}")


def _keywords(call: ast.Call) -> dict[str, Any]:
    return {str(keyword.arg): _value(keyword.value) for keyword in call.keywords}
