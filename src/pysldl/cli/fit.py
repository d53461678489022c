"""`sldl fit`: fit a model to a data set and write its folder."""

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from pysldl._utils.progress import stage_bars
from pysldl.cli._dask import NO_CLUSTER, Cluster, would_not_fit
from pysldl.cli._input import USUAL_READING, AnyData, Reading, choose_rows, read_data
from pysldl.cli._output import Json, note, print_result
from pysldl.exceptions import DataError

if TYPE_CHECKING:
    from pysldl.datasets import Dataset, Vocabulary


def fit(
    data: AnyData,
    /,
    *,
    model: Path,
    preset: str = "accurate",
    set_: Annotated[list[str] | None, Parameter(name="--set")] = None,
    split: str | None = None,
    features: Literal["auto", "raw", "tfidf"] = "auto",
    seed: int = 0,
    memory_limit: str | None = None,
    overwrite: bool = False,
    keep_examples: bool = False,
    vocabulary: Path | None = None,
    language: str | None = None,
    match_names: bool = False,
    reading: Reading = USUAL_READING,
    cluster: Cluster = NO_CLUSTER,
    json: Json = False,
) -> None:
    """Fit a model and write its folder.

    Examples: `sldl fit stackex-chess --model chess --data-dir ~/data`,
    `sldl fit posts.jsonl --model posts --preset blend --set embedding.n_components=64 --set vectorizer.min_df=2`,
    `sldl fit posts.jsonl --model sleec --preset SLEEC --set n_neighbors=10`

    Parameters
    ----------
    data : str
        A file (npz, extreme-classification text, ARFF, svmlight, JSON lines or CSV with texts), a folder or file as
        Annif has them, a name of the catalog (see `sldl datasets`), or - for standard input.
    model : Path
        Folder to write.
    preset : str
        accurate (the default), which adapts to the size of the data; fast, for large sparse data such as many
        texts; paper, official or blend, with Gaussian label embeddings. Or a baseline: SLEEC, DXML, FL,
        CB, DB, PACA, FLEM, DELA, CLIF, KD-TEA, AdaC2, prior, knn, ovr or ridge.
    set_ : list of str, optional
        Change a parameter, as key=value; `sldl inspect` lists those of a model. accurate has two forms of some stages,
        small for few features and large for many, such as words: `--set decoder.large.n_neighbors=50`. With the other
        presets: `--set decoder.n_neighbors=50`. A stage is replaced by its class:
        `--set embedding=RandomLabelEmbedding`.
    split : str, optional
        Rows to learn from: a split of the data, or all. Default: train if there is such a split, else all.
    features : {"auto", "raw", "tfidf"}
        What to do with raw term counts that come with inverse document frequencies, as in eurlex57k and tibkat: auto
        and tfidf weight them, raw takes them as they are. Stored in the model.
    seed : int
        The same seed gives the same model.
    memory_limit : str, optional
        Refuse to use more memory, for example "8 GB". Default: the free memory of the machine.
    overwrite : bool
        Replace a model that is there.
    keep_examples : bool
        Keep excerpts of the training texts in the model (300 characters of a text, or the top terms), so that
        explanations can show them, after `sldl update` too. Whoever has the model can then read them.
    vocabulary : Path, optional
        Controlled vocabulary of the labels: SKOS (.ttl, .rdf, .jsonld), .tsv or .csv. Labels may then be given by
        URI, notation or name; predictions have names for people and URIs for programs. Change it by `sldl vocabulary`.
    language : str, optional
        Language of the names that are shown, such as fi. Default: English if there are English names.
    match_names : bool
        Learn how often a label applies when its name occurs in the text, for `sldl predict --match-names`.
    """
    from pysldl.datasets import read_vocabulary
    from pysldl.inspection.explanation import row_snippets

    _check_target(model, overwrite)
    if cluster.dask is not None or would_not_fit(data):
        if split is not None or keep_examples or vocabulary is not None:
            raise DataError("--dask: takes all rows, and neither --split, --keep-examples nor --vocabulary.")
        settings = (preset, set_ or [], seed, memory_limit)
        _fit_on_dask(data, model, settings, overwrite, reading, cluster, json)
        return
    dataset = read_data(data, reading)
    weighted = features == "tfidf" or (features == "auto" and dataset.idf is not None)
    rows, part = choose_rows(dataset.tfidf() if weighted else dataset, split, usual="train")
    concepts = None if vocabulary is None else read_vocabulary(vocabulary, language=language)
    if match_names and (concepts is None or rows.texts is None):
        raise DataError("--match-names: needs texts, and --vocabulary FILE with the names of the labels.")
    classifier = _make(preset, set_ or [], rows.X is None, seed, memory_limit)
    if keep_examples and not hasattr(classifier, "explain"):
        raise DataError(f"--keep-examples: {preset} does not explain its predictions, so that it has no use for them.")
    memory = _memory(classifier, rows)
    note(f"{rows!r}, split {part}")
    if memory:
        note(_memory_line(memory, complete=rows.X is not None))
    seconds = _train(classifier, rows, concepts)
    if match_names:
        _learn_names(classifier, rows)
    if weighted:
        classifier.feature_idf_ = dataset.idf
    if keep_examples:
        classifier.training_excerpts_ = row_snippets(rows.texts if rows.X is None else rows.X, rows.feature_names)
    about = {
        "data": dataset.name,
        "split": part,
        "n_samples": rows.n_samples,
        "features": "texts" if rows.X is None else "tfidf" if weighted else "raw",
        "preset": preset,
        "set": set_ or [],
    }
    seen = int((classifier.label_counts_ > 0).sum())
    _save(classifier, model, about, overwrite, json, n_labels_seen=seen, memory_bytes=memory, seconds=round(seconds, 3))


