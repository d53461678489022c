"""Methods by name: variants with settings, and marks that tables have to show."""

import pytest
from small_world import reproduce, small_file

from pysldl.baselines.registry import METHODS
from pysldl.exceptions import DataError
from pysldl.experiments.run.methods import find_methods


def test_settings_after_colons_make_a_variant_beside_the_method():
    plain, variant = find_methods(["sleec", "SLEEC : n_neighbors=10 : n_clusters=4"])
    assert (plain.name, variant.name) == ("SLEEC", "SLEEC:n_neighbors=10:n_clusters=4")
    assert variant.title == "SLEEC (n_neighbors=10, n_clusters=4)"
    assert (
        variant.estimator(seed=3).get_params()
        == plain.estimator(seed=3).set_params(n_neighbors=10, n_clusters=4).get_params()
    )
    assert find_methods([variant.name])[0].parameters() == variant.parameters(), "its name is enough"


def test_stages_of_sldl_can_be_replaced_and_set():
    (variant,) = find_methods(["sldl:embedding=SVDLabelEmbedding:mapping.alpha=5"])
    made = variant.make()
    assert type(made.embedding).__name__ == "SVDLabelEmbedding" and made.mapping.alpha == 5


def test_a_word_that_leaves_the_choice_to_the_method_can_be_replaced_by_a_value():
    pytest.importorskip("torch")
    clif, focal = find_methods(["CLIF:half_precision=true", "FL:clip=5"])
    assert clif.make().half_precision is True and focal.make().clip == 5


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("SLEEK:n_neighbors=3", "unknown method 'SLEEK': did you mean 'SLEEC'"),
        ("SLEEC:n_neighbours=3", "SLEEC has no such parameter; did you mean 'n_neighbors'"),
        ("SLEEC:n_neighbors", "write it as key=value"),
        ("SLEEC:n_neighbors=many", "expected a value like 25"),
        ("sldl:embedding=Foo", "choose one of GaussianLabelEmbedding"),
        ("sldl:embedding.n_components=3", "embedding__n_components is set by the grid or by the run; use --c-hats"),
        ("sldl:embedding.n_steps=3", "use --n-steps"),
        ("blend:decoder.neighbors.n_neighbors=3", "use --ks"),
        ("SLEEC:random_state=3", "use --seed"),
    ],
)
def test_bad_settings_are_refused_before_anything_runs(name, message):
    with pytest.raises(DataError, match=message):
        find_methods([name])


def test_reconstructions_are_the_methods_that_say_so():
    pytest.importorskip("torch")
    assert [name for name, spec in METHODS.items() if spec.kind == "reconstruction"] == ["KD-TEA"]
    assert [method.shown_as for method in find_methods(["SLEEC", "kd-tea"])] == ["SLEEC", "KD-TEA (reconstruction)"]


def test_every_table_of_a_run_marks_a_reconstruction_and_shows_variants(tmp_path):
    pytest.importorskip("torch")
    out, methods = tmp_path / "out", "SLEEC,SLEEC:n_learners=2,KD-TEA:epochs=1"
    assert reproduce(out=out, methods=methods, datasets=small_file(tmp_path), folds=2, jobs=1) == 0
    shown = [*(out / "tables").glob("results-*"), *(out / "timings").glob("training-time.[mtc]*"), out / "report.html"]
    assert len(shown) == 8 * 3 + 3 + 1
    for path in shown:
        text = path.read_text().replace("\\_", "_")
        assert text.count("KD-TEA") == text.count("KD-TEA (epochs=1) (reconstruction)") > 0, path.name
        assert "SLEEC (n_learners=2)" in text, path.name
    assert "KD-TEA (epochs=1)," in (out / "results.csv").read_text(), "a file for programs has the plain name"
