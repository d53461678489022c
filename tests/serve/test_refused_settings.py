"""Settings of a service that cannot work are refused before anything listens."""

import pytest

pytest.importorskip("starlette")

from pysldl.exceptions import DataError
from pysldl.serve.feedback import FeedbackStore
from pysldl.serve.server import Tls, serve_model


def test_a_certificate_without_its_key(tmp_path):
    (tmp_path / "cert.pem").write_text("no certificate")
    with pytest.raises(DataError, match=r"cert\.pem, .*key\.pem: no TLS certificate with its key"):
        serve_model(tmp_path, tls=Tls(tmp_path / "cert.pem", tmp_path / "key.pem"))


def test_feedback_in_a_folder_that_is_not_there(tmp_path):
    with pytest.raises(DataError, match=r"feedback cannot be kept there: No such file"):
        FeedbackStore(tmp_path / "nowhere" / "feedback.jsonl")
