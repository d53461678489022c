"""`sldl serve`: a model as a service with a page."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from pysldl.cli._input import Reading
from pysldl.cli._output import console, print_json
from pysldl.exceptions import DataError, MissingDependencyError

if TYPE_CHECKING:
    from pysldl.serve.examples import DataExamples

__all__ = ["serve"]

TOKEN_VARIABLE = "SLDL_TOKEN"
USUAL_WORKERS = 2


def serve(
    model: Path,
    /,
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    workers: int | None = None,
    token_file: Path | None = None,
    max_body: str = "4 MB",
    max_rows: int = 1000,
    max_k: int = 100,
    timeout: float = 30.0,
    read_timeout: float = 10.0,
    queue: int = 64,
    examples: str | None = None,
    reading: Reading | None = None,
    json: bool = False,
) -> int:
    """Serve a model: an API that tags, explains and relates labels, and a page that shows it.

    Examples: `sldl serve chess`, `SLDL_TOKEN=secret sldl serve chess --host 0.0.0.0 --workers 4`

    The address is printed once requests are accepted; `/openapi.json` there describes the API. When the model folder is
    replaced, as `sldl update` does, the new version is served without a request being lost. Stop it with Ctrl-C.

    Parameters
    ----------
    model : Path
        Folder that `sldl fit` wrote.
    host : str
        Where to listen. Only this machine can reach the default.
    port : int
        0 takes any that is free.
    workers : int, optional
        Processes that answer; they share the model's memory. Default: 2, or 1 where there is one processor.
    token_file : Path, optional
        File with a token that every client must send as `Authorization: Bearer`; else the variable SLDL_TOKEN, if set.
    max_body : str
        Largest request, for example "4 MB".
    max_rows : int
        Most inputs of a request.
    max_k : int
        Most labels of an input, and most entries of any list in an answer.
    timeout : float
        Seconds until a request that cannot be answered is given up.
    read_timeout : float
        Seconds that a client may take to send its request.
    queue : int
        Requests that may wait in a worker; further ones are told to come back (status 503).
    examples : str, optional
        The data that the model was fitted on, a file or a name of the catalog: explanations then show the texts, or the
        heaviest terms, of its rows. Not needed for a model that was fitted with `--keep-examples`.
    reading : Reading, optional
    json : bool
        Print the address in one JSON object.
    """
    # One thread a worker: they answer side by side, and threads of their own would only stand in each other's way. It
    # has to be said before NumPy is loaded, and leaves the process without threads when it forks.
    for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(variable, "1")
    try:
        from pysldl.serve.server import serve_model
    except ModuleNotFoundError as error:
        if error.name not in ("starlette", "uvicorn", "h11", "anyio"):
            raise
        raise MissingDependencyError("sldl serve needs starlette and uvicorn: pip install 'pysldl[serve]'.") from error
    from pysldl._utils.memory import parse_bytes
    from pysldl.serve.limits import Limits

    positive = {
        "workers": workers,
        "max-rows": max_rows,
        "max-k": max_k,
        "timeout": timeout,
        "read-timeout": read_timeout,
    }
    for option, value in positive.items():
        if value is not None and not value > 0:
            raise DataError(f"--{option} must be positive, but is {value}.")
    if queue < 0:
        raise DataError(f"--queue must not be negative, but is {queue}.")
    try:
        body_bytes = parse_bytes(max_body)
    except ValueError as error:
        raise DataError(f"--max-body: {error}") from error
    settings = Limits(
        max_body=body_bytes,
        max_rows=max_rows,
        max_k=max_k,
        timeout=timeout,
        read_timeout=read_timeout,
        queue=queue,
        token=_token(token_file),
    )

    n_workers = workers or min(USUAL_WORKERS, os.cpu_count() or 1)

    def on_ready(address: str) -> None:
        if json:
            print_json({"model": str(model), "address": address, "workers": n_workers, "process": os.getpid()})
        else:
            console().print(f"serving {model} at {address} (Ctrl-C stops)", markup=False, soft_wrap=True)
        sys.stdout.flush()

    serve_model(
        model,
        host=host,
        port=port,
        workers=n_workers,
        settings=settings,
        examples=None if examples is None else _examples(model, examples, reading),
        on_ready=on_ready,
    )
    return 0


def _examples(model: Path, data: str, reading: Reading | None) -> "DataExamples":
    from pysldl.cli._input import choose_rows, read_data
    from pysldl.persistence import read_manifest
    from pysldl.serve.examples import DataExamples

    rows, _ = choose_rows(read_data(data, reading), read_manifest(model).extra.get("split"))
    return DataExamples(rows)


def _token(file: Path | None) -> str | None:
    """The token, which is never given on the command line, where others could read it."""
    token = os.environ.get(TOKEN_VARIABLE, "") if file is None else file.read_text(encoding="utf-8")
    token = token.strip()
    if file is not None and not token:
        raise DataError(f"{file}: holds no token.")
    if not token.isascii() or any(letter.isspace() for letter in token):
        raise DataError("A token is one word of ASCII characters.")
    return token or None
