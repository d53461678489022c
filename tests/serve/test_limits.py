"""Limits of a service."""

import pytest

from pysldl.exceptions import DataError
from pysldl.serve.limits import Limits


def test_defaults_are_valid():
    Limits().validate()
    Limits(queue=0).validate()
    assert Limits().body_bytes == 4_000_000 and Limits(max_body="2 KiB").body_bytes == 2048


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        (Limits(max_rows=0), "--max-rows must be positive, but is 0."),
        (Limits(timeout=float("nan")), "--timeout must be positive, but is nan."),
        (Limits(queue=-1), "--queue must not be negative, but is -1."),
        (Limits(max_body="much"), "--max-body: 'much' is not a memory size; write for example '4 GB'."),
    ],
)
def test_what_no_service_can_keep(limits, message):
    with pytest.raises(DataError) as refused:
        limits.validate()
    assert str(refused.value) == message
