"""A headless Chromium for the browser tests, driven by selenium through the installed chromedriver."""

import json
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from selenium.webdriver import Chrome, ChromeOptions, ChromeService
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.wait import WebDriverWait

ENTER, DOWN, ESCAPE = Keys.ENTER, Keys.ARROW_DOWN, Keys.ESCAPE
ARGUMENTS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
    "--window-size=1280,900",
)
DARK = ("--force-dark-mode", "--blink-settings=preferredColorScheme=0")


class Browser:
    """A headless Chromium that reaches no network."""

    def __init__(self, chromium: str, chromedriver: str, *, dark: bool = False) -> None:
        self.size = ""  # what a test calls the window it set
        self._profile = tempfile.TemporaryDirectory(prefix="pysldl-chromium-", ignore_cleanup_errors=True)
        options = ChromeOptions()
        options.binary_location = chromium  # with both paths given, selenium looks for and downloads nothing
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        for argument in (*ARGUMENTS, f"--user-data-dir={self._profile.name}/profile", *(DARK if dark else ())):
            options.add_argument(argument)
        self._driver = Chrome(options, ChromeService(chromedriver))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._driver.quit()
        self._profile.cleanup()

    def open(self, page: Path | str) -> None:
        self._driver.get(_address(page))

    def run(self, script: str, *arguments: Any) -> Any:
        """Run JavaScript in the page and return its value."""
        return self._driver.execute_script(script, *arguments)

    def click(self, selector: str) -> None:
        self._driver.find_element(By.CSS_SELECTOR, selector).click()

    def press(self, selector: str, keys: str) -> None:
        """Type keys into an element."""
        self._driver.find_element(By.CSS_SELECTOR, selector).send_keys(keys)

    def resize(self, width: int, height: int) -> None:
        self._driver.set_window_rect(width=width, height=height)

    def wait_for(self, script: str, *arguments: Any, seconds: float = 15) -> Any:
        """Run an expression until its value is true, and return the value."""
        wait = WebDriverWait(self._driver, seconds, poll_frequency=0.05)
        return wait.until(lambda driver: driver.execute_script(f"return {script}", *arguments), f"timed out: {script}")

    def screenshot(self, path: Path) -> None:
        path.write_bytes(self._driver.get_screenshot_as_png())

    def command(self, name: str, **parameters: Any) -> Any:
        """Run a command of Chromium's own protocol."""
        return self._driver.execute_cdp_cmd(name, parameters)

    def console(self) -> list[str]:
        """Return what the console said at level WARNING or SEVERE since the last call."""
        entries = self._driver.get_log("browser")
        return [entry["message"] for entry in entries if entry["level"] in ("WARNING", "SEVERE")]

    def requested(self, page: Path | str) -> set[str]:
        """Return the addresses that a page which was opened asked for since the last call, its own included."""
        events = [json.loads(entry["message"])["message"] for entry in self._driver.get_log("performance")]
        return {
            event["params"]["request"]["url"]
            for event in events
            if event["method"] == "Network.requestWillBeSent"
            and event["params"]["documentURL"].partition("#")[0] == _address(page)
        }


def _address(page: Path | str) -> str:
    return page if isinstance(page, str) else page.resolve().as_uri()
