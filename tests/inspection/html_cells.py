"""The cells of HTML tables."""

from html.parser import HTMLParser

__all__ = ["cells"]

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
