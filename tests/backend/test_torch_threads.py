"""torch on one thread, and on as many as before afterwards."""

import threading

import pytest

torch = pytest.importorskip("torch")

from pysldl.backend.threads import one_torch_thread, single_threaded_torch  # noqa: E402


@pytest.fixture(autouse=True)
def two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def of_mkl():
    """Threads of the BLAS inside torch."""
    lines = torch.__config__.parallel_info().splitlines()
    found = [int(line.rpartition(":")[2]) for line in lines if "mkl_get_max_threads" in line]
    return found[0] if found else torch.get_num_threads()


def test_one_inside_and_as_many_as_before_outside():
    with one_torch_thread():
        assert torch.get_num_threads() == of_mkl() == 1
        with one_torch_thread():
            assert torch.get_num_threads() == 1
        assert torch.get_num_threads() == of_mkl() == 1
    assert torch.get_num_threads() == of_mkl() == 2


def test_one_inside_whatever_was_set_in_a_block_around_it():
    with one_torch_thread():
        torch.set_num_threads(2)
        with one_torch_thread():
            assert torch.get_num_threads() == 1
        assert torch.get_num_threads() == 2


def test_the_number_comes_back_after_an_error():
    with pytest.raises(ZeroDivisionError):
        single_threaded_torch(lambda: 1 / 0)()
    assert torch.get_num_threads() == 2


@pytest.mark.parametrize("first", ["this thread", "the other"])
def test_whoever_leaves_first_takes_nothing_from_the_other(first):
    entered, leave, left = threading.Event(), threading.Event(), threading.Event()
    seen = {}

    def other():
        with one_torch_thread():
            entered.set()
            leave.wait()
            seen["inside"] = torch.get_num_threads(), of_mkl()
        seen["outside"] = torch.get_num_threads(), of_mkl()
        left.set()

    thread = threading.Thread(target=other)
    with one_torch_thread():
        thread.start()
        entered.wait()
        if first == "the other":
            leave.set()
            left.wait()
            assert torch.get_num_threads() == of_mkl() == 1
    assert torch.get_num_threads() == of_mkl() == 2
    leave.set()
    thread.join()
    assert seen == {"inside": (1, 1), "outside": (2, 2)}
    assert torch.get_num_threads() == of_mkl() == 2


def test_a_thread_that_starts_afterwards_has_as_many_as_before():
    def enter():
        with one_torch_thread():
            pass

    with one_torch_thread():
        thread = threading.Thread(target=enter)
        thread.start()
        thread.join()
    found = []
    thread = threading.Thread(target=lambda: found.append(torch.get_num_threads()))
    thread.start()
    thread.join()
    assert found == [2]
