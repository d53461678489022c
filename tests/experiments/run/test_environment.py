"""What is noted of the machine and the libraries of a run."""

from pysldl.experiments.run.environment import environment, library_versions, run_id


def test_versions_processor_and_thread_settings_are_noted(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    noted = environment(jobs=2, device="cuda")
    assert noted.items() >= library_versions().items()
    assert noted["processor"] and int(noted["cores"]) >= 1
    assert (noted["processes"], noted["device"]) == ("2 of one thread each", "cuda")
    assert "OMP_NUM_THREADS=3" in noted["thread_settings"].split()


def test_equal_environments_have_the_same_id():
    noted = {"numpy": "2.0", "date": "2026-01-01"}
    assert run_id(noted) == run_id(dict(reversed(noted.items()))) != run_id(noted | {"numpy": "2.1"})
    assert len(run_id(noted)) == 8
