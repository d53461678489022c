"""The page in a real Chromium, at the width of a desk and at that of a hand.

Screenshots are left in the folder of the variable PYSLDL_ARTIFACTS, or in ``build/screenshots``.
"""

import csv
import json
import os
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from service_process import PATIENCE, Service

from pysldl.inspection.relations import VERBS
from webdriver import DOWN, ENTER, ESCAPE, Browser

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
CHROMEDRIVER = shutil.which("chromedriver")
ARTIFACTS = Path(os.environ.get("PYSLDL_ARTIFACTS", Path(__file__).parents[2] / "build" / "screenshots"))
SIZES = {"desk": (1280, 900), "hand": (390, 844)}
ROOT = Path(__file__).parents[2]
AXE = ROOT / "build" / "npm" / "node_modules" / "axe-core" / "axe.min.js"
PROBLEM = "!document.getElementById('problem').hidden && document.getElementById('problem-text').innerText"
TEXT = "Distant cloud and rain: a rainbow under the old sky."

pytestmark = pytest.mark.skipif(
    CHROMIUM is None or CHROMEDRIVER is None,
    reason="no Chromium with chromedriver on this machine: apt-get install chromium chromium-driver",
)


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    assert CHROMIUM is not None and CHROMEDRIVER is not None
    with Browser(CHROMIUM, CHROMEDRIVER) as opened:
        yield opened


@pytest.fixture(params=SIZES)
def browser(request: pytest.FixtureRequest, chromium: Browser) -> Browser:
    resize(chromium, request.param)
    chromium.size = request.param
    chromium.open("about:blank")
    chromium.console()
    return chromium


def resize(browser: Browser, size: str) -> None:
    width, height = SIZES[size]
    browser.command(
        "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=size == "hand"
    )


def keep(browser: Browser, name: str) -> None:
    ARTIFACTS.mkdir(parents=True, exist_ok=True)
    browser.screenshot(ARTIFACTS / f"{name}-{browser.size}.png")


def text_of(selector: str) -> str:
    return f"document.querySelector('{selector}')?.innerText"


def assert_calm(browser: Browser) -> None:
    """Nothing said in the console, nothing wider than the window."""
    assert browser.console() == []
    assert browser.run("return document.documentElement.scrollWidth <= window.innerWidth")


def test_paste_a_text_see_the_labels_and_why(browser: Browser, service: Service) -> None:
    browser.open(f"{service.address}/")
    browser.wait_for("document.title.startsWith('words')")
    browser.press("#text", TEXT)
    browser.click("#tag-button")
    browser.wait_for("document.querySelectorAll('.label').length === 10")
    labels = browser.run("return [...document.querySelectorAll('.label')].map((line) => line.dataset.label)")
    answer = service.post("/v1/predict", {"input": TEXT, "k": 10}).document["predictions"][0]["labels"]
    assert labels == [label["label"] for label in answer]
    shares = browser.run("return [...document.querySelectorAll('.label .share')].map((line) => line.innerText)")
    assert shares[0] == f"{round(100 * answer[0]['probability'])} %"

    first = f'.label[data-label="{labels[0]}"]'
    browser.press(first, ENTER)
    browser.wait_for("document.querySelector('.reasons .terms')")
    reasons = service.post("/v1/explain", {"input": TEXT, "label": labels[0]}).document
    rows = browser.run("return [...document.querySelectorAll('.examples li')].map((line) => line.innerText)")
    assert len(rows) == len(reasons["neighbors"]) and f"Row {reasons['neighbors'][0]['row']}," in rows[0]
    marked = browser.run("return [...document.querySelectorAll('mark')].map((word) => word.innerText)")
    assert {"cloud", "rain"} & set(marked)
    assert browser.run(f"return document.querySelector('{first}').getAttribute('aria-expanded')") == "true"
    keep(browser, "tag")
    assert_calm(browser)
    assert all(address.startswith(service.address) for address in browser.requested(f"{service.address}/"))


