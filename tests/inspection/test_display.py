"""Explanations and relations as people see them: in a terminal and in a notebook."""

from html.parser import HTMLParser

import pytest

from pysldl.inspection.display import bar, html_table, text_table
from pysldl.inspection.explanation import Explanation, FeatureTerm, Neighbor
from pysldl.inspection.relations import LabelRelation, Relations

VOID = {"br", "hr", "img", "meta", "link", "input"}


class Cells(HTMLParser):
    """The cells of every table row; fails where tags do not close."""

    def __init__(self):
        super().__init__()
        self.open, self.rows, self.caption = [], [], ""

    def handle_starttag(self, tag, attrs):
        if tag not in VOID:
            self.open.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if {"td", "th"} & set(self.open):
            self.rows[-1][-1] += data
        elif "caption" in self.open:
            self.caption += data


def cells(html):
    parser = Cells()
    parser.feed(html)
    assert not parser.open
    return parser.rows


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


@pytest.fixture
def relations():
    return Relations(
        [
            LabelRelation("cloud", "sky", 40, 90, 38, 400, 0.5, 2.0),
            LabelRelation(
                "<i>", "a label with a name that is much longer than any table has room for", 2, 2, 1, 9, 1, 3
            ),
        ]
    )


def test_explanation_in_a_terminal(explanation):
    assert str(explanation).splitlines() == [
        "<b>sky</b>: score 0.75, probability 0.50",
        "  voted for by",
        "    row 3: similarity 0.900, 0.5 of the score; sky, a & b",
        "    row 17: similarity 0.800, 0.25 of the score; sky",
        "  score of the linear read-out: 0.300, of which",
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


def test_relations_are_a_list(relations):
    assert relations == list(relations) and len(relations) == 2 and isinstance(relations, list)
    assert isinstance(relations[0], LabelRelation)
    assert isinstance(relations[:1], Relations) and relations[:1] == [relations[0]]
    assert [r.source for r in sorted(relations, key=lambda r: r.source)] == ["<i>", "cloud"]


def test_relations_in_a_terminal(relations):
    header, first, second = str(relations).splitlines()
    assert header.split() == ["label", "relation", "other", "label", "rows", "of", "share", "sure", "KL", "reverse"]
    assert first.split() == ["cloud", "implies", "sky", "38", "40", "95%", ">99%", "0.50", "2.00"]
    assert "..." in second and "is related to" in second and "50%" in second and len(second) < 140
    assert len(first) == len(header)
    assert repr(relations) == str(relations)
    assert str(Relations()) == "no relations"


def test_relations_in_a_notebook(relations):
    rows = cells(relations._repr_html_())
    assert rows[1] == ["cloud", "implies", "sky", "38 of 40", "95%", "", ">99%", "0.50", "2.00"]
    assert rows[2][0] == "<i>" and "<i>" not in relations._repr_html_()
    assert "no relations" in Relations()._repr_html_()
    without = Relations([LabelRelation("cloud", "sky", 40, 90, 38, 400)])
    assert "KL" not in str(without) and "KL" not in without._repr_html_()


def test_bars_say_how_much_and_which_way():
    assert "width:3.00em" in bar(0.5, 1.0) and "width:6.00em" in bar(-2.0, 1.0) and "width:0.00em" in bar(1.0, 0.0)
    color = {sign: bar(sign, 1.0).rpartition("background:")[2] for sign in (-1.0, 1.0)}
    assert color[-1.0] != color[1.0]


def test_tables_without_rows():
    assert text_table(("a", "b"), []) == "a  b"
    assert cells(html_table("none", ("a", "b"), [])) == [["a", "b"]]
