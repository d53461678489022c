"""Tables for terminals and notebooks."""

from html_cells import cells

from pysldl.inspection.display import bar, html_table, text_table


def test_bars_say_how_much_and_which_way():
    assert "width:3.00em" in bar(0.5, 1.0) and "width:6.00em" in bar(-2.0, 1.0) and "width:0.00em" in bar(1.0, 0.0)
    color = {sign: bar(sign, 1.0).rpartition("background:")[2] for sign in (-1.0, 1.0)}
    assert color[-1.0] != color[1.0]


def test_tables_without_rows():
    assert text_table(("a", "b"), []) == "a  b"
    assert cells(html_table("none", ("a", "b"), [])) == [["a", "b"]]


def test_numbers_are_aligned_right_and_texts_are_escaped_and_cut():
    rows = [("a" * 70, 5, "7%"), ("<b>", 1234.5, "100%")]
    header, first, second = text_table(("name", "n", "share"), rows).splitlines()
    assert first == "a" * 57 + "...        5     7%" and second.endswith("1234.50   100%") and len(header) == len(first)
    html = html_table("<i>", ("name", "n", "share"), rows)
    assert "&lt;b&gt;" in html and "&lt;i&gt;" in html and html.count("text-align:right") == 4
