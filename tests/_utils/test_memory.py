"""Sizes in words, and refusals before memory is taken."""

import sys

import numpy as np
import pytest

from pysldl._utils import memory
from pysldl._utils.memory import (
    available_memory,
    fits_in_memory,
    format_bytes,
    parse_bytes,
    require_memory,
    resident_memory,
)
from pysldl.exceptions import DataError, MemoryLimitError


@pytest.mark.parametrize(
    ("text", "size"),
    [(12, 12), ("12", 12), ("1.5 kB", 1500), ("4 GB", 4 * 10**9), ("512MiB", 512 * 2**20), (" 2 gib ", 2**31)],
)
def test_sizes_in_words(text, size):
    assert parse_bytes(text) == size


@pytest.mark.parametrize("text", ["", "much", "4 XB", "-1 GB", "GB"])
def test_what_is_no_size(text):
    with pytest.raises(DataError, match="is not a memory size; write for example '4 GB'"):
        parse_bytes(text)


@pytest.mark.parametrize(("size", "text"), [(5, "5 B"), (1500, "1.5 kB"), (2_000_000, "2.0 MB"), (3 * 10**9, "3.0 GB")])
def test_sizes_for_people(size, text):
    assert format_bytes(size) == text


def test_a_limit_decides_else_what_is_free(monkeypatch):
    assert available_memory() > 10**6
    monkeypatch.setattr(memory, "available_memory", lambda: 1000)
    assert fits_in_memory(1000) and not fits_in_memory(1001) and fits_in_memory(1001, "2 kB")
    require_memory(1000, "It", "Less.")
    with pytest.raises(MemoryLimitError, match=r"It needs about 1.0 kB, but only 1.0 kB are available. Less."):
        require_memory(1001, "It", "Less.")
    with pytest.raises(MemoryLimitError, match="but the limit is 500 B"):
        require_memory(900, "It", "Less.", 500)


def test_a_system_that_does_not_tell_is_trusted(monkeypatch):
    monkeypatch.setattr(memory, "available_memory", lambda: None)
    assert fits_in_memory(10**18)
    require_memory(10**18, "It", "Less.")


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not say it there")
def test_resident_memory_and_what_of_it_is_pages_of_files(tmp_path):
    np.ones(10_000_000, np.uint8).tofile(tmp_path / "bytes")
    before = resident_memory()
    own = np.ones(64_000_000, np.uint8)
    mapped = np.memmap(tmp_path / "bytes", np.uint8, "r")
    assert mapped.sum() == 10_000_000 and own[0] == 1
    resident, pages = (after - start for after, start in zip(resident_memory(), before, strict=True))
    assert resident > 70_000_000 and 9_000_000 < pages < 20_000_000
