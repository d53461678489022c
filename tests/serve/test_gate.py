"""Limits by client."""

from pysldl.serve import gate
from pysldl.serve.gate import ClientRates


def test_a_client_may_send_so_many_and_then_at_its_rate():
    rates = ClientRates(2.0)
    assert [rates.take("a", 0.0) for _ in range(6)] == [True] * 4 + [False] * 2
    assert rates.take("b", 0.0)
    assert [rates.take("a", 1.0) for _ in range(3)] == [True, True, False]


def test_clients_that_are_silent_are_forgotten(monkeypatch):
    monkeypatch.setattr(gate, "MOST_CLIENTS", 2)
    rates = ClientRates(1.0)
    for client in "abcab":
        rates.take(client, 0.0)
    assert set(rates._left) == {"a", "b"}
