"""A real `sldl serve` process, and requests to it."""

import json
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any, NamedTuple

PATIENCE = 120.0  # seconds: the machine may have much else to do


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def document(self) -> Any:
        return json.loads(self.body)

    @property
    def code(self) -> str:
        return self.document["error"]["code"]


class Service:
    """A running `sldl serve`."""

    def __init__(self, model: Path, *words: str, port: int = 0, **environment: str) -> None:
        command = [sys.executable, "-m", "pysldl.cli", "serve", str(model), "--port", str(port), "--json", *words]
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ | environment
        )
        assert self.process.stdout is not None and self.process.stderr is not None
        lines = []
        for line in self.process.stdout:
            lines.append(line)
            if line.startswith("}"):
                break
        if not lines:
            raise RuntimeError(self.process.communicate()[1])
        self.address: str = json.loads("".join(lines))["address"]

    @property
    def port(self) -> int:
        return int(self.address.rpartition(":")[2])

    def get(self, path: str, **headers: str) -> Answer:
        return self.send("GET", path, None, headers)

    def post(self, path: str, document: Any, **headers: str) -> Answer:
        return self.send("POST", path, json.dumps(document).encode(), {"Content-Type": "application/json"} | headers)

    def send(self, method: str, path: str, body: bytes | None, headers: dict[str, str]) -> Answer:
        request = urllib.request.Request(self.address + path, data=body, headers=headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE) as reply:
                return Answer(reply.status, dict(reply.headers), reply.read())
        except urllib.error.HTTPError as error:
            with error:
                return Answer(error.code, dict(error.headers), error.read())

    def stop(self) -> tuple[int, str]:
        """Exit code and what was said on standard error."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        _, said = self.process.communicate(timeout=PATIENCE)
        return self.process.returncode, said
