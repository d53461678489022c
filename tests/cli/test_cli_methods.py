"""The baselines from the command line: the same folder, the same commands after it."""

import numpy as np
import pytest

from pysldl.baselines import BASELINES, CONTROLS
from pysldl.persistence import load_model

QUICK = {"FL": {"epochs": 20, "device": "cpu"}}


@pytest.mark.parametrize("method", ["SLEEC", "FL", "AdaC2", "prior", "ridge"])
def test_fit_predict_evaluate_inspect(sldl, files, world, tmp_path, method):
    if method == "FL":
        pytest.importorskip("torch")
    changes = QUICK.get(method, {})
    settings = [word for name, value in changes.items() for word in ("--set", f"{name}={value}")]
    model = tmp_path / "model"
    fitted = sldl("fit", files["npz"], "--model", model, "--preset", method, *settings, "--json")
    assert fitted.code == 0, fitted.err
    assert fitted.document["preset"] == method
    assert ("best_epoch" in fitted.document) is (method == "FL")
    assert sldl("predict", model, files["npz"], "--k", 3).code == 0
    assert sldl("evaluate", model, files["npz"], "--json").document["metrics"]["P@1"] > 0.1
    assert sldl("inspect", model, "--labels", "--card", tmp_path / "card.html").code == 0

    train, test = world.split("train"), world.split("test")
    expected = (BASELINES | CONTROLS)[method](**changes).fit(train.X, train.Y)
    np.testing.assert_array_equal(load_model(model).predict_topk(test.X, 5)[0], expected.predict_topk(test.X, 5)[0])


def test_what_only_sldl_can_do_is_refused_in_one_line(refused, sldl, files, tmp_path):
    model, data = tmp_path / "model", files["npz"]
    line = refused("fit", data, "--model", model, "--preset", "SLEEC", "--keep-examples")
    assert "SLEEC does not explain" in line and not model.exists()
    assert sldl("fit", data, "--model", model, "--preset", "SLEEC").code == 0
    assert "a SLEEC knows no relations" in refused("inspect", model, "--relations", 3)
    assert "sldl fit DATA --preset accurate --set online=true" in refused("update", model, data)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--preset", "sleec"], "--preset: there is no 'sleec'; did you mean 'SLEEC'"),
        (["--preset", "KDTEA"], "did you mean 'KD-TEA'"),
        (["--preset", "zzz"], "baselines: SLEEC, DXML"),
        (["--preset", "SLEEC", "--set", "n_neighbor=3"], "n_neighbor"),
        (["--preset", "SLEEC", "--set", "n_neighbors=many"], "expected a value like"),
        (["--preset", "SLEEC", "--set", "embedding=RandomLabelEmbedding"], "embedding"),
    ],
)
def test_bad_names_and_settings(refused, files, tmp_path, words, message):
    assert message in refused("fit", files["npz"], "--model", tmp_path / "model", *words)
