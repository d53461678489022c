"""The model card: true numbers, honest gaps, and a page that needs nothing but itself."""

import re
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import sparse

from pysldl import SLDLClassifier, make_sldl
from pysldl.datasets import make_asymmetric_multilabel, write_npz
from pysldl.embedding import RandomLabelEmbedding
from pysldl.estimator.calibration import ScoreCalibration
from pysldl.exceptions import DataError, MissingDependencyError
from pysldl.inspection.card import HeldOut, make_card, render_card, write_card
from pysldl.inspection.card.content import flat_parameters
from pysldl.metrics import evaluate
from pysldl.metrics.reliability import by_frequency, reliability, reliability_report
from pysldl.persistence import load_model, read_manifest, save_model


@pytest.fixture(scope="module")
def data():
    return make_asymmetric_multilabel(random_state=0)


@pytest.fixture(scope="module")
def folder(data, tmp_path_factory):
    train = data.split("train")
    clf = make_sldl("blend", embedding__n_components=32, embedding__n_steps=100, online=True)
    clf.fit(train.X, train.Y, label_names=data.label_names)
    path = tmp_path_factory.mktemp("card") / "<world>"
    save_model(clf, path, extra={"data": "a & b", "split": "train", "n_samples": clf.n_samples_})
    return path


@pytest.fixture(scope="module")
def card(folder):
    return make_card(folder.name, load_model(folder), read_manifest(folder))


def test_left_out_results_foretell_those_on_new_rows(card, folder, data):
    test = data.split("test")
    labels, _ = load_model(folder).predict_topk(test.X, 5)
    found = evaluate(test.Y, labels, ks=(1, 3, 5))
    told = card.held_out.metrics
    for name in ("P@1", "nDCG@3", "R@5"):
        assert told[name] == pytest.approx(found[name], abs=0.06)
    recalls = [group["recall"] for group in card.held_out.groups]
    assert recalls[0] < recalls[-1]
    assert sum(group["n_labels"] for group in card.held_out.groups) == (load_model(folder).label_counts_ > 0).sum()


def test_reliability_is_judged_on_rows_outside_the_curve(card, monkeypatch):
    assert card.held_out.calibration_error < 0.05
    rng = np.random.default_rng(0)
    scores = rng.random((400, 20))
    Y = sparse.csr_array((rng.random((400, 20)) < 0.3).astype(np.float32))
    learned = []
    learn = ScoreCalibration._fit_ranked

    def by_heart(self, ranked, n_labels, floor):
        learned.append(len(ranked.labels))
        self.known = set(ranked.scores.ravel().tolist())
        return learn(self, ranked, n_labels, floor)

    def probability(self, asked):
        return np.array([1.0 if score in self.known else 0.5 for score in asked.ravel()]).reshape(asked.shape)

    monkeypatch.setattr(ScoreCalibration, "_fit_ranked", by_heart)
    monkeypatch.setattr(ScoreCalibration, "probability", probability)
    reliability_bins = ScoreCalibration().fit(scores, Y).held_out_["reliability"]
    assert learned == [400, 200, 200]
    # A curve that knows its own rows by heart knows nothing of the others.
    assert [(group["predicted"], group["n"]) for group in reliability_bins] == [(0.5, 8000)]


def test_summary_by_hand():
    labels = np.array([[0, 1, -1], [2, 0, 1]])
    Y = sparse.csr_array(np.array([[1, 0, 1], [0, 1, 1]], dtype=np.float32))
    summary = reliability_report(labels, Y, None)
    assert summary["n_true"].tolist() == [1, 1, 2] and summary["n_found"].tolist() == [1, 1, 1]
    assert summary["metrics"]["P@1"] == 1.0 and summary["reliability"] == []
    groups = by_frequency(summary["n_true"], summary["n_found"], np.array([1, 50, 2000]))
    assert [(g["from"], g["to"], g["recall"]) for g in groups] == [(1, 1, 1.0), (30, 99, 1.0), (1000, None, 0.5)]
    assert reliability(np.array([0.05, 0.15, 0.95, 1.0]), np.array([0, 1, 1, 0])) == [
        {"n": 1, "predicted": 0.05, "observed": 0.0},
        {"n": 1, "predicted": 0.15, "observed": 1.0},
        {"n": 2, "predicted": 0.975, "observed": 0.5},
    ]


def test_the_page_holds_all_parts_and_needs_no_network(card):
    page = render_card(card)
    for part in ("limits", "data", "quality", "calibration", "relations", "settings"):
        assert f'<section id="{part}">' in page
    assert "&lt;world&gt;" in page and "<world>" not in page and "a &amp; b" in page
    assert not re.search(r'(src|href)="(?!data:)', page) and "url(" not in page and "http" not in page
    assert page == render_card(card)
    points = re.search(r'<polyline class="curve" points="([^"]*)"', page).group(1).split()
    assert len(points) == len(card.held_out.reliability)
    assert f">{100 * card.held_out.metrics['P@1']:.1f}<" in page
    assert page.count('<td class="text">') == 2 * len(card.relations)
    assert page.count('<td class="text">implies</td>') == sum(r.verb == "implies" for r in card.relations) > 0
    assert "direction sure" in page and "&gt;99%" in page
    assert "embedding.n_components" in page and "not what causes what" in page


