"""Snippets of training rows, from the data or from the model."""

from dataclasses import replace

import numpy as np
import pytest
from quick_models import fitted

from pysldl import make_sldl
from pysldl.exceptions import DataError
from pysldl.persistence import current_version, save_model
from pysldl.serve.examples import DataExamples
from pysldl.serve.source import ModelSource


def reload(source):
    source.load(source.number + 1, current_version(source.path))
    source.serve(source.number + 1)


def test_examples_stay_when_rows_are_added_and_go_when_rows_are_removed(world, tmp_path):
    path, rows = tmp_path / "model", world.subset(range(300))
    model = fitted(world, range(300), online=True)
    about = {"n_samples": 300}
    save_model(model, path, extra=about)
    source = ModelSource(path, DataExamples(rows))
    first = source.current.snippet(7)
    assert first and set(first.split(" · ")) <= set(world.feature_names[world.X[[7]].indices])

    model.partial_fit(world.X[300:310], world.Y[300:310])
    save_model(model, path, extra=about | {"updates": [{"n_added": 10, "n_removed": 0}]}, overwrite=True)
    reload(source)
    assert source.current.snippet(7) == first and source.current.snippet(305) is None

    model.remove_rows([0])
    updates = [{"n_added": 10, "n_removed": 0}, {"n_added": 0, "n_removed": 1}]
    save_model(model, path, extra=about | {"updates": updates}, overwrite=True)
    reload(source)
    assert source.current.snippet(7) is None
    with pytest.raises(DataError, match="--keep-examples"):
        ModelSource(path, DataExamples(rows))


def test_other_rows_than_those_of_the_fit_are_refused(world, word_model):
    with pytest.raises(DataError, match="has 300 rows, but the model was fitted on 400"):
        ModelSource(word_model, DataExamples(world.subset(range(300))))


def test_data_with_nothing_to_show_are_refused(world):
    with pytest.raises(DataError, match="neither texts nor term counts"):
        DataExamples(replace(world, feature_names=None))


def test_a_model_shows_what_it_keeps_of_its_rows(world, tmp_path):
    model = make_sldl("fast").fit(world.X, world.Y, label_names=world.label_names, feature_names=world.feature_names)
    save_model(model, tmp_path / "model")
    source = ModelSource(tmp_path / "model")
    heaviest = world.X[[9]].indices[np.argsort(-model.decoder_.postings_[:, [9]].toarray()[world.X[[9]].indices, 0])]
    assert source.current.snippet(9).split(" · ")[0] in world.feature_names[heaviest[:3]]
    assert set(source.current.snippet(9).split(" · ")) <= set(world.feature_names[world.X[[9]].indices])
    model.training_excerpts_ = np.array([f"row {row}" for row in range(400)], dtype=object)
    save_model(model, tmp_path / "model", overwrite=True)
    reload(source)
    assert source.current.snippet(9) == "row 9"