def _fit_on_dask(
    data: str,
    model: Path,
    settings: tuple[str, list[str], int, str | None],
    overwrite: bool,
    reading: Reading,
    cluster: Cluster,
    json: bool,
) -> None:
    """Fit to parts of files on a cluster."""
    from pysldl import SLDLClassifier
    from pysldl.cli._dask import name_of_parts, open_parts
    from pysldl.dask.classifier import fitted_to_blocks
    from pysldl.dask.parts import blocks_of
    from pysldl.datasets.parquet import has_texts

    preset, changed, seed, memory_limit = settings
    parts = open_parts(data, reading)
    from_texts = has_texts(parts.parts[0], parts.columns)
    classifier = _make(preset, changed, from_texts, seed, memory_limit)
    if not isinstance(classifier, SLDLClassifier):
        raise DataError(f"--dask: {preset} is fitted in the memory of one machine; choose a preset of SLDL.")
    where = "this machine" if cluster.dask in (None, "local") else cluster.dask
    note(f"{parts.n_rows} rows in {len(parts)} parts, on {where}")
    started = time.perf_counter()
    with (
        cluster.client() as client,
        stage_bars() as bars,
        fitted_to_blocks(classifier.set_params(progress=bars), client, blocks_of(parts), cluster.scratch) as fitted,
    ):
        about = {
            "data": name_of_parts(data),
            "split": "all",
            "n_samples": fitted.n_samples_,
            "features": "raw" if fitted.vectorizer_ is None else "texts",
            "preset": preset,
            "set": changed,
        }
        _save(fitted, model, about, overwrite, json, parts=len(parts), seconds=round(time.perf_counter() - started, 3))


def _save(classifier: Any, model: Path, about: dict[str, Any], overwrite: bool, json: bool, **measured: Any) -> None:
    """Save the model with what is known about its data, and print both and what was measured."""
    from pysldl.persistence import save_model

    save_model(classifier, model, extra=about, overwrite=overwrite)
    sizes = {"n_features": classifier.n_features_in_, "n_labels": len(classifier.label_names_)}
    result = {"model": str(model), **about, **sizes, **measured, **_learned(classifier)}
    print_result(result, json, {name: value for name, value in result.items() if name != "memory_bytes"})


def _check_target(model: Path, overwrite: bool) -> None:
    """Raise an error before the fit if the model could not be saved after it."""
    from pysldl.persistence.versions import check_target

    target = model.resolve()
    if check_target(target, overwrite=True) is not None and not overwrite:
        raise DataError(f"{model}: exists already. Pass --overwrite to replace a model, or choose another folder.")
    parent = target if target.exists() else target.parent
    if not os.access(parent, os.W_OK):
        raise DataError(f"{parent}: no permission to write the model {model.name} into it.")


