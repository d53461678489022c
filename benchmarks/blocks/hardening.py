"""What fuzzing, killing and cutting the power found, from the records of fuzz.py and crash.py."""

from collections import Counter

from blocks.evidence import Rows, from_record

__all__ = ["crashes", "fuzzing"]

TRIED = {
    "killed": "Killed before a system call",
    "no space": "No space at a write",
    "power lost": "Power lost after a call, in four ways",
    "clock jumped": "Clock wrong by a day or by years",
    "two at once": "Two updates at once",
}
GOOD = ("old", "new", "every row", "one refused")
FUZZED = {
    "models": "model folders",
    "files": "data files",
    "tables": "Parquet, Arrow and Feather files",
    "vocabularies": "vocabularies (SKOS, TSV, CSV)",
    "baselines": "folders of baselines",
}


@from_record("crash")
def crashes(found: Rows) -> str:
    """A row for each thing that happened to the writers: how often, what was left, and what was lost."""
    lines = [
        "| what happened | writers | cases | old content | new content | anything else |",
        "|---|---|---|---|---|---|",
    ]
    for what, told in TRIED.items():
        rows = found.where(what=what)
        counts: Counter[str] = Counter()
        for row in rows:
            counts[row["outcome"]] += int(row["cases"])
        writers = len({row["writer"] for row in rows})
        total = sum(counts[outcome] for outcome in GOOD)
        bad = sum(n for outcome, n in counts.items() if outcome not in GOOD)
        if total:
            new = counts["new"] + counts["every row"]
            lines.append(f"| {told} | {writers} | {total:,} | {counts['old']:,} | {new:,} | {bad} |")
    return "\n".join(lines)


@from_record("fuzz")
def fuzzing(found: Rows) -> str:
    """A row for each kind of input: how many were changed, what came of them, the slowest and the largest."""
    lines = [
        "| changed at random | cases | refused | read or loaded | findings | slowest | largest growth |",
        "|---|---|---|---|---|---|---|",
    ]
    for kind, told in FUZZED.items():
        rows = found.where(kind=kind)
        counts: Counter[str] = Counter()
        for row in rows:
            counts[row["outcome"]] += int(row["cases"])
        if counts:
            read = counts["read"] + counts["loaded"]
            lines.append(
                f"| {told} | {counts['refused'] + read:,} | {counts['refused']:,} | {read:,} | {counts['findings']} | "
                f"{counts['slowest, ms']} ms | {counts['largest growth, MiB']} MiB |"
            )
    return "\n".join(lines)
