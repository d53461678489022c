"""Suggest similar names for one that is not known."""

from collections.abc import Iterable, Mapping
from difflib import get_close_matches

MOST = 3
MOST_CHARACTERS = 200
MOST_COMPARED = 200
BUCKETS = 32


def did_you_mean(name: str, known: Iterable[str] | Mapping[str, str]) -> str:
    """Return ``"did you mean 'cloud' or 'clouds'?"``, or nothing if no known name is close; case is ignored.

    If ``known`` is a mapping, it maps everything a thing is called to the name that is suggested.
    """
    name = name[:MOST_CHARACTERS]
    meant = known if isinstance(known, Mapping) else {one: one for one in known}
    in_lower_case: dict[str, str] = {}
    for called, suggested in meant.items():
        in_lower_case.setdefault(called.lower(), suggested)
    near = get_close_matches(name.lower(), _with_like_letters(name.lower(), list(in_lower_case)), n=MOST)
    names = dict.fromkeys(in_lower_case[one] for one in near)
    return f"did you mean {' or '.join(map(repr, names))}?" if names else ""


def _with_like_letters(name: str, known: list[str]) -> list[str]:
    """Return those of many names whose letters differ least from those of a name; comparing all would take seconds.

    The letters of two names differ by at most twice the number of edits that lead from one to the other.
    """
    if len(known) <= MOST_COMPARED:
        return known
    import numpy as np

    short = [one[:MOST_CHARACTERS] for one in (name, *known)]
    letters = np.frombuffer("".join(short).encode("utf-32-le", "surrogatepass"), dtype=np.uint32) % BUCKETS
    owners = np.repeat(np.arange(len(short)), [len(one) for one in short])
    counts = np.bincount(owners * BUCKETS + letters, minlength=len(short) * BUCKETS).reshape(-1, BUCKETS)
    differences = np.abs(counts[1:] - counts[0]).sum(axis=1)
    nearest = np.argpartition(differences, MOST_COMPARED)[:MOST_COMPARED]
    return [known[place] for place in np.sort(nearest).tolist()]
