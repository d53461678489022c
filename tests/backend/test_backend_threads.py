"""Sums that do not depend on the number of threads."""

import contextvars
import threading
import time

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from pysldl.backend.dispatch import _chosen, current_device
from pysldl.backend.threads import (
    at_most_threads,
    fixed_order_blas,
    matmul,
    n_threads,
    parallel_map,
    single_threaded_blas,
)


def blas_threads(layer=None):
    libraries = [library for library in threadpool_info() if library["user_api"] == "blas"]
    return {library["num_threads"] for library in libraries if layer in (None, library["threading_layer"])}


def test_blas_has_one_thread_inside_and_its_own_number_again_outside():
    with threadpool_limits(2, user_api="blas"):
        before = blas_threads()
        with fixed_order_blas():
            assert blas_threads() == {1}
            with fixed_order_blas():
                assert blas_threads() == {1}
            assert blas_threads() == {1}
        assert blas_threads() == before


def test_the_limit_holds_until_the_last_thread_leaves():
    inside, leave = threading.Event(), threading.Event()

    def other():
        with fixed_order_blas():
            inside.set()
            leave.wait()

    thread = threading.Thread(target=other)
    thread.start()
    inside.wait()
    with fixed_order_blas():
        assert blas_threads() == {1}
    of_process = blas_threads("pthreads")  # one on OpenMP, such as that of faiss, has a number for each thread
    leave.set()
    thread.join()
    assert of_process <= {1}


class OfThreads:
    """A BLAS built on OpenMP: each thread has a number of its own, and begins with two."""

    threading_layer = "openmp"

    def __init__(self):
        self.own = threading.local()

    def get_num_threads(self):
        return getattr(self.own, "number", 2)

    def set_num_threads(self, number):
        self.own.number = number


def test_every_thread_limits_a_blas_that_keeps_a_number_for_each(monkeypatch):
    library = OfThreads()
    monkeypatch.setattr("pysldl.backend.threads._blas_libraries", lambda n_modules: [library])
    both = threading.Barrier(2)

    def number(item):
        both.wait(60)
        return library.get_num_threads()

    with at_most_threads(2):
        assert sorted(parallel_map(number, range(2))) == [2, 2]
        with fixed_order_blas(), fixed_order_blas():
            assert parallel_map(number, range(2)) == [1, 1]
            assert library.get_num_threads() == 1
        assert library.get_num_threads() == 2
        assert parallel_map(number, range(2)) == [2, 2]


def test_the_limit_is_lifted_after_an_error():
    before = blas_threads()
    with pytest.raises(ZeroDivisionError):
        single_threaded_blas(lambda: 1 / 0)()
    assert blas_threads() == before


@pytest.mark.parametrize("shape", [(3, 4, 5), (700, 300, 200), (0, 4, 5), (129, 1, 1)])
def test_products_are_the_same_for_any_number_of_threads(shape, monkeypatch):
    rng = np.random.default_rng(0)
    A, B = rng.normal(size=shape[:2]), rng.normal(size=shape[1:])
    products = []
    for number in (1, 2, 3):
        monkeypatch.setattr("pysldl.backend.threads.n_threads", lambda number=number: number)
        with threadpool_limits(number, user_api="blas"):
            products.append(matmul(A, B))
    assert all(np.array_equal(products[0], product) for product in products)
    np.testing.assert_allclose(products[0], A @ B, rtol=1e-12, atol=1e-12)


def test_a_map_inside_a_map_does_not_wait_for_itself(monkeypatch):
    monkeypatch.setattr("pysldl.backend.threads.n_threads", lambda: 2)
    found = parallel_map(lambda i: sum(parallel_map(lambda j: i * j, range(4))), range(8))
    assert found == [6 * i for i in range(8)]


def test_the_calling_thread_takes_part_and_is_as_free_afterwards(monkeypatch):
    monkeypatch.setattr("pysldl.backend.threads.n_threads", lambda: 2)
    both_at_work = threading.Barrier(2, timeout=20)

    def work(_):
        both_at_work.wait()
        return threading.current_thread(), current_device()

    context = contextvars.copy_context()
    context.run(_chosen.set, "a device")
    found = context.run(parallel_map, work, range(2))
    again = context.run(parallel_map, work, range(2))  # would wait forever, were it still inside
    for pair in (found, again):
        assert len({thread for thread, _ in pair}) == 2 and threading.current_thread() in {thread for thread, _ in pair}
        assert [device for _, device in pair] == [None, None]


@pytest.mark.parametrize("fails_in", ["this", "another"])
def test_an_error_in_a_part_is_raised_and_no_further_part_begins(monkeypatch, fails_in):
    monkeypatch.setattr("pysldl.backend.threads.n_threads", lambda: 2)
    caller, both_at_work, begun = threading.current_thread(), threading.Barrier(2, timeout=20), []

    def work(part):
        begun.append(part)
        if part < 2:
            both_at_work.wait()
        if (threading.current_thread() is caller) == (fails_in == "this"):
            raise ZeroDivisionError
        time.sleep(0.05)

    with pytest.raises(ZeroDivisionError):
        parallel_map(work, range(1000))
    assert len(begun) < 100
    assert parallel_map(abs, [-1, -2]) == [1, 2]


def test_the_environment_sets_the_number_where_numba_is_not_loaded(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "numba", None)
    monkeypatch.delenv("NUMBA_NUM_THREADS", raising=False)
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert n_threads() == 3
