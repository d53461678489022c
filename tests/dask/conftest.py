import pytest


@pytest.fixture(autouse=True)
def small_data_as_large(monkeypatch):
    """The client does nothing by itself because it is little."""
    pytest.importorskip("distributed")
    monkeypatch.setattr("pysldl.dask.workspace.HERE_BYTES", 0)


@pytest.fixture(scope="session")
def client():
    """Two real worker processes, reached by TCP, for all tests that do them no harm."""
    pytest.importorskip("distributed")
    from pysldl.dask import connect

    with connect("local", workers=2, worker_memory="2 GB") as client:
        yield client