def test_what_is_not_known_is_said(data, tmp_path):
    clf = SLDLClassifier(RandomLabelEmbedding(8), calibrate=False, random_state=0)
    clf.fit(data.X[:100], data.Y[:100][:, :5])
    save_model(clf, tmp_path / "plain")
    card = make_card("plain", clf, read_manifest(tmp_path / "plain"))
    assert card.held_out is None and all(relation.kl is None for relation in card.relations)
    page = render_card(card)
    assert page.count("Not available") == 2 and ">reverse<" not in page
    assert any("Nothing is known about the quality" in limit for limit in card.limits)


def test_limits_are_those_of_the_model(folder, data):
    model = load_model(folder)
    model.partial_fit(data.X[:5], [["sky", "a new label"]] * 5)
    model.label_counts_ = np.where(np.arange(len(model.label_counts_)) == 0, 0, model.label_counts_)
    manifest = read_manifest(folder)
    manifest.extra["updates"] = [{}]
    limits = " ".join(make_card("grown", model, manifest).limits)
    assert "1 of 91 labels are on no training row" in limits
    assert "Rows were added or removed since the fit" in limits


def test_a_card_is_written_whole_or_not_at_all(card, tmp_path):
    target = write_card(card, tmp_path / "new" / "card.html")
    assert target.read_text(encoding="utf-8") == render_card(card)
    with pytest.raises(DataError):
        write_card(card, tmp_path / "new")
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == ["card.html"]


def test_the_command_line_measures_on_other_rows(folder, data, tmp_path, capsys):
    from pysldl.cli import run

    write_npz(data, tmp_path / "world.npz")
    page = tmp_path / "card.html"
    words = ["inspect", str(folder), "--card", str(page), "--features", "raw", "--json"]
    assert run([*words, "--data", str(tmp_path / "world.npz")]) == 0
    told = page.read_text(encoding="utf-8")
    test = data.split("test")
    labels, _ = load_model(folder).predict_topk(test.X, 5)
    assert f">{100 * evaluate(test.Y, labels, ks=(1,))['P@1']:.1f}<" in told and "split test" in told
    assert run(words) == 0
    assert "held out from the mapping" in page.read_text(encoding="utf-8")
    capsys.readouterr()
    assert run(["inspect", str(folder), "--data", "x.npz"]) == 2
    assert "--card FILE" in capsys.readouterr().err
    assert run(["inspect", str(folder), "--card", str(tmp_path)]) == 2
    assert run([*words, "--data", str(tmp_path / "none.npz")]) == 2


def test_flat_parameters():
    tree = {"alpha": 1.0, "mapping": {"class": "RidgeMapping", "tol": 0.1, "positive": None}}
    assert flat_parameters(tree) == {"alpha": 1.0, "mapping": "RidgeMapping", "mapping.tol": 0.1}


def test_limits_of_results_are_said_in_numbers():
    groups = [
        {"from": 1, "to": 1, "n_labels": 3, "n_true": 4, "recall": 0.25},
        {"from": 1000, "to": None, "n_labels": 1, "n_true": 9, "recall": 0.75},
    ]
    poor = HeldOut("rows", 10, {}, groups, [{"n": 7, "predicted": 0.9, "observed": 0.3}])
    assert poor.calibration_error == pytest.approx(0.6) and HeldOut("rows", 0, {}, [], []).calibration_error is None
    model = SimpleNamespace(
        label_counts_=np.array([3, 0]),
        n_features_in_=4,
        calibration_=None,
        vectorizer_=object(),
        embedding_=SimpleNamespace(converged_=False),
    )
    manifest = SimpleNamespace(extra={}, created="long ago", library_version="0", n_bytes=5, parameters={})
    card = make_card("x", model, manifest, poor)
    assert card.relations is None and card.data["written"] == "long ago by pysldl 0"
    limits = " ".join(card.limits)
    assert "near 90% came true in 30% of 7 cases" in limits and "not calibrated" in limits
    assert (
        "on a single training row, 25% are among the five best; of those on 1,000 or more training rows, 75%" in limits
    )
    assert "do not contain are ignored" in limits and "still falling" in limits
    assert "keeps no training labels" in render_card(card)


def test_a_decoder_without_training_labels_has_no_relations():
    class Model(SimpleNamespace):
        def label_relations(self, top):
            raise DataError("no neighbors")

    model = Model(label_counts_=np.array([3]), n_features_in_=4, calibration_=None)
    manifest = SimpleNamespace(
        extra={}, created="2026-01-02T03:04:05+00:00", library_version="0", n_bytes=5, parameters={}
    )
    card = make_card("x", model, manifest)
    assert card.relations is None and card.data["written"].startswith("2026-01-02 03:04 UTC")


def test_without_jinja2_the_extra_is_named(card, monkeypatch):
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(MissingDependencyError, match="pysldl\\[plot\\]"):
        render_card(card)
