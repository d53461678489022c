"""Every endpoint of a real service, against the library itself."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from service_process import Service

from pysldl.datasets import SyntheticDataset
from pysldl.persistence import load_model

TEXT = "Distant cloud, rain, rainbow: OLD SKY!"


def sparse_input(world: SyntheticDataset, row: int) -> dict[str, list[list[float]]]:
    part = world.X[[row]]
    return {"sparse": [[int(column), float(value)] for column, value in zip(part.indices, part.data, strict=True)]}


def test_the_three_kinds_of_input_give_what_the_library_gives(service, world, word_model):
    rows = [3, 4, 5]
    labels, scores = load_model(word_model).predict_topk(world.X[rows], 4, names=True)
    dense = world.X[rows].toarray().tolist()
    for inputs in (dense, [sparse_input(world, row) for row in rows]):
        found = service.post("/v1/predict", {"inputs": inputs, "k": 4}).document["predictions"]
        assert [[label["label"] for label in row["labels"]] for row in found] == labels.tolist()
        assert np.allclose([[label["score"] for label in row["labels"]] for row in found], scores, rtol=1e-5)
    one = service.post("/v1/predict", {"input": dense[0], "k": 4}).document["predictions"]
    assert one == found[:1]


def test_words_of_a_text_become_the_counts_of_the_vocabulary(service, world):
    columns = {name: column for column, name in enumerate(world.feature_names.tolist())}
    words = ["cloud", "rain", "rainbow", "sky", "distant cloud", "old sky"]
    known = {"sparse": [[columns[word], 1] for word in words if word in columns]}
    assert len(known["sparse"]) >= 5
    by_text = service.post("/v1/predict", {"input": TEXT}).document["predictions"][0]
    assert by_text == service.post("/v1/predict", {"input": known}).document["predictions"][0]
    assert by_text["features"] == len(known["sparse"])
    assert {"sky", "cloud"} & {label["label"] for label in by_text["labels"]}
    assert all(0 < label["probability"] < 1 for label in by_text["labels"])


def test_a_text_without_a_known_word_says_so(service):
    found = service.post("/v1/predict", {"input": "Zzyzx qwrtp"}).document["predictions"][0]
    assert found["features"] == 0 and found["labels"]


def test_threshold_and_chosen_labels(service, word_model):
    every = service.post("/v1/predict", {"input": TEXT, "k": 40}).document["predictions"][0]["labels"]
    cut = (every[2]["probability"] + every[3]["probability"]) / 2
    above = service.post("/v1/predict", {"input": TEXT, "threshold": cut}).document["predictions"][0]["labels"]
    assert above == [label for label in every if label["probability"] >= cut]
    learned = service.post("/v1/predict", {"input": TEXT, "threshold": "learned"}).document["predictions"][0]["labels"]
    threshold = load_model(word_model).calibration_.threshold_
    assert [label["label"] for label in learned] == [x["label"] for x in every if x["score"] >= threshold]
    assert all(label["chosen"] for label in learned)
    wanted = ["sky", "people", "cloud"]
    only = service.post("/v1/predict", {"input": TEXT, "labels": wanted}).document["predictions"][0]["labels"]
    assert {label["label"] for label in only} == set(wanted)
    assert [label["score"] for label in only] == sorted((label["score"] for label in only), reverse=True)


def test_explanations_are_the_library_s(service, world, word_model):
    reasons = load_model(word_model).explain(world.X[[7]], "sky", top=3)
    given = service.post("/v1/explain", {"input": sparse_input(world, 7), "label": "sky", "top": 3}).document
    assert [(n["row"], n["labels"]) for n in given["neighbors"]] == [(n.row, list(n.labels)) for n in reasons.neighbors]
    assert [t["feature"] for t in given["terms"]] == [t.feature for t in reasons.terms]
    assert given["score"] == pytest.approx(reasons.score, rel=1e-5)
    text = service.post("/v1/explain", {"input": TEXT, "label": "sky", "top": 8}).document
    assert any(term["words"] for term in text["terms"])


def test_labels_by_name_and_frequency(service, world):
    counts = dict(zip(world.label_names.tolist(), np.bincount(world.Y.indices).tolist(), strict=True))
    everything = service.get("/v1/labels?limit=100").document
    assert {x["label"]: x["count"] for x in everything["labels"]} == counts and everything["total"] == 40
    assert [x["count"] for x in everything["labels"]] == sorted(counts.values(), reverse=True)
    found = service.get("/v1/labels?query=RAIN").document["labels"]
    assert {x["label"] for x in found} == {name for name in counts if "rain" in name}
    second = service.get("/v1/labels?limit=5&offset=5").document["labels"]
    assert second == everything["labels"][5:10]
    common = service.get("/v1/labels?min_count=30&limit=100").document
    assert {x["label"] for x in common["labels"]} == {name for name, count in counts.items() if count >= 30}


def test_relations_agree_with_the_library_in_both_directions(service, word_model):
    relations = load_model(word_model).label_relations(top=12, per_label=1)
    assert relations
    for relation in relations:
        out = service.get(f"/v1/relations?label={relation.source}&limit=100").document
        there = next(x for x in out["outgoing"] if x["label"] == relation.target)
        back = next(
            x
            for x in service.get(f"/v1/relations?label={relation.target}&limit=100").document["incoming"]
            if x["label"] == relation.source
        )
        for found in (there, back):
            assert found["verb"] == relation.verb and found["n_both"] == relation.n_both
            for figure in ("kl", "kl_reverse", "share", "share_low", "confidence"):
                assert found[figure] == pytest.approx(getattr(relation, figure), rel=1e-4)
        assert out["count"] == relation.n_source and there["count"] == relation.n_target
        assert all(x["count"] >= out["count"] for x in out["outgoing"])


def test_relations_leave_out_rare_labels(service):
    everything, frequent = (
        service.get(f"/v1/relations?label=sky&limit=100&min_count={least}").document for least in (0, 30)
    )
    for side in ("outgoing", "incoming"):
        assert frequent[side] == [x for x in everything[side] if x["count"] >= 30]
    assert len(frequent["incoming"]) < len(everything["incoming"])
    assert service.get("/v1/relations?label=sky&min_count=-1").code == "invalid_request"


def test_map_has_a_place_for_every_label_and_directed_arrows(service):
    found = service.get("/v1/map").document
    assert len(found["labels"]) == len(found["x"]) == len(found["y"]) == len(found["counts"]) == 40
    places = np.array([found["x"], found["y"]])
    assert places.min() >= 0 and places.max() <= 1 and places.std(axis=1).min() > 0.1
    arrows = set(zip(found["source"], found["target"], strict=True))
    assert arrows and not any((target, source) in arrows for source, target in arrows)
    plain, packed = service.get("/v1/map"), service.get("/v1/map", **{"Accept-Encoding": "gzip"})
    assert packed.headers["content-encoding"] == "gzip" and len(packed.body) < len(plain.body)


def test_model_says_what_it_is(service, word_model):
    facts = service.get("/v1/model").document
    assert (facts["n_samples"], facts["n_features"], facts["n_labels"]) == (400, 240, 40)
    assert facts["takes"] == ["text", "vectors"] and facts["fitted_on"]["data"] == "world"
    assert facts["parameters"]["embedding"]["n_components"] == 16
    calibration = facts["calibration"]
    assert len(calibration["scores"]) == len(calibration["probabilities"]) > 2
    assert facts["frequencies"] == sorted(facts["frequencies"], reverse=True)


def test_health_and_metrics_count_over_all_workers(service):
    assert service.get("/health").document["status"] == "ok"

    def rows() -> float:
        text = service.get("/metrics").body.decode()
        assert re.search(r"^# TYPE sldl_request_seconds histogram$", text, re.M)
        return float(re.search(r"^sldl_rows_total (\S+)$", text, re.M)[1])

    before = rows()
    for _ in range(10):  # every connection is new, so both workers answer some
        service.post("/v1/predict", {"inputs": [TEXT, TEXT]})
    assert rows() == before + 20


def test_examples_show_what_the_training_rows_said(serve, text_model, world, tmp_path):
    texts = [" ".join(world.feature_names[world.X[[row]].indices]) for row in range(200)]
    rows = [{"text": text, "labels": ["sky"]} for text in texts]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    service = serve(text_model, "--workers", "1", "--examples", str(tmp_path / "rows.jsonl"))
    for neighbor in service.post("/v1/explain", {"input": TEXT, "label": "sky"}).document["neighbors"]:
        assert neighbor["text"] == texts[neighbor["row"]]


class TestKindsOfModel:
    def test_vectors_only(self, vector_service: Service, world: SyntheticDataset) -> None:
        service = vector_service
        refused = service.post("/v1/predict", {"input": "a text"})
        assert (refused.status, refused.code) == (400, "vector_expected")
        assert service.post("/v1/predict", {"input": world.X[[0]].toarray()[0].tolist()}).status == 200
        assert service.get("/v1/model").document["takes"] == ["vectors"]

    def test_texts_only(self, serve: Callable[..., Service], text_model: Path) -> None:
        service = serve(text_model, "--workers", "1")
        refused = service.post("/v1/predict", {"input": {"sparse": [[0, 1]]}})
        assert (refused.status, refused.code) == (400, "text_expected")
        answer = service.post("/v1/explain", {"input": TEXT, "label": "sky"})
        assert answer.status == 200
        assert {"term": ["sky"], "words": ["SKY"]} in [
            {"term": [term["feature"]], "words": term["words"]} for term in answer.document["terms"]
        ]
        kinds = service.get("/openapi.json").document["components"]["schemas"]["PredictRequest"]["properties"]
        assert [kind["type"] for kind in kinds["input"]["anyOf"]] == ["string", "null"]
