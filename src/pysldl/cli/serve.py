"""`sldl serve`: a model as a service with a page."""

import os
import sys
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from pysldl.cli._input import USUAL_READING, ModelFolder, Reading
from pysldl.cli._output import print_json, say
from pysldl.exceptions import DataError, MissingDependencyError
from pysldl.serve.limits import Limits

if TYPE_CHECKING:
    from pysldl.serve.examples import DataExamples
    from pysldl.serve.feedback import FeedbackStore

TOKEN_VARIABLE = "SLDL_TOKEN"
DEFAULT_WORKERS = 2
REQUIRED = ("starlette", "uvicorn", "httptools", "msgspec", "prometheus_client", "snowballstemmer")


def serve(
    model: ModelFolder,
    /,
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    workers: int | None = None,
    token_file: Path | None = None,
    allowed_host: Annotated[list[str] | None, Parameter(negative=())] = None,
    tls_cert: Path | None = None,
    tls_key: Path | None = None,
    access_log: Path | None = None,
    feedback: Path | None = None,
    learn: bool = False,
    limits: Annotated[Limits | None, Parameter(name="*")] = None,
    examples: str | None = None,
    reading: Reading = USUAL_READING,
    json: bool = False,
) -> None:
    """Serve a model: an API that tags, explains and relates labels, and a page that shows it.

    Examples: `sldl serve chess`, `SLDL_TOKEN=secret sldl serve chess --host 0.0.0.0 --workers 4`

    The address is printed once requests are accepted; `/openapi.json` there describes the API. When the model folder is
    replaced, as `sldl update` does, the new version is served without a request being lost. Stop it with Ctrl-C.

    Parameters
    ----------
    host : str
        Address to listen on. The default can be reached from this machine only.
    port : int
        Port to listen on; 0 picks a free port.
    workers : int, optional
        Worker processes; they share the model's memory. Default: 2, or 1 if there is one processor.
    token_file : Path, optional
        File with a token that every client must send as `Authorization: Bearer`; else the variable SLDL_TOKEN, if set.
    allowed_host : list of str, optional
        Names under which clients may call the service, besides HOST, localhost and the address that they connect to.
        Repeat it for several; `*` allows all.
    tls_cert : Path, optional
        Certificate in PEM, with the chain behind it: clients then speak HTTPS.
    tls_key : Path, optional
        Key of the certificate.
    access_log : Path, optional
        File for a line of JSON about every request, without texts or labels; `-` is standard error.
    feedback : Path, optional
        File to append the labels to that people accept, reject and add on the page; `sldl update` takes it.
    learn : bool
        Let the model learn feedback at once, as `sldl update` does. Needs a token.
    examples : str, optional
        The data that the model was fitted on, a file or a name of the catalog: explanations then show the texts, or the
        top terms, of its rows. Not needed for a model that was fitted with `--keep-examples`.
    json : bool
        Print the address in one JSON object.
    """
    limits = limits or Limits()
    limits.validate()
    if workers is not None and workers < 1:
        raise DataError(f"--workers must be positive, but is {workers}.")
    n_workers = workers or min(DEFAULT_WORKERS, os.cpu_count() or 1)
    token = _token(token_file)
    if (tls_cert is None) != (tls_key is None):
        raise DataError("TLS needs both --tls-cert and --tls-key.")
    if learn and token is None:
        raise DataError("--learn changes the model, so it needs a token: see --token-file.")
    server = _server()
    server.serve_model(
        model,
        host=host,
        port=port,
        workers=n_workers,
        limits=limits,
        token=token,
        allowed_hosts=allowed_host or (),
        tls=None if tls_cert is None or tls_key is None else server.Tls(tls_cert, tls_key),
        access_log=access_log,
        feedback_store=_feedback_store(model, feedback, learn),
        examples=None if examples is None else _examples(model, examples, reading),
        on_ready=lambda address: _announce(model, address, n_workers, json),
    )


def _server() -> ModuleType:
    """Import the server, which needs the extra."""
    # One thread per worker: workers run side by side, and threads of their own would compete with each other. NumPy
    # reads the variables when it is loaded; a process without threads can be forked.
    for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(variable, "1")
    try:
        from pysldl.serve import server
    except ModuleNotFoundError as error:
        if error.name not in REQUIRED:
            raise
        raise MissingDependencyError(f"sldl serve needs {error.name}: pip install 'pysldl[serve]'.") from error
    return server


def _announce(model: Path, address: str, n_workers: int, json: bool) -> None:
    if json:
        print_json({"model": str(model), "address": address, "workers": n_workers, "process": os.getpid()})
    else:
        say(f"serving {model} at {address} (Ctrl-C stops)")
    sys.stdout.flush()


def _examples(model: Path, data: str, reading: Reading) -> "DataExamples":
    from pysldl.cli._input import choose_rows, read_data
    from pysldl.persistence import read_manifest
    from pysldl.serve.examples import DataExamples

    rows, _ = choose_rows(read_data(data, reading), read_manifest(model).extra.get("split"))
    return DataExamples(rows)


def _feedback_store(model: Path, feedback: Path | None, learn: bool) -> "FeedbackStore | None":
    if feedback is None and not learn:
        return None
    from pysldl.serve.feedback import FeedbackStore

    if learn:
        from pysldl.persistence import read_manifest

        if not read_manifest(model).parameters.get("online"):
            raise DataError(f"{model}: cannot learn: fit it again with --set online=true, or leave --learn away.")
    return FeedbackStore(feedback, model if learn else None)


def _token(file: Path | None) -> str | None:
    """Return the token, which is never given on the command line, where other users could read it."""
    token = os.environ.get(TOKEN_VARIABLE, "") if file is None else file.read_text(encoding="utf-8")
    token = token.strip()
    if file is not None and not token:
        raise DataError(f"{file}: holds no token.")
    if not token.isascii() or any(letter.isspace() for letter in token):
        raise DataError("A token is one word of ASCII characters.")
    return token or None
