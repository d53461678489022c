"""The commands on parts of Parquet files: fit, predict, evaluate and update with --dask."""

import json

import numpy as np
import pytest

from pysldl.cli._model import UnlabeledRows
from pysldl.cli.predict import predict_rows

pytest.importorskip("distributed")
pytest.importorskip("pyarrow")

from pysldl.datasets import make_asymmetric_multilabel, write_parquet

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


@pytest.fixture(scope="module")
def parts(tmp_path_factory):
    folder = tmp_path_factory.mktemp("records")
    data = make_asymmetric_multilabel(random_state=0).split("train").subset(np.arange(400))
    write_parquet(data, folder, rows_per_part=150)
    return folder


@pytest.fixture(scope="module")
def address():
    from pysldl.dask import connect

    with connect("local", workers=2, worker_memory="2 GB") as client:
        yield client.scheduler.address


def test_from_parts_to_predictions(parts, address, tmp_path, sldl):
    model, out = tmp_path / "model", tmp_path / "out"
    fit = ("fit", parts / "*.parquet", "--preset", "fast", "--json")
    fitted = sldl(*fit, "--model", model, "--dask", address)
    assert fitted.code == 0, fitted.err
    assert fitted.document["n_samples"] == 400 and fitted.document["parts"] == 3
    assert sldl(*fit, "--model", tmp_path / "local", "--split", "all").code == 0
    predict = ("predict", model, parts, "--k", 3, "--dask", address, "--out", out, "--json")
    predicted = sldl(*predict)
    assert predicted.code == 0, predicted.err
    assert predicted.document["parts_there"] == 0 and predicted.document["rows"] == 400
    said = sldl("predict", tmp_path / "local", parts, "--k", 3).out
    from pyarrow import parquet

    there = [row for file in sorted(out.glob("part-*.parquet")) for row in parquet.read_table(file).to_pylist()]
    local = [json.loads(line) for line in said.splitlines()]
    assert [(row["row"], row["labels"]) for row in there] == [(row["row"], row["labels"]) for row in local]

    (out / "part-00001.parquet").unlink()  # as after a kill
    before = (out / "part-00000.parquet").stat().st_mtime_ns
    again = sldl(*predict).document
    assert again["parts_there"] == 2 and again["rows"] == 150
    assert (out / "part-00000.parquet").stat().st_mtime_ns == before
    said = sldl("predict", model, parts, "--k", 2, "--dask", address, "--out", out).err
    assert "holds predictions of another model, other data or other settings" in said

    told = [sldl("evaluate", model, parts, "--json", *more).document for more in ((), ("--dask", address))]
    assert told[1]["metrics"] == pytest.approx(told[0]["metrics"], rel=1e-12)  # sums of parts are added up
    assert {**told[0], "metrics": None, "data": None} == {**told[1], "metrics": None, "data": None}


def test_an_update_on_a_cluster_is_that_of_this_process(parts, address, tmp_path, sldl, refused):
    from pysldl.persistence import read_manifest

    models = [tmp_path / "local", tmp_path / "far"]
    known, further = parts / "part-00000.parquet", parts / "part-00001.parquet"
    for model, where in zip(models, ((), ("--dask", address)), strict=True):
        assert sldl("fit", known, "--preset", "fast", "--set", "online=true", "--model", model).code == 0
        told = sldl("update", model, further, "--json", *where)
        assert told.code == 0 and told.document["n_added"] == 150, told.err
    local, far = map(read_manifest, models)
    assert local.files == far.files and local.extra["n_samples"] == far.extra["n_samples"] == 300
    said = refused("update", models[1], "--remove", "3", "--dask", address)
    assert "--dask: needs DATA" in said


@pytest.mark.parametrize("bad", [b"not a table", b""], ids=["damaged", "empty"])
def test_a_bad_part_stops_the_fit_and_nothing_is_written(parts, address, tmp_path, refused, bad):
    for file in parts.glob("*.parquet"):
        (tmp_path / file.name).write_bytes(file.read_bytes())
    (tmp_path / "part-00001.parquet").write_bytes(bad)
    assert "part-00001.parquet" in refused("fit", tmp_path, "--model", tmp_path / "model", "--dask", address)
    assert not (tmp_path / "model").exists()


def test_what_is_no_table_is_refused(tmp_path, refused):
    (tmp_path / "posts.jsonl").write_text('{"text": "a", "labels": ["b"]}\n')
    said = refused("fit", tmp_path / "posts.jsonl", "--model", tmp_path / "model", "--dask", "local")
    assert "is no Parquet or Arrow file" in said


class TwoLabels:
    """A model as far as predictions of rows ask for it."""

    label_names_ = np.array(["cats", "dogs"], dtype=object)
    label_ids_ = np.array(["ex:cat", "ex:dog"], dtype=object)

    def predict_topk(self, X, k, **options):
        return np.array([[1, 0], [0, -1]]), np.array([[0.9, 0.2], [0.8, -np.inf]])


def test_rows_of_a_part_have_their_numbers_in_the_whole_and_the_uris_of_their_labels():
    rows = predict_rows(TwoLabels(), UnlabeledRows(["a", "b"]), 2, 0.5, first_row=7)
    assert [(row.number, row.names, row.ids) for row in rows] == [(7, ["dogs"], ["ex:dog"]), (8, ["cats"], ["ex:cat"])]
