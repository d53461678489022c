"""Which Host headers name this service."""

import pytest

from pysldl.serve.errors import ServiceError
from pysldl.serve.gate import AllowedHosts


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
