"""Damaged and forged models, damaged data files and vocabularies: does anything crash, hang, or go wrong silently?

A case is a number: it draws a model or a file, what is changed in it, and how it is opened, so that any case can be
run again (`--kind models --first 1234 --count 1`). Half of the model folders are forged: their content is changed and
the checksums are computed anew. Cases run in processes of their own; one that dies, takes more than five seconds of the
processor, raises an error that is not the library's, or gives other answers from a damaged folder is a finding.
"""

import argparse
import gzip
import hashlib
import io
import json
import math
import os
import queue
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from records import add_record_option, write_rows

KINDS = ("models", "files", "tables", "vocabularies", "baselines")
MOST_SECONDS = 5.0
MOST_BYTES = 3 << 30  # of a worker: an array that no machine would refuse, though far too large, is a finding, too
PATIENCE = 90.0  # seconds on the clock, on a busy machine
FREE_BYTES = 64 << 20  # that any case may take
MOST_MULTIPLE = 60  # of the bytes that were read, beyond FREE_BYTES
NUMBERS = (0, -1, 1, 2, 7, 300, 2**31 - 1, 2**31, 2**40, 2**63, -(2**63), 1e308, 0.5, 1e-300, 10**30)
VALUES = (*NUMBERS, None, True, "", "x", "nan", "filename", [], {}, [1, 2], {"kind": "float", "value": "nan"})


# What is changed


