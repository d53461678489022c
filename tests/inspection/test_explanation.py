"""Explanations as people see them: in a terminal and in a notebook."""

import pytest
from html_cells import cells

from pysldl.inspection.explanation import Explanation, FeatureTerm, Neighbor


@pytest.fixture
def explanation():
    return Explanation(
        label="<b>sky</b>",
        score=0.75,
        probability=0.5,
        neighbors=(Neighbor(3, 0.9, 0.5, ("sky", "a & b")), Neighbor(17, 0.8, 0.25, ("sky",))),
        terms=(FeatureTerm("blue", 0.2, 0.4), FeatureTerm("<script>", 0.1, -0.1)),
        terms_total=0.3,
        terms_meaning="score of the linear read-out",
    )


def test_explanation_in_a_terminal(explanation):
    assert str(explanation).splitlines() == [
        "<b>sky</b>: score 0.75, probability 0.50",
        "  similar training examples",
        "    row 3: similarity 0.900, 0.5 of the score; sky, a & b",
        "    row 17: similarity 0.800, 0.25 of the score; sky",
        "  features that raised or lowered the score (score of the linear read-out: 0.300)",
        "    blue: +0.400",
        "    <script>: -0.100",
    ]
    assert repr(explanation) == ("<Explanation of '<b>sky</b>': score 0.75, probability 0.50; 2 neighbors, 2 terms>")


def test_explanation_in_a_notebook(explanation):
    html = explanation._repr_html_()
    assert "<script>" not in html and "<b>sky</b>" not in html.replace("<b>&lt;", "")
    rows = cells(html)
    assert rows[1] == ["3", "0.90", "0.50", "", "sky, a & b"]
    assert rows[-1] == ["<script>", "0.10", "-0.100", ""]
    alone = Explanation("sky", 0.1, None, (), (), 0.0, "nothing")
    assert cells(alone._repr_html_()) == [] and "probability" not in alone._repr_html_()
