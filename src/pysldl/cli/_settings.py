"""Numbers in words of the command line."""

from pysldl.exceptions import DataError

__all__ = ["parse_cutoffs", "parse_ranges"]


def parse_cutoffs(text: str) -> tuple[int, ...]:
    """``"1,3,5"`` as numbers."""
    try:
        cutoffs = tuple(dict.fromkeys(int(word) for word in text.split(",")))
    except ValueError:
        cutoffs = ()
    if not cutoffs or min(cutoffs) < 1:
        raise DataError(f"--ks {text}: expected whole numbers of at least 1, such as 1,3,5.")
    return cutoffs


def parse_ranges(text: str, option: str, n: int, thing: str) -> list[int]:
    """``"17,100-120"`` as numbers of ``n`` things that are counted from 0, both ends included.

    Examples
    --------
    >>> parse_ranges("4,7-9", "--remove", 20, "training row")
    [4, 7, 8, 9]
    """
    numbers: list[int] = []
    for word in text.split(","):
        first, dash, last = word.strip().partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()) or (dash and int(last) < int(first)):
            raise DataError(f"{option} {text}: expected {thing} numbers and ranges of them, such as 3,5-7.")
        if int(last or first) >= n:
            raise DataError(f"{option} {text}: there is no {thing} {last or first}; the last is {n - 1}.")
        numbers.extend(range(int(first), int(last or first) + 1))
    return numbers