def _make(preset: str, settings: list[str], from_texts: bool, seed: int, memory_limit: str | None) -> Any:
    from pysldl._utils.memory import parse_bytes
    from pysldl.estimator.settings import parse_settings, with_settings
    from pysldl.persistence.vectorizers import is_vectorizer, parts_of_vectorizer
    from pysldl.preprocessing.text import default_vectorizer

    if memory_limit is not None:
        try:
            parse_bytes(memory_limit)
        except ValueError as error:
            raise DataError(f"--memory-limit: {error}") from error
    fixed: dict[str, Any] = {"random_state": seed, "memory_limit": memory_limit}
    wanted = parse_settings(settings, "--set")
    if from_texts:
        given = any(name.startswith("vectorizer__") for name in wanted)
        fixed["vectorizer"] = default_vectorizer() if given else "auto"
    made = with_settings(_make_method(preset, fixed), wanted, "--set")
    if is_vectorizer(vectorizer := getattr(made, "vectorizer", None)):
        parts_of_vectorizer(vectorizer, "vectorizer")  # refuses before the work what could not be saved after it
    return made


def _train(classifier: Any, rows: "Dataset", vocabulary: "Vocabulary | None") -> float:
    """Fit on the rows, with a bar for every stage; the seconds it took."""
    started = time.perf_counter()
    with stage_bars() as bars:
        if hasattr(classifier, "progress"):
            classifier.set_params(progress=bars)
        classifier.fit(
            rows.texts if rows.X is None else rows.X,
            rows.Y,
            label_names=rows.label_names.tolist(),
            vocabulary=vocabulary,
            feature_names=None if rows.X is None or rows.feature_names is None else rows.feature_names.tolist(),
        )
    return time.perf_counter() - started


def _learn_names(classifier: Any, rows: "Dataset") -> None:
    """Learn how often labels apply when they are named, from the texts that the model was fitted on."""
    bounds = zip(rows.Y.indptr[:-1], rows.Y.indptr[1:], strict=True)
    labels = [rows.label_names[rows.Y.indices[start:end]].tolist() for start, end in bounds]
    classifier.learn_name_rates(rows.texts, labels)


def _memory(classifier: Any, rows: "Dataset") -> dict[str, int]:
    """Bytes of each stage, excluding the data, if the classifier can tell."""
    if not hasattr(classifier, "estimate_memory"):
        return {}
    stored = 0 if rows.X is None else int(getattr(rows.X, "nnz", rows.X.size))
    found: dict[str, int] = classifier.estimate_memory(rows.n_samples, rows.n_features, rows.n_labels, stored)
    return found


def _memory_line(memory: dict[str, int], *, complete: bool) -> str:
    from pysldl._utils.memory import format_bytes

    stages = ", ".join(f"{stage} {format_bytes(needed)}" for stage, needed in memory.items())
    return f"estimated memory, excluding the data: {stages}" + ("" if complete else ", plus the vocabulary")


def _learned(classifier: Any) -> dict[str, Any]:
    """Threshold, held-out F1 and numbers of steps or epochs, as far as the classifier has them."""
    found: dict[str, Any] = {}
    if classifier.calibration_ is not None:
        found["threshold"] = classifier.calibration_.threshold_
        found["held_out_f1"] = classifier.calibration_.held_out_f1_
    losses = getattr(getattr(classifier, "embedding_", None), "losses_", None)
    if losses:
        found["embedding_steps"] = len(losses)
        found["embedding_converged"] = bool(classifier.embedding_.converged_)
    if hasattr(classifier, "best_epoch_"):
        found["epochs"], found["best_epoch"] = classifier.n_epochs_, classifier.best_epoch_
    return found


def _make_method(name: str, usual: dict[str, Any]) -> Any:
    """A classifier by the name of a preset or of any other method; ``usual`` is set if it has such parameters."""
    from pysldl._utils.suggestions import did_you_mean
    from pysldl.baselines.registry import BASELINES, CONTROLS, METHODS, PRESET_METHODS

    known = {**METHODS, **PRESET_METHODS}
    if name not in known:
        all_names = (
            f"SLDL: {', '.join(PRESET_METHODS)}; baselines: {', '.join(BASELINES)}; controls: {', '.join(CONTROLS)}."
        )
        raise DataError(f"--preset: there is no {name!r}; {did_you_mean(name, list(known)) or all_names}")
    classifier = known[name]()
    present = classifier.get_params()
    return classifier.set_params(**{key: value for key, value in usual.items() if key in present})
