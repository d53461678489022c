"""Items shared out among processes that may die."""

import os

import pytest

from pysldl.experiments.run.runner import Died, run_in_processes


def count(item: int):
    """Yield as many events as the item says; a negative one ends the process."""
    for number in range(abs(item)):
        yield number, os.getpid()
    if item < 0:
        os._exit(3)


def test_one_process_is_this_one_and_keeps_the_order():
    found = list(run_in_processes(count, [2, 1], 1))
    assert found == [(2, (0, os.getpid())), (2, (1, os.getpid())), (1, (0, os.getpid()))]


@pytest.mark.parametrize("items", [[3, -1, 2, 1], [-1, -2]])
def test_every_event_of_every_item_arrives_and_a_dead_process_is_replaced(items):
    found = list(run_in_processes(count, items, 2))
    for item in items:
        events = [event for of, event in found if of == item]
        died = [event for event in events if isinstance(event, Died)]
        assert died == ([Died(3)] if item < 0 else [])
        assert [event[0] for event in events if not isinstance(event, Died)] == list(range(abs(item)))
    assert os.getpid() not in {event[1] for _, event in found if not isinstance(event, Died)}