def test_find_a_label_and_follow_an_arrow(browser: Browser, service: Service) -> None:
    browser.open(f"{service.address}/#relations")
    browser.wait_for("document.getElementById('map').map?.data")
    keep(browser, "map")
    browser.press("#search", "rainb")
    browser.wait_for("document.querySelectorAll('#found [role=option]').length > 0")
    browser.press("#search", DOWN + ENTER)
    browser.wait_for(f"{text_of('#chosen h2')} === 'rainbow'")
    relations = service.get("/v1/relations?label=rainbow&limit=8").document
    shown = browser.run("return [...document.querySelectorAll('.arrows button.out')].map((b) => b.dataset.label)")
    outgoing = sorted(relations["outgoing"], key=lambda other: VERBS.index(other["verb"]))
    assert shown == [other["label"] for other in outgoing] and shown
    heading = browser.run("return document.querySelector('#chosen h3.out').innerText")
    assert heading.lower() == outgoing[0]["verb"] == "implies"
    first = browser.run("return document.querySelector('.arrows button.out .quiet').innerText")
    assert f"{outgoing[0]['n_both']} of {relations['count']} rows" in first and "direction sure: >99 %" in first
    column = "document.getElementById('map').map.data.labels[document.getElementById('map').map.selected]"
    assert browser.run(f"return {column}") == "rainbow"
    browser.run("document.querySelector('#chosen').scrollIntoView()")
    keep(browser, "label")

    browser.click(f'.arrows button.out[data-label="{shown[0]}"]')
    browser.wait_for(f"{text_of('#chosen h2')} === arguments[0]", shown[0])
    assert browser.run(f"return {column}") == shown[0]
    assert browser.run("return decodeURIComponent(location.hash)") == f"#relations/{shown[0]}"
    assert_calm(browser)


