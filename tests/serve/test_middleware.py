"""Limits by client."""

import pytest

from pysldl.serve import middleware
from pysldl.serve.errors import ServiceError
from pysldl.serve.middleware import AllowedHosts, ClientRates


def test_a_client_may_send_so_many_and_then_at_its_rate():
    rates = ClientRates(2.0)
    assert [rates.take("a", 0.0) for _ in range(6)] == [True] * 4 + [False] * 2
    assert rates.take("b", 0.0)
    assert [rates.take("a", 1.0) for _ in range(3)] == [True, True, False]


def test_clients_that_are_silent_are_forgotten(monkeypatch):
    monkeypatch.setattr(middleware, "MOST_CLIENTS", 2)
    rates = ClientRates(1.0)
    for client in "abcab":
        rates.take(client, 0.0)
    assert set(rates._left) == {"a", "b"}


# Which Host headers name this service


@pytest.mark.parametrize(
    ("listening", "names", "host", "server", "is_allowed"),
    [
        ("127.0.0.1", [], "localhost:8000", "127.0.0.1", True),
        ("127.0.0.1", [], "localhost.", None, True),
        ("0.0.0.0", [], "192.168.1.5:8000", "192.168.1.5", True),
        ("0.0.0.0", [], "192.168.1.6", "192.168.1.5", False),
        ("0.0.0.0", [], "0.0.0.0", "192.168.1.5", False),
        ("::", [], "[fe80::1]:8000", "fe80::1", True),
        ("tags.example", [], "tags.example", None, True),
        ("127.0.0.1", ["Tags.Example"], "tags.example:443", None, True),
        ("127.0.0.1", ["*"], "anything.example", None, True),
        ("127.0.0.1", [], "evil.example", "127.0.0.1", False),
        ("127.0.0.1", [], "", "127.0.0.1", False),
    ],
)
def test_names_and_addresses(listening, names, host, server, is_allowed):
    assert AllowedHosts(listening, names).allows(host, server) is is_allowed


def test_origins():
    hosts = AllowedHosts()
    hosts.check({"host": "localhost:8000", "origin": "http://localhost:8000"}, None)
    with pytest.raises(ServiceError, match="Pages of other sites"):
        hosts.check({"host": "localhost:8000", "origin": "http://localhost:9000"}, None)
    AllowedHosts("127.0.0.1", ["*"]).check({"host": "a", "origin": "http://b"}, None)
