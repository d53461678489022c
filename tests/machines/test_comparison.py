"""The comparison of machines sees what it has to see: other bits, other labels, other relations, other metrics."""

from dataclasses import replace

import numpy as np
import pytest

from pysldl import make_sldl
from pysldl.datasets import make_asymmetric_multilabel

DATA = make_asymmetric_multilabel(200, 80, 20, random_state=0)


@pytest.fixture(scope="module")
def model():
    return make_sldl("paper", embedding__n_components=4, embedding__n_steps=5).fit(DATA.X, DATA.Y)


@pytest.fixture(scope="module")
def found(scripts, model):
    return scripts.fingerprints.fingerprint(model, DATA.X, DATA.Y, DATA.Y)


@pytest.fixture
def settings(scripts):
    setting = scripts.machine_settings.MachineSetting
    return [setting("default", ""), setting("two", "", threads=2), setting("old", "", processor="old")]


def test_a_fingerprint_holds_arrays_labels_relations_and_metrics(found, model):
    assert {
        "embedding_.components_",
        "embedding_.log_variances_",
        "the rest",
        "predicted scores",
    } <= found.digests.keys()
    assert np.array_equal(found.top, model.predict_topk(DATA.X, 5)[0])
    assert {"P@1", "PSP@5"} <= found.metrics.keys()
    assert found.relations is not None


def test_the_same_fit_twice_has_the_same_fingerprint(scripts, found, model):
    again = scripts.fingerprints.fingerprint(model.fit(DATA.X, DATA.Y), DATA.X, DATA.Y, DATA.Y)
    assert scripts.fingerprints.compare(found, again) == scripts.fingerprints.Agreement((), 1.0, 1.0, (), ())


def test_one_bit_of_a_fitted_array_is_seen(scripts, model):
    before = scripts.fingerprints.digests(model)
    places = model.embedding_.components_
    model.embedding_.components_ = places.copy()
    model.embedding_.components_[3, 1] = np.nextafter(places[3, 1], np.float32(9))
    after = scripts.fingerprints.digests(model)
    model.embedding_.components_ = places
    assert {name for name in before if before[name] != after[name]} == {"embedding_.components_"}


def test_kept_in_a_file(scripts, found, tmp_path):
    scripts.fingerprints.write_fingerprint(tmp_path / "a.json", found)
    read = scripts.fingerprints.read_fingerprint(tmp_path / "a.json")
    assert scripts.fingerprints.compare(found, read) == scripts.fingerprints.Agreement((), 1.0, 1.0, (), ())


def test_the_order_of_the_five_is_told_apart_from_the_five(scripts, found):
    swapped = replace(found, top=[[row[1], row[0], *row[2:]] if n == 0 else row for n, row in enumerate(found.top)])
    other = replace(found, top=[[-7, *row[1:]] if n == 0 else row for n, row in enumerate(found.top)])
    agreement = scripts.fingerprints.compare(found, swapped)
    assert (agreement.same_five, agreement.same_order) == (1.0, 0.995)
    assert scripts.fingerprints.compare(found, other).same_five == 0.995


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"top": [[0, 1, 2, 3, 4]] * 200}, "the same five best labels on"),
        ({"relations": ["one label too many"]}, "one label too many"),
        ({"metrics": {"P@1": "0.00"}}, "P@1"),
    ],
)
def test_faults_between_processors_name_settings_and_thing(scripts, found, settings, change, fault):
    default, _, old = settings
    change = change | {name: [*found.relations, *new] for name, new in change.items() if name == "relations"}
    agreement = scripts.fingerprints.compare(found, replace(found, **change))
    lines = scripts.run.problems("paper", default, old, agreement)
    assert len([line for line in lines if fault in line]) == 1
    assert all(line.startswith("paper: default and old") for line in lines)


def test_other_bits_are_a_fault_on_the_same_processor_only(scripts, found, settings):
    default, two, old = settings
    agreement = scripts.fingerprints.compare(found, replace(found, digests=found.digests | {"the rest": "other"}))
    assert scripts.run.problems("paper", default, two, agreement) == ["paper: default and two differ in the rest"]
    assert scripts.run.problems("paper", default, old, agreement) == []


def test_a_result_that_is_missing_is_a_fault(scripts, found, settings):
    results = {
        "default": {"paper": found, "fast": found},
        "two": {"paper": found},
        "old": {"paper": found, "fast": found},
    }
    table, lines = scripts.run.compare_all(settings, results)
    assert lines == ["fast: no result under two"]
    assert ["paper", "bits", "bits"] in table
    assert ["fast", "", "bits"] in table
