"""The few commands of the W3C WebDriver protocol that the browser tests need, over plain HTTP."""

import base64
import json
import re
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path
from types import TracebackType
from typing import Any, Self

ENTER = "\ue007"


class Browser:
    """A headless Chromium that reaches no network, driven through chromedriver."""

    def __init__(self, chromium: str, chromedriver: str, *, dark: bool = False) -> None:
        self.size = ""  # what a test calls the window it set
        self._profile = tempfile.TemporaryDirectory(prefix="pysldl-chromium-", ignore_cleanup_errors=True)
        self._log = Path(self._profile.name) / "chromedriver.log"
        self._driver = subprocess.Popen(
            [chromedriver, "--port=0", f"--log-path={self._log}"],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        try:
            self._address = f"http://127.0.0.1:{self._port()}"
            arguments = [
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-background-networking",
                "--disable-component-update",
                "--disable-sync",
                "--no-first-run",
                "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
                "--window-size=1280,900",
                f"--user-data-dir={self._profile.name}/profile",
                *(["--force-dark-mode", "--blink-settings=preferredColorScheme=0"] if dark else []),
            ]
            wanted = {
                "browserName": "chrome",
                "goog:chromeOptions": {"binary": chromium, "args": arguments},
                "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"},
            }
            reply = self._call("POST", "/session", {"capabilities": {"alwaysMatch": wanted}})
            self._session = f"/session/{reply['sessionId']}"
        except BaseException:
            self._stop()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._call("DELETE", self._session)
        finally:
            self._stop()

    def open(self, page: Path | str) -> None:
        self._call("POST", f"{self._session}/url", {"url": _address(page)})

    def run(self, script: str, *arguments: Any) -> Any:
        """Run JavaScript in the page and return its value."""
        return self._call("POST", f"{self._session}/execute/sync", {"script": script, "args": list(arguments)})

    def click(self, selector: str) -> None:
        self._call("POST", f"{self._element(selector)}/click", {})

    def press(self, selector: str, key: str) -> None:
        """Type keys into an element."""
        self._call("POST", f"{self._element(selector)}/value", {"text": key})

    def resize(self, width: int, height: int) -> None:
        self._call("POST", f"{self._session}/window/rect", {"width": width, "height": height})

    def wait_for(self, script: str, *arguments: Any, seconds: float = 15) -> Any:
        """Run an expression until it has a value that is true, and return that."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if found := self.run(f"return {script}", *arguments):
                return found
            time.sleep(0.05)
        raise TimeoutError(f"in vain for {seconds} s: {script}")

    def screenshot(self, path: Path) -> None:
        path.write_bytes(base64.b64decode(self._call("GET", f"{self._session}/screenshot")))

    def command(self, name: str, **parameters: Any) -> Any:
        """Run a command of Chromium's own protocol."""
        return self._call("POST", f"{self._session}/goog/cdp/execute", {"cmd": name, "params": parameters})

    def console(self) -> list[str]:
        """Return what the console said at level WARNING or SEVERE since the last call."""
        entries = self._call("POST", f"{self._session}/se/log", {"type": "browser"})
        return [entry["message"] for entry in entries if entry["level"] in ("WARNING", "SEVERE")]

    def requested(self, page: Path | str) -> set[str]:
        """Return the addresses that a page which was opened asked for since the last call, its own included."""
        entries = self._call("POST", f"{self._session}/se/log", {"type": "performance"})
        events = [json.loads(entry["message"])["message"] for entry in entries]
        return {
            event["params"]["request"]["url"]
            for event in events
            if event["method"] == "Network.requestWillBeSent"
            and event["params"]["documentURL"].partition("#")[0] == _address(page)
        }

    def _element(self, selector: str) -> str:
        found = self._call("POST", f"{self._session}/element", {"using": "css selector", "value": selector})
        return f"{self._session}/element/{next(iter(found.values()))}"

    def _port(self) -> int:
        assert self._driver.stdout is not None
        for line in self._driver.stdout:
            if match := re.search(r"started successfully on port (\d+)", line):
                return int(match[1])
        raise RuntimeError(f"chromedriver did not start: {self._log.read_text() if self._log.exists() else ''}")

    def _call(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        request = urllib.request.Request(
            self._address + path,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Content-Type": "application/json"},
            method=method,
        )
        try:
            with urllib.request.urlopen(request, timeout=60) as reply:
                return json.load(reply)["value"]
        except urllib.error.HTTPError as error:
            with error:
                raise RuntimeError(f"{method} {path}: {error.read().decode()}") from error

    def _stop(self) -> None:
        self._driver.terminate()
        self._driver.wait(timeout=20)
        if self._driver.stdout is not None:
            self._driver.stdout.close()
        self._profile.cleanup()


def _address(page: Path | str) -> str:
    return page if isinstance(page, str) else page.resolve().as_uri()
