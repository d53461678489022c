"""What Annif's backend "http" and its client send, and what they expect."""

import urllib.parse
from datetime import datetime

from service_process import Answer, Service

TEXT = "Distant cloud, rain, rainbow: OLD SKY!"
FORM = {"Content-Type": "application/x-www-form-urlencoded"}


def suggest(service: Service, name: str = "words", **fields: object) -> Answer:
    return service.send("POST", f"/v1/projects/{name}/suggest", urllib.parse.urlencode(fields).encode(), FORM)


def test_suggestions_are_the_best_labels(service: Service) -> None:
    results = suggest(service, text=TEXT, limit=4, project="ignored").document["results"]
    best = service.post("/v1/predict", {"input": TEXT, "k": 4}).document["predictions"][0]["labels"]
    assert [(one["uri"], one["label"]) for one in results] == [(one["label"], one["label"]) for one in best]
    assert [one["score"] for one in results] == [one["probability"] for one in best]
    assert all(0 < one["score"] <= 1 for one in results)
    assert len(suggest(service, text=TEXT, limit=100_000, metadata_title="x").document["results"]) > 4


def test_the_parent_address_says_that_the_model_is_trained(service: Service) -> None:
    about = service.get("/v1/projects/words").document
    assert about["is_trained"] is True and datetime.fromisoformat(about["modification_time"])
    assert service.get("/v1/projects").document["projects"] == [about]


def test_refusals(service: Service) -> None:
    assert suggest(service, "other", text=TEXT).code == "not_found"
    assert suggest(service, text=" ").code == "empty_text"
    assert suggest(service, text=TEXT, limit=0).code == "invalid_request"
    assert suggest(service, limit=5).code == "invalid_request"
    assert service.post("/v1/projects/words/suggest", {"text": TEXT}).code == "form_expected"