def bases(folder: Path) -> None:
    """Write the models and files that cases start from."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    from pysldl import SLDLClassifier, make_sldl
    from pysldl.datasets import make_asymmetric_multilabel, write_npz, write_xc
    from pysldl.decoding import FeatureNeighborDecoder, JointNeighborDecoder, NeighborDecoder
    from pysldl.embedding import GaussianLabelEmbedding, IdentityLabelEmbedding
    from pysldl.persistence import save_model
    from pysldl.ranking import LinearRanker, TreeReranker

    data = make_asymmetric_multilabel(120, 40, 8, random_state=0)
    X, names = sparse.csr_array(data.X, dtype=np.float32), data.label_names.tolist()
    wide = sparse.csr_array((X.data, X.indices, X.indptr), shape=(X.shape[0], 3000))
    gaussian = GaussianLabelEmbedding(6, n_steps=10)
    ranked = {"ranker": LinearRanker(8), "reranker": TreeReranker(6, n_trees=3)}
    models = {
        "paper": (make_sldl("paper", embedding=gaussian), X),
        "blend": (make_sldl("blend", embedding=gaussian, online=True), X),
        "dense": (make_sldl("accurate"), X.toarray()),
        "ranked": (SLDLClassifier(None, mapping=None, decoder=FeatureNeighborDecoder(), **ranked), X),
        "joint": (SLDLClassifier(IdentityLabelEmbedding(), decoder=JointNeighborDecoder()), wide),
        "texts": (SLDLClassifier(gaussian, decoder=NeighborDecoder(3), vectorizer=TfidfVectorizer()), None),
    }
    words = [" ".join(f"w{column}" for column in _columns(X, row)) for row in range(X.shape[0])]
    for name, (model, rows) in models.items():
        model.set_params(random_state=0).fit(words if rows is None else rows, data.Y, label_names=names)
        save_model(model, folder / "models" / name)
    files = folder / "files"
    write_npz(data, files / "a.npz")
    write_xc(data, files / "a.txt")
    with gzip.open(files / "b.txt.gz", "wb") as stream:
        stream.write((files / "a.txt").read_bytes())
    rows = [[names[label] for label in _columns(data.Y, row)] for row in range(X.shape[0])]
    (files / "a.jsonl").write_text(
        "".join(json.dumps({"text": t, "labels": r}) + "\n" for t, r in zip(words, rows, strict=True))
    )
    (files / "a.csv").write_text(
        "text,labels\n" + "".join(f'"{t}","{";".join(r)}"\n' for t, r in zip(words, rows, strict=True))
    )
    (files / "a.svm").write_text("1,2 1:0.5 3:1\n2 2:1e-3\n1 1:3 4:0.25 # note\n3,1 2:1\n" * 5)
    (files / "a.arff").write_text(
        "@relation 'toys: -C 2'\n@attribute 'a b' {0,1}\n@attribute c {0,1}\n@attribute x numeric\n"
        '@attribute "y" real\n@data\n' + "1,0,0.5,2\n0,1,-3,1e3\n'1','1',0,0\n" * 5
    )
    (files / "b.arff").write_text(
        '@relation "toys: -C 2"\n@attribute a {0,1}\n@attribute c {0,1}\n@attribute x numeric\n@data\n'
        + "{0 1,2 0.5}\n{}\n{ 1 1 , 2 3 }\n" * 5
    )
    (files / "c.arff").write_text((files / "a.arff").read_text().replace(": -C 2", ""))
    (files / "c.xml").write_text(
        '<?xml version="1.0" encoding="utf-8"?>\n<labels><label name="a b"></label><label name="c"/></labels>\n'
    )


def further_bases(folder: Path) -> None:
    """Write tables (Parquet, Arrow), vocabularies and models of baselines that cases start from."""
    from pysldl.baselines import FeatureNeighbors, LabelPrior, OneVsRestLogistic, RidgeReadout
    from pysldl.datasets import make_asymmetric_multilabel, read_jsonl, write_parquet
    from pysldl.persistence import save_model

    texts = read_jsonl(folder / "files" / "a.jsonl")
    write_parquet(texts, folder / "tables" / "a.parquet")
    data = make_asymmetric_multilabel(120, 40, 8, random_state=0)
    write_parquet(data, folder / "tables" / "b.parquet")
    from pyarrow import feather, parquet

    table = parquet.read_table(folder / "tables" / "a.parquet")
    feather.write_feather(table, folder / "tables" / "c.feather")
    feather.write_feather(table, folder / "tables" / "d.arrow", compression="uncompressed")
    words = folder / "vocabularies"
    uris = [f"http://example.org/{number}" for number in range(6)]
    (words / "a.tsv").write_text("".join(f"<{uri}>\tname {at}\n" for at, uri in enumerate(uris)))
    (words / "b.csv").write_text(
        "uri,label_en,label_de,notation\n"
        + "".join(f"{uri},name {at},Name {at},{at}.1\n" for at, uri in enumerate(uris))
    )
    concepts = "".join(
        f'<{uri}> a skos:Concept; skos:prefLabel "name {at}"@en; skos:altLabel "other {at}"@en; '
        f"skos:broader <{uris[max(0, at - 1)]}>.\n"
        for at, uri in enumerate(uris)
    )
    (words / "c.ttl").write_text(f"@prefix skos: <http://www.w3.org/2004/02/skos/core#> .\n{concepts}")
    import rdflib

    graph = rdflib.Graph().parse(words / "c.ttl")
    graph.serialize(words / "d.rdf", format="xml")
    graph.serialize(words / "e.jsonld", format="json-ld")
    X = sparse.csr_array(data.X, dtype=np.float32)
    for model in (LabelPrior(), FeatureNeighbors(), RidgeReadout(), OneVsRestLogistic()):
        model.fit(X, data.Y, label_names=data.label_names.tolist())
        save_model(model, folder / "baselines" / type(model).__name__)


def _columns(matrix: Any, row: int) -> list[int]:
    return matrix.indices[matrix.indptr[row] : matrix.indptr[row + 1]].tolist()


def nodes_of(tree: Any) -> Iterator[tuple[Any, Any]]:
    """Every place in a JSON value: the container and the key."""
    items = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, value in list(items):
        yield tree, key
        yield from nodes_of(value)


def change_tree(tree: Any, chance: random.Random) -> None:
    places = list(nodes_of(tree))
    container, key = chance.choice(places)
    match chance.randrange(6):
        case 0 if isinstance(container, dict):
            del container[key]
        case 1:
            other, other_key = chance.choice(places)
            container[key] = json.loads(json.dumps(other[other_key]))
        case 2 if isinstance(container[key], (int, float)) and not isinstance(container[key], bool):
            container[key] = chance.choice(
                (container[key] + 1, container[key] - 1, -container[key], 2 * container[key])
            )
        case 3 if isinstance(container, list) and container:
            container.insert(key, container[key])
        case 4 if isinstance(container, dict):
            container[chance.choice(("predict", "__class__", "x" * 50, "fit"))] = chance.choice(VALUES)
        case _:
            container[key] = chance.choice(VALUES)


def change_bytes(content: bytes, chance: random.Random) -> bytes:
    data = bytearray(content)
    for _ in range(chance.choice((1, 1, 1, 2, 5))):
        at = chance.randrange(len(data) + 1)
        size = min(chance.choice((1, 1, 2, 8, 64, 1000)), len(data) - at)
        match chance.randrange(8):
            case 0 if size:
                data[at] ^= 1 << chance.randrange(8)
            case 1:
                del data[at : at + size]
            case 2:
                data[at:at] = chance.randbytes(max(size, 1))
            case 3:
                data[at:at] = data[at : at + size] * chance.choice((1, 2, 50))
            case 4:
                del data[at:]
            case 5:
                data[at : at + size] = str(chance.choice(NUMBERS)).encode()
            case 6:
                data[at:at] = chance.choice((b" ", b'"', b"'", b"[", b"{", b",", b"\n", b"\0", b":", b"\\", b"\t")) * (
                    chance.choice((1, 2, 2000, 20000))
                )
            case _ if size:
                data[at : at + size] = bytes(size)
    return bytes(data)


def change_arrays(path: Path, chance: random.Random) -> None:
    """Shapes, types and values of a safetensors file, changed so that it stays one."""
    content = path.read_bytes()
    start = 8 + int.from_bytes(content[:8], "little")
    header, data = json.loads(content[8:start]), bytearray(content[start:])
    entry = header[chance.choice(list(header))]
    begin, end = entry["data_offsets"]
    width = {"F64": 8, "I64": 8, "F32": 4, "I32": 4, "BOOL": 1, "U8": 1}.get(entry["dtype"], 1)
    match chance.randrange(5):
        case 0:  # as many numbers, other shape
            n = math.prod(entry["shape"])
            divisor = chance.choice([d for d in range(1, min(n, 64) + 1) if n % d == 0] or [1])
            entry["shape"] = chance.choice(
                ([n], [divisor, n // divisor], [n // divisor, divisor], [n, 1], [1, n], [n, 1, 1])
            )
        case 1:  # other type of the same width
            same = [name for name, wide in {"F64": 8, "I64": 8, "F32": 4, "I32": 4, "U32": 4}.items() if wide == width]
            entry["dtype"] = chance.choice(same or [entry["dtype"]])
        case 2 if entry["shape"]:  # fewer numbers
            entry["shape"][0] = chance.randrange(entry["shape"][0] + 1)
            entry["data_offsets"][1] = begin + math.prod(entry["shape"]) * width
        case 3:  # the numbers of another array
            entry["data_offsets"] = list(header[chance.choice(list(header))]["data_offsets"])
        case _ if end > begin:
            dtype = {"F64": "<f8", "F32": "<f4", "I64": "<i8", "I32": "<i4"}.get(entry["dtype"])
            if dtype:
                values = np.frombuffer(bytes(data[begin:end]), dtype).copy()
                extremes = (
                    (np.nan, np.inf, -np.inf, 3e38, -1, 0) if dtype[1] == "f" else (-1, 2**31 - 1, 10**6, len(values))
                )
                for _ in range(chance.choice((1, 3))):
                    values[chance.randrange(len(values))] = chance.choice(extremes)
                data[begin:end] = values.tobytes()
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + bytes(data))


def forge(version: Path, chance: random.Random) -> None:
    """Change what a version says, and compute its checksums anew."""
    from pysldl.persistence.manifest import _checksum

    manifest = json.loads((version / "manifest.json").read_bytes())
    for _ in range(chance.choice((1, 1, 1, 2, 3))):
        match chance.randrange(10):
            case 0 | 1 | 2 | 3:
                change_tree(manifest["model"], chance)
            case 4:
                change_tree(manifest, chance)
            case 5:
                names = [
                    name for name in ("labels.json", "features.json", "vocabulary.json") if (version / name).exists()
                ]
                if names:
                    path = version / chance.choice(names)
                    strings = json.loads(path.read_bytes())
                    change_tree(strings, chance)
                    path.write_text(json.dumps(strings))
            case _:
                change_arrays(version / "arrays.safetensors", chance)
        if not isinstance(manifest.get("files"), dict) or not isinstance(manifest.get("model"), dict):
            break
    manifest.pop("sha256", None)
    for name, record in manifest["files"].items() if isinstance(manifest.get("files"), dict) else ():
        if isinstance(record, dict) and isinstance(name, str) and (version / Path(name).name).is_file():
            data = (version / Path(name).name).read_bytes()
            record.update(bytes=len(data), sha256=hashlib.sha256(data).hexdigest())
    (version / "manifest.json").write_text(json.dumps({**manifest, "sha256": _checksum(manifest)}))


def damage(folder: Path, version: Path, chance: random.Random) -> None:
    """Change a folder as an accident or a prank would."""
    path = chance.choice([*version.iterdir(), folder / "current.json"])
    match chance.randrange(12):
        case 0:
            path.unlink()
        case 1:
            path.unlink()
            path.mkdir()
        case 2:
            path.unlink()
            os.mkfifo(path)
        case 3:
            path.unlink()
            path.symlink_to("/dev/zero")
        case 4:
            other = chance.choice(list(version.iterdir()))
            path.write_bytes(other.read_bytes())
        case 5:
            os.truncate(path, chance.choice((0, 1, 10**10)))
        case _:
            path.write_bytes(change_bytes(path.read_bytes(), chance))


# What must come of it


def answers(model: Any, rows: Any) -> Any:
    if isinstance(rows, list) and (model.vectorizer_ is None or type(model).__name__ == "StagedPredictor"):
        # A model of features by now, or the half that answers, which takes features only.
        rows = sparse.csr_array(np.eye(2, model.n_features_in_, dtype=np.float32))
    labels, scores = model.predict_topk(rows, 5)
    if not hasattr(model, "explain"):  # a baseline
        return labels.tolist(), np.asarray(scores).tolist()
    model.explain(rows[:1], model.label_names_[0])
    return labels.tolist(), np.asarray(scores).tolist(), model.predict_proba(rows[:2])


def model_case(
    number: int, folder: Path, work: Path, known: dict[str, Any], kind: str = "models"
) -> tuple[str, str, int]:
    """Run a case: its name, how it ended, and the bytes that were read."""
    from pysldl.exceptions import SLDLError
    from pysldl.persistence import current_version, load_model, load_predictor

    chance = random.Random(f"{kind} {number}")
    name = chance.choice(sorted(path.name for path in (folder / kind).iterdir()))
    forged = kind == "models" and number % 2 == 0  # the attributes of baselines are not checked one by one
    copy = work / "model"
    shutil.copytree(folder / kind / name, copy)
    version = current_version(copy)
    rows, expected = known[name]
    (forge(version, chance) if forged else damage(copy, version, chance))
    how = chance.choice(("load_model", "load_predictor", "no checksums", "in memory"))
    what = f"{'forged' if forged else 'damaged'}, {how}"
    size = sum(path.stat().st_size for path in version.iterdir() if path.is_file() and not path.is_symlink())
    try:
        model = {
            "load_model": load_model,
            "load_predictor": load_predictor,
            "no checksums": lambda path: load_model(path, verify=False),
            "in memory": lambda path: load_model(path, mmap=False),
        }[how](copy)
        found = answers(model, rows)[:2]
    except SLDLError:
        return what, "refused", size
    if name == "texts" and how == "load_predictor":
        return what, "loaded", size
    if not forged and how != "no checksums" and found != expected:
        return what, "other answers from a damaged folder", size
    return what, "loaded", size


def _answers_of_bases(folder: Path, kind: str) -> dict[str, Any]:
    """What the whole models answer; also imports and compiles everything, so that cases are measured without that."""
    from pysldl.persistence import load_model, load_predictor

    known = {}
    for path in (folder / kind).iterdir():
        rows = _rows(path.name)
        answers(load_predictor(path), rows)
        known[path.name] = rows, answers(load_model(path), rows)[:2]
    return known


def _rows(name: str) -> Any:
    if name == "texts":
        return ["w1 w2 w3", "w5 w7", "nothing known", ""]
    from pysldl.datasets import make_asymmetric_multilabel

    X = sparse.csr_array(make_asymmetric_multilabel(120, 40, 8, random_state=0).X[:4], dtype=np.float32)
    return sparse.csr_array((X.data, X.indices, X.indptr), shape=(4, 3000)) if name == "joint" else X


def file_case(
    number: int, folder: Path, work: Path, known: dict[str, Any], kind: str = "files"
) -> tuple[str, str, int]:
    from pysldl.datasets import read_dataset, read_vocabulary
    from pysldl.exceptions import SLDLError

    chance = random.Random(f"{kind} {number}")
    source = chance.choice([path for path in sorted((folder / kind).iterdir()) if path.suffix != ".xml"])
    content = source.read_bytes()
    if source.suffix == ".gz" and chance.random() < 0.5:
        content = gzip.compress(change_bytes(gzip.decompress(content), chance), 1)
    elif source.suffix == ".npz" and chance.random() < 0.7:
        content = change_npz(content, chance)
    elif kind == "tables" and chance.random() < 0.5:
        content = change_table(source, chance)
    else:
        content = change_bytes(content, chance)
    path = work / source.name
    path.write_bytes(content)
    if source.name == "c.arff":
        xml = (folder / "files" / "c.xml").read_bytes()
        (work / "c.xml").write_bytes(change_bytes(xml, chance) if chance.random() < 0.7 else xml)
        if chance.random() < 0.5:
            path.write_bytes(source.read_bytes())
    try:
        (read_vocabulary if kind == "vocabularies" else read_dataset)(path)
    except SLDLError as error:
        if not str(error).startswith(str(work)) and str(work) not in str(error):
            return source.name, "refused without the name of the file", len(content)
        return source.name, "refused", len(content)
    return source.name, "read", len(content)


def change_npz(content: bytes, chance: random.Random) -> bytes:
    with np.load(io.BytesIO(content)) as stored:
        arrays = {key: stored[key] for key in stored.files}
    key = chance.choice(list(arrays))
    array = arrays[key]
    match chance.randrange(6):
        case 0:
            del arrays[key]
        case 1:
            arrays[key] = array[: chance.randrange(len(array) + 1)]
        case 2 if array.dtype.kind in "if" and array.size:
            arrays[key] = array.copy()
            arrays[key][chance.randrange(len(array))] = chance.choice((-1, 0, 10**6, 2**30))
        case 3:
            arrays[key] = array.astype(chance.choice(("f4", "f8", "i8", "u1", "?", "S3", "U3", "c8", "M8[s]")))
        case 4:
            arrays[key] = arrays[chance.choice(list(arrays))]
        case _:
            arrays[key] = array.reshape(1, -1)
    stream = io.BytesIO()
    np.savez_compressed(stream, **arrays)
    return stream.getvalue()


def change_table(source: Path, chance: random.Random) -> bytes:
    """A whole table with other types, empty places, or other columns."""
    import pyarrow as pa
    from pyarrow import feather, parquet

    is_parquet = source.suffix == ".parquet"
    table = parquet.read_table(source) if is_parquet else feather.read_table(source)
    at = chance.randrange(table.num_columns)
    name, n_rows = table.column_names[at], table.num_rows
    others: list[Any] = [
        [None] * n_rows,
        [chance.choice([None, -1, 2**40]) for _ in range(n_rows)],
        [chance.choice([[], None, [None]]) for _ in range(n_rows)],
        [[chance.choice(NUMBERS[:9])] * chance.randrange(4) for _ in range(n_rows)],
        [chance.choice(["", "x", None, "\0" * 9]) for _ in range(n_rows)],
        [{"index": chance.choice([None, -1, 5]), "value": float("nan")} for _ in range(n_rows)],
        [[{"a": [[1]]}] for _ in range(n_rows)],
        [b"\xff\xfe"] * n_rows,
    ]
    match chance.randrange(4):
        case 0:
            table = table.drop_columns([name])
        case 1:
            table = table.append_column(name, table.column(at))
        case 2:
            table = table.slice(0, chance.choice([0, 1]))
        case _:
            with suppress(pa.ArrowInvalid, OverflowError):
                table = table.set_column(at, name, pa.array(chance.choice(others)))
    stream = io.BytesIO()
    (parquet.write_table if is_parquet else feather.write_feather)(table, stream)
    return stream.getvalue()


# Processes


def work_on_cases(kind: str, folder: Path) -> None:
    """The life of a worker: read numbers, run cases, write how each ended."""
    warnings.simplefilter("ignore")
    is_model = kind in ("models", "baselines")
    run: Callable[..., tuple[str, str, int]] = model_case if is_model else file_case
    known = _answers_of_bases(folder, kind) if is_model else {}
    if kind == "tables":
        import pyarrow.dataset  # noqa: F401  (its threads and memory are no part of a case)
    resource.setrlimit(resource.RLIMIT_DATA, (MOST_BYTES, MOST_BYTES))
    print("ready", flush=True)
    for line in sys.stdin:
        number = int(line)
        with tempfile.TemporaryDirectory() as work:
            before, started = _start_of_peak(), time.process_time()
            try:
                what, outcome, size = run(number, folder, Path(work), known, kind)
            except BaseException as error:
                what, outcome, size = "", f"{type(error).__name__}: {str(error)[:150]}", 0
            seconds, grown = time.process_time() - started, _peak() - before
        result = {"number": number, "what": what, "outcome": outcome, "seconds": seconds, "grown": grown, "size": size}
        print(json.dumps(result), flush=True)


def _start_of_peak() -> int:
    """Forget the most memory that the process ever had, and return what it has now."""
    Path("/proc/self/clear_refs").write_text("5")
    return _peak()


def _peak() -> int:
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) * 1024


def run_cases(kind: str, folder: Path, first: int, count: int, seconds: float, jobs: int) -> list[dict[str, Any]]:
    """Run cases until ``count`` are done or ``seconds`` have passed."""
    numbers: queue.SimpleQueue[int] = queue.SimpleQueue()
    for number in range(first, first + count):
        numbers.put(number)
    results: list[dict[str, Any]] = []
    until = time.monotonic() + seconds

    def supervise() -> None:
        worker = _start(kind, folder)
        try:
            while time.monotonic() < until:
                try:
                    number = numbers.get_nowait()
                except queue.Empty:
                    return
                alarm = threading.Timer(PATIENCE, worker.kill)
                alarm.start()
                worker.stdin.write(f"{number}\n")
                worker.stdin.flush()
                line = worker.stdout.readline()
                alarm.cancel()
                if line:
                    results.append(json.loads(line))
                    continue
                code = worker.wait()
                outcome = f"hung for {PATIENCE:.0f} s" if not alarm.is_alive() and code == -9 else f"died ({code})"
                results.append({"number": number, "what": "", "outcome": outcome, "seconds": 0, "grown": 0, "size": 0})
                worker = _start(kind, folder)
        finally:
            worker.kill()
            worker.wait()

    threads = [threading.Thread(target=supervise) for _ in range(jobs)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sorted(results, key=lambda result: result["number"])


def _start(kind: str, folder: Path) -> Any:
    command = [sys.executable, __file__, "--worker", kind, str(folder)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    worker = subprocess.Popen(command, text=True, **pipes)
    worker.stdout.readline()  # ready: what it imports and compiles is no part of a case
    return worker


def findings(results: list[dict[str, Any]]) -> list[str]:
    """What must not happen, with the number of the case."""
    good = ("refused", "loaded", "read")
    found = [f"case {r['number']} ({r['what']}): {r['outcome']}" for r in results if r["outcome"] not in good]
    found += [f"case {r['number']}: {r['seconds']:.1f} s" for r in results if r["seconds"] > MOST_SECONDS]
    for r in results:
        if r["grown"] > FREE_BYTES + MOST_MULTIPLE * r["size"]:
            found.append(f"case {r['number']}: {r['grown'] >> 20} MiB for {r['size']} bytes")
    return found


def main() -> int:
    if sys.argv[1:2] == ["--worker"]:
        work_on_cases(sys.argv[2], Path(sys.argv[3]))
        return 0
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kind", choices=KINDS, help="only these (default: all)")
    parser.add_argument("--count", type=int, default=2000, help="cases of each kind (default 2000)")
    parser.add_argument("--seconds", type=float, default=120.0, help="at most, of each kind (default 120)")
    parser.add_argument("--first", type=int, default=0, help="number of the first case (default 0)")
    parser.add_argument("--jobs", type=int, default=2, help="processes (default 2)")
    add_record_option(parser, "fuzz.csv")
    options = parser.parse_args()
    rows, bad = [], 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for kind in KINDS:
            (folder / kind).mkdir()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            bases(folder)
            further_bases(folder)
        for kind in KINDS if options.kind is None else (options.kind,):
            count = min(options.count, 10**6)
            results = run_cases(kind, folder, options.first, count, options.seconds, options.jobs)
            found = findings(results)
            bad += len(found)
            outcomes = Counter((r["what"], r["outcome"] if len(r["outcome"]) < 12 else "finding") for r in results)
            print(f"{kind}: {len(results)} cases, {len(found)} findings")
            for line in found[:200]:
                print(f"  {line}")
            slowest = max((r["seconds"] for r in results), default=0.0)
            largest = max((r["grown"] for r in results), default=0)
            print(f"  slowest {slowest:.2f} s of the processor, largest growth {largest >> 20} MiB")
            rows += [
                {"kind": kind, "what": what, "outcome": outcome, "cases": n}
                for (what, outcome), n in sorted(outcomes.items())
            ]
            rows.append({"kind": kind, "what": "all", "outcome": "findings", "cases": len(found)})
            rows.append({"kind": kind, "what": "all", "outcome": "slowest, ms", "cases": round(1000 * slowest)})
            rows.append({"kind": kind, "what": "all", "outcome": "largest growth, MiB", "cases": largest >> 20})
    if options.record:
        write_rows(options.record, rows, ("kind", "what", "outcome"))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
