"""The question after a name that is not known."""

from collections.abc import Iterable, Mapping
from difflib import get_close_matches

__all__ = ["did_you_mean"]

MOST = 3


def did_you_mean(name: str, known: Iterable[str] | Mapping[str, str]) -> str:
    """``"did you mean 'cloud' or 'clouds'?"``, or nothing where no name is near.

    Parameters
    ----------
    name : str
        What was asked for, in any case.
    known : iterable of str, or mapping of str to str
        What there is; a mapping leads from everything a thing is called to the name to suggest.
    """
    meant = known if isinstance(known, Mapping) else {one: one for one in known}
    in_lower_case: dict[str, str] = {}
    for called, suggested in meant.items():
        in_lower_case.setdefault(called.lower(), suggested)
    near = get_close_matches(name.lower(), in_lower_case, n=MOST)
    names = dict.fromkeys(in_lower_case[one] for one in near)
    return f"did you mean {' or '.join(map(repr, names))}?" if names else ""
