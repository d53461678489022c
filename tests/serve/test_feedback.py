"""Labels that people chose: kept in a file that `sldl update` takes, or learned at once."""

import json
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from service_process import PATIENCE, Service

from pysldl import make_sldl
from pysldl.cli import run
from pysldl.datasets import SyntheticDataset
from pysldl.persistence import load_model, save_model
from pysldl.serve.feedback import FeedbackStore
from pysldl.serve.schemas import FeedbackRequest

TOKEN = {"Authorization": "Bearer open-sesame"}


@pytest.fixture
def online_model(world: SyntheticDataset, tmp_path: Path) -> Path:
    texts = [" ".join(world.feature_names[world.X[[row]].indices]) for row in range(120)]
    labels = [world.label_names[world.Y[[row]].indices].tolist() for row in range(120)]
    save_model(make_sldl("fast", random_state=0, online=True).fit(texts, labels), tmp_path / "model")
    return tmp_path / "model"


def test_feedback_of_many_at_once_is_kept_whole_and_can_be_learned(
    serve: Callable[..., Service], online_model: Path, tmp_path: Path
) -> None:
    file = tmp_path / "feedback.jsonl"
    file.write_text('{"text": "old sky", "labels": ["sky"]}')  # somebody edited it: no end of line
    service = serve(online_model, "--workers", "2", "--feedback", str(file))
    assert service.get("/v1/model").document["feedback"] == "file"
    rows = [
        {"input": f"cloud {i} " + "rain " * 500, "labels": ["sky", "a new label"], "rejected": ["sea"]}
        for i in range(20)
    ]
    with ThreadPoolExecutor(8) as people:
        answers = list(people.map(lambda row: service.post("/v1/feedback", row), rows))
    assert {answer.status for answer in answers} == {200}
    assert answers[0].document == {"saved": True, "learned": False}
    kept = [json.loads(line) for line in file.read_text().splitlines()]
    assert sorted(row["text"] for row in kept[1:]) == sorted(row["input"] for row in rows)
    assert run(["update", str(online_model), str(file), "--json"]) == 0
    learned = load_model(online_model)
    assert learned.n_samples_ == 141 and "a new label" in learned.label_names_


@pytest.mark.parametrize("left", [b'{"text": "half a li', b'{"text": "' + b"x" * 200_000])
def test_half_a_line_that_a_killed_process_left_is_taken_away(left: bytes, tmp_path: Path) -> None:
    file = tmp_path / "feedback.jsonl"
    file.write_bytes(b'{"text": "whole", "labels": ["sky"]}\n' + left)
    FeedbackStore(file).save(FeedbackRequest("new", ["sky"], []))
    assert [json.loads(line)["text"] for line in file.read_text().splitlines()] == ["whole", "new"]


def test_feedback_is_kept_in_a_new_file_where_the_old_one_was_taken_away(tmp_path: Path) -> None:
    feedback_store = FeedbackStore(tmp_path / "feedback.jsonl")
    (tmp_path / "feedback.jsonl").unlink()
    feedback_store.save(FeedbackRequest("new", ["sky"], []))
    assert json.loads((tmp_path / "feedback.jsonl").read_text())["text"] == "new"


def test_a_model_learns_at_once_where_that_is_wanted(
    serve: Callable[..., Service], online_model: Path, tmp_path: Path
) -> None:
    (tmp_path / "token").write_text("open-sesame")
    service = serve(online_model, "--learn", "--token-file", str(tmp_path / "token"), "--poll", "0.1")
    row = {"input": "zebra crossing", "labels": ["zebras"]}
    assert service.post("/v1/feedback", row).code == "unauthorized"
    assert service.post("/v1/feedback", row, **TOKEN).document == {"saved": True, "learned": True}
    end = time.monotonic() + PATIENCE
    while service.get("/v1/labels?query=zebras", **TOKEN).document["total"] == 0:
        assert time.monotonic() < end
        time.sleep(0.1)
    assert service.get("/v1/model", **TOKEN).document["n_samples"] == 121


def test_refusals(service: Service, serve: Callable[..., Service], online_model: Path, tmp_path: Path) -> None:
    row = {"input": "cloud", "labels": ["sky"]}
    assert service.post("/v1/feedback", row).code == "not_supported"
    keeper = serve(online_model, "--workers", "1", "--feedback", str(tmp_path / "file.jsonl"))
    for wrong in ({"input": " "}, {"labels": []}, {"labels": [""]}, {"labels": ["x" * 1001]}, {"more": 1}):
        assert keeper.post("/v1/feedback", row | wrong).code == "invalid_request"
    assert (tmp_path / "file.jsonl").read_bytes() == b""