def test_the_map_answers_to_the_hand(browser: Browser, service: Service) -> None:
    browser.open(f"{service.address}/#relations")
    browser.wait_for("document.getElementById('map').map?.data")
    places = browser.run(
        """
        const { map } = document.getElementById("map");
        const box = map.canvas.getBoundingClientRect();
        return map.data.labels.map((name, i) => {
          const [x, y] = map.place(i);
          return map.find(x, y) === i ? [name, box.left + x, box.top + y] : null;
        }).filter(Boolean);
        """
    )
    assert len(places) > 20
    name, x, y = places[0]
    for kind in ("mousePressed", "mouseReleased"):
        browser.command("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)
    browser.wait_for(f"{text_of('#chosen h2')} === arguments[0]", name)

    scale = "document.getElementById('map').map.view.scale"
    browser.wait_for("document.getElementById('map').map.journey")
    before = browser.run(f"return {scale}")
    browser.click("#zoom-in")
    browser.wait_for(f"{scale} !== arguments[0]", before)
    browser.press("#map", "0")
    whole = "document.getElementById('map').map.fitScale()"
    browser.wait_for(f"Math.abs({scale} - {whole}) < 1e-6")
    browser.press("#map", ESCAPE)
    browser.wait_for("document.getElementById('map').map.selected === -1 && location.hash === '#relations'")
    browser.run("const s = document.getElementById('frequency'); s.value = 60; s.dispatchEvent(new Event('input'))")
    least = browser.run("return document.getElementById('map').map.leastCount")
    assert least > 1
    visible = browser.run("return document.getElementById('map').map.visible().reduce((a, b) => a + b, 0)")
    assert visible == sum(x["count"] >= least for x in service.get("/v1/labels?limit=100").document["labels"])
    assert_calm(browser)


def test_the_slider_hides_rare_labels_from_the_list_too(browser: Browser, service: Service) -> None:
    browser.open(f"{service.address}/#relations/sky")
    browser.wait_for(f"{text_of('#chosen h2')} === 'sky'")
    names = "[...document.querySelectorAll('.arrows button.in')].map((b) => b.dataset.label)"
    before = browser.run(f"return {names}")
    browser.run(
        """
        const slider = document.getElementById("frequency");
        slider.value = 70;
        for (const kind of ["input", "change"]) slider.dispatchEvent(new Event(kind));
        """
    )
    least = browser.run("return document.getElementById('map').map.leastCount")
    frequent = service.get(f"/v1/relations?label=sky&limit=8&min_count={least}").document["incoming"]
    assert {other["label"] for other in frequent} != set(before)
    expected = [x["label"] for x in sorted(frequent, key=lambda other: VERBS.index(other["verb"]))]
    browser.wait_for(f"JSON.stringify({names}) === JSON.stringify(arguments[0])", expected)
    assert_calm(browser)


def test_the_map_follows_a_newer_model(chromium: Browser, service: Service) -> None:
    resize(chromium, "desk")
    chromium.open(f"{service.address}/#relations")
    version = "document.getElementById('map').map.data.version"
    chromium.wait_for("document.getElementById('map').map?.data")
    chromium.run(f"{version} = 'of an hour ago'; location.hash = 'relations/rainbow'")
    chromium.wait_for(f"{text_of('#chosen h2')} === 'rainbow'")
    assert chromium.run(f"return {version}") == service.get("/health").document["version"]
    assert_calm(chromium)


def test_what_the_model_is(browser: Browser, service: Service) -> None:
    browser.open(f"{service.address}/#model")
    browser.wait_for("document.querySelectorAll('.plot').length === 2")
    browser.press("#model-body summary", ENTER)
    said = browser.run("return document.getElementById('model-body').innerText")
    assert "world" in said and "400" in said and "embedding.n_components" in said and "nDCG" in said
    assert "in held-out examples" in said.lower()  # the recall by label frequency has counts
    keep(browser, "model")
    assert_calm(browser)


def test_refusals_are_sentences_on_the_page(browser: Browser, service: Service) -> None:
    browser.open(f"{service.address}/")
    browser.wait_for("document.title.startsWith('words')")
    browser.run("document.getElementById('text').value = '   '")
    browser.click("#tag-button")
    browser.wait_for(f"{text_of('#tag-status')} === 'Enter some text first.'")
    browser.run("document.getElementById('text').value = 'a '.repeat(2100000)")
    browser.click("#tag-button")
    browser.wait_for(f"{text_of('#tag-status')} === 'This text is too long (limit 4 MB).'")
    browser.run("document.getElementById('text').value = 'Zzyzx qwrtp'")
    browser.click("#tag-button")
    browser.wait_for(f"({text_of('#tag-status')} ?? '').startsWith('No known word')")
    assert browser.run("return document.querySelector('.labels .cut').innerText") == "None is likely"
    browser.run("location.hash = 'relations/clowd'")
    assert "'cloud'" in browser.wait_for(f"({PROBLEM} || '').includes('clowd') && {PROBLEM}")
    browser.console()  # which tells of answers with 4xx


def test_the_text_stays_and_can_be_copied_cleared_and_replaced(chromium: Browser, service: Service) -> None:
    resize(chromium, "desk")
    chromium.open(f"{service.address}/")
    chromium.wait_for("document.title.startsWith('words')")
    chromium.run("document.getElementById('text').value = ''")
    chromium.press("#text", TEXT)
    chromium.run("location.reload()")
    chromium.wait_for(
        "document.title.startsWith('words') && document.getElementById('text')?.value === arguments[0]", TEXT
    )
    chromium.click("#tag-button")
    chromium.wait_for("document.querySelectorAll('.label').length === 10")
    chromium.run("navigator.clipboard.writeText = async (text) => { window.copied = text; }")
    chromium.click("#copy")
    chromium.wait_for(f"{text_of('#copy')} === 'Copied'")
    above = [
        label["label"]
        for label in service.post("/v1/predict", {"input": TEXT, "k": 10}).document["predictions"][0]["labels"]
        if label["chosen"]
    ]
    assert above and chromium.run("return window.copied") == "\n".join(above)
    chromium.click("#clear")
    chromium.wait_for("document.getElementById('text').value === '' && !document.querySelector('.label')")
    assert chromium.run("return document.getElementById('copy').hidden")


def test_words_that_are_joined_are_marked(chromium: Browser, serve: Callable[..., Service], text_model: Path) -> None:
    service = serve(text_model, "--workers", "1")
    chromium.open(f"{service.address}/")
    chromium.wait_for("document.title.startsWith('texts')")
    chromium.run("document.getElementById('text').value = 'A sky-cloud over Rain-swept land'")
    chromium.click("#tag-button")
    chromium.wait_for("document.querySelectorAll('.label').length > 0")
    chromium.click('.label[data-label="sky"]')
    chromium.wait_for("document.querySelector('.reasons .terms')")
    marked = chromium.run("return [...document.querySelectorAll('mark')].map((word) => word.innerText)")
    assert {"sky", "cloud"} <= set(marked)


def downloaded(folder: Path, name: str) -> str:
    end = time.monotonic() + PATIENCE
    while not (folder / name).exists():
        assert time.monotonic() < end, f"{name} was not downloaded"
        time.sleep(0.05)
    return (folder / name).read_text(encoding="utf-8")


def test_a_file_of_texts_comes_back_with_labels(chromium: Browser, service: Service, tmp_path: Path) -> None:
    resize(chromium, "desk")
    chromium.command("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(tmp_path / "out"))
    chromium.open(f"{service.address}/")
    chromium.wait_for("document.title.startsWith('words')")
    texts = [TEXT, "", 'kitchen, "table"\nchair', *[f"cloud {i}" for i in range(60)]]
    with (tmp_path / "rows.csv").open("w", newline="") as stream:
        csv.writer(stream).writerows([["id", "text"], *([i, text] for i, text in enumerate(texts))])
    chromium.press("#file", str(tmp_path / "rows.csv"))
    chromium.click("#file-button")
    chromium.wait_for(f"({text_of('#file-status')} ?? '').startsWith('62 of 63 texts tagged.')")
    rows = list(csv.DictReader(downloaded(tmp_path / "out", "rows.labels.csv").splitlines(keepends=True)))
    assert [row["text"] for row in rows] == texts and [row["id"] for row in rows] == [str(i) for i in range(63)]
    expected = service.post("/v1/predict", {"input": TEXT, "k": 10}).document["predictions"][0]["labels"]
    assert rows[0]["labels"].split("; ") == [label["label"] for label in expected if label["chosen"]]
    (tmp_path / "rows.jsonl").write_text(json.dumps({"id": "a", "text": TEXT}) + "\n")
    chromium.press("#file", str(tmp_path / "rows.jsonl"))
    chromium.click("#file-button")
    row = json.loads(downloaded(tmp_path / "out", "rows.labels.jsonl"))
    assert row["id"] == "a" and [one["label"] for one in row["labels"]] == rows[0]["labels"].split("; ")
    (tmp_path / "bad.csv").write_text("id,title\n1,a\n")
    chromium.press("#file", str(tmp_path / "bad.csv"))
    chromium.click("#file-button")
    chromium.wait_for(f"{text_of('#file-status')} === 'The file has no column named text.'")
    assert chromium.console() == []


def test_labels_are_corrected_and_the_feedback_is_a_file_for_update(
    browser: Browser, serve: Callable[..., Service], text_model: Path, tmp_path: Path
) -> None:
    service = serve(text_model, "--workers", "1")
    browser.command("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(tmp_path))
    browser.open(f"{service.address}/")
    browser.wait_for("document.title.startsWith('texts')")
    browser.run("localStorage.clear(); document.getElementById('text').value = arguments[0]", TEXT)
    browser.click("#tag-button")
    browser.wait_for("document.querySelectorAll('.decision').length === 20")
    labels = browser.run("return [...document.querySelectorAll('.label')].map((line) => line.dataset.label)")
    browser.press(f'[aria-label="Reject {labels[0]}"]', ENTER)
    browser.press(f'[aria-label="Accept {labels[-1]}"]', ENTER)
    browser.press("#add-label", "a label of my own" + ENTER)
    browser.wait_for("document.querySelector('#added li')")
    browser.click("#feedback-button")
    browser.wait_for(f"({text_of('#feedback-status')} ?? '').startsWith('Saved in this browser')")
    keep(browser, "feedback")
    browser.click("#feedback-download")
    row = json.loads(downloaded(tmp_path, "feedback.jsonl"))
    assert row["text"] == TEXT and row["rejected"] == [labels[0]] and labels[0] not in row["labels"]
    assert {labels[-1], "a label of my own"} <= set(row["labels"])
    assert_calm(browser)


def test_feedback_goes_to_the_service_where_it_keeps_it(
    chromium: Browser, serve: Callable[..., Service], text_model: Path, tmp_path: Path
) -> None:
    service = serve(text_model, "--workers", "1", "--feedback", str(tmp_path / "feedback.jsonl"))
    chromium.open(f"{service.address}/")
    chromium.wait_for("document.title.startsWith('texts')")
    chromium.run("document.getElementById('text').value = arguments[0]", TEXT)
    chromium.click("#tag-button")
    chromium.wait_for("document.querySelectorAll('.decision').length === 20")
    chromium.press("#add-label", "sk")
    chromium.wait_for("document.querySelectorAll('#add-found [role=option]').length > 0")
    chromium.press("#add-label", DOWN + ENTER)
    chromium.click("#feedback-button")
    chromium.wait_for(f"{text_of('#feedback-status')} === 'Saved.'")
    assert "sky" in json.loads((tmp_path / "feedback.jsonl").read_text())["labels"]


def test_the_page_says_that_the_service_is_gone_and_goes_on_when_it_is_back(
    chromium: Browser, serve: Callable[..., Service], word_model: Path
) -> None:
    service = serve(word_model, "--workers", "1")
    chromium.open(f"{service.address}/")
    chromium.wait_for("document.title.startsWith('words')")
    chromium.run("document.getElementById('text').value = arguments[0]", TEXT)
    service.stop()
    chromium.click("#tag-button")
    chromium.wait_for(f"({PROBLEM} || '').includes('The service is gone')")
    again = Service(word_model, "--workers", "1", port=service.port)
    try:
        chromium.wait_for("document.querySelectorAll('.label').length === 10")
        assert chromium.run("return document.getElementById('problem').hidden")
    finally:
        again.stop()
    chromium.console()  # which tells of requests that failed


def test_the_map_can_be_saved(chromium: Browser, service: Service, tmp_path: Path) -> None:
    resize(chromium, "desk")
    chromium.command("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(tmp_path))
    chromium.open(f"{service.address}/#relations")
    chromium.wait_for("document.getElementById('map').map?.data")
    chromium.click("#save-arrows")
    rows = list(csv.DictReader(downloaded(tmp_path, "label-arrows.csv").splitlines()))
    assert len(rows) == len(service.get("/v1/map").document["source"])
    chromium.click("#save-picture")
    end = time.monotonic() + PATIENCE
    while not (tmp_path / "label-map.png").exists():
        assert time.monotonic() < end
        time.sleep(0.05)
    assert (tmp_path / "label-map.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.skipif(not AXE.exists(), reason=f"no axe-core: make {AXE.relative_to(ROOT)} gets it through npm")
def test_axe_finds_nothing_serious(browser: Browser, serve: Callable[..., Service], text_model: Path) -> None:
    service = serve(text_model, "--workers", "1")
    browser.open(f"{service.address}/")
    browser.wait_for("document.title.startsWith('texts')")
    browser.run("document.getElementById('text').value = arguments[0]", TEXT)
    browser.click("#tag-button")
    browser.wait_for("document.querySelectorAll('.label').length === 10")
    browser.click(".label")
    browser.wait_for("document.querySelector('.reasons .terms')")
    browser.press("#add-label", "mine" + ENTER)
    views = {
        "tag": "document.querySelector('#added li')",
        "relations/sky": f"{text_of('#chosen h2')} === 'sky'",
        "model": "document.querySelectorAll('.plot').length === 2",
    }
    for view, is_there in views.items():
        browser.run("location.hash = arguments[0]", view)
        browser.wait_for(is_there)
        browser.run(AXE.read_text(encoding="utf-8"))
        browser.run("window.found = null; axe.run().then((all) => { window.found = { all: all.violations }; })")
        found = browser.wait_for("window.found")["all"]
        serious = [
            (one["id"], one["impact"], [node["html"][:200] for node in one["nodes"]])
            for one in found
            if one.get("impact") in (None, "serious", "critical", "moderate")
        ]
        assert serious == [], (view, serious)


def test_a_model_of_vectors_says_so(chromium: Browser, vector_service: Service) -> None:
    chromium.open(f"{vector_service.address}/")
    assert "takes vectors of 240 numbers" in chromium.wait_for(
        f"({text_of('#tag-status')} || '').includes('vectors') && {text_of('#tag-status')}"
    )


def test_the_page_asks_for_the_token(chromium: Browser, guarded_service: Service) -> None:
    chromium.open(f"{guarded_service.address}/")
    chromium.wait_for("!document.getElementById('token').hidden")
    chromium.press("#token-input", "open-sesame" + ENTER)
    chromium.wait_for("document.title.startsWith('words')")


def test_everything_can_be_reached_by_name_and_key(chromium: Browser, service: Service) -> None:
    """Every control has a name, every view a heading, and the order of focus needs no pointer."""
    resize(chromium, "desk")
    chromium.open(f"{service.address}/#relations")
    chromium.wait_for("document.getElementById('map').map?.data")
    nameless = chromium.run(
        """
        const named = (e) => e.ariaLabel || e.innerText?.trim() || e.labels?.length;
        return [...document.querySelectorAll("button, input, select, textarea, canvas, a, [role]")]
          .filter((e) => !named(e) && !e.matches("p[role], div[role], form")).map((e) => e.outerHTML);
        """
    )
    assert nameless == []
    assert chromium.run("return [...document.querySelectorAll('main > section')].every((s) => s.querySelector('h1'))")
    assert chromium.run("return document.querySelectorAll('[tabindex]:not([tabindex=\"0\"]):not(main)').length") == 0


def test_follows_the_dark_setting(service: Service) -> None:
    assert CHROMIUM is not None and CHROMEDRIVER is not None
    with Browser(CHROMIUM, CHROMEDRIVER, dark=True) as browser:
        browser.size = "dark"
        browser.open(f"{service.address}/#relations")
        browser.wait_for("document.getElementById('map').map?.data")
        keep(browser, "map")
        assert browser.run("return getComputedStyle(document.documentElement).backgroundColor") == "rgb(18, 21, 24)"
