"""Records are replaced by key, say where they come from, and read back as they were."""

import argparse

import pytest


def test_a_measurement_made_again_takes_the_place_of_the_first(tmp_path):
    from records import ENVIRONMENT, read_rows, write_rows

    path = tmp_path / "new" / "times.csv"
    write_rows(path, [{"set": "a", "fit": {"s": 1.5}, "n": 3}, {"set": "b, c", "fit": {"s": 2}}], ("set",))
    write_rows(path, [{"set": "a", "fit": {"s": 0.25}, "held": True}], ("set",))
    first, second = read_rows(path)
    assert (first["set"], first["fit.s"], first["held"], first["n"]) == ("a", 0.25, True, None)
    assert (second["set"], second["fit.s"], second["held"]) == ("b, c", 2, None)
    assert list(first)[-len(ENVIRONMENT) :] == list(ENVIRONMENT)
    assert first["date"].startswith("20") and first["numpy"] and first["cores"].isdigit()


def test_equal_keys_of_other_types_are_one_row(tmp_path):
    import numpy as np

    from records import read_rows, write_rows

    path = tmp_path / "times.csv"
    for n in (2, 2.0, np.float32(2), np.int64(2)):
        write_rows(path, [{"n": n}], ("n",))
    assert [row["n"] for row in read_rows(path)] == [2]


def test_no_file_has_no_rows(tmp_path):
    from records import read_rows

    assert read_rows(tmp_path / "none.csv") == []


@pytest.mark.parametrize("words", [[], ["--record"], ["--record", "here.csv"]])
def test_the_option_has_a_file_of_its_own(words):
    from records import RESULTS, add_record_option

    parser = argparse.ArgumentParser()
    add_record_option(parser, "times.csv")
    found = parser.parse_args(words).record
    assert found == {0: None, 1: RESULTS / "times.csv"}.get(len(words), found)
    assert len(words) < 2 or found.name == "here.csv"
