"""The server's page in a real browser: Debian's chromium, driven by selenium."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import Any

import pytest

from headrace.nmt.serving.server import Server
from headrace.nmt.serving.service import Limits
from tests.nmt.servers import SENTENCES, make_translator, running, until

webdriver = pytest.importorskip("selenium.webdriver", reason="the browser is driven by selenium: pip install selenium")

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
if not (CHROMIUM and DRIVER):
    pytest.skip("no browser: apt-get install chromium chromium-driver", allow_module_level=True)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    found = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
    yield found
    found.quit()


class Page:
    """What a person sees and does."""

    def __init__(self, browser: Any, server: Server) -> None:
        self.browser = browser
        browser.get_log("browser")  # what others left
        browser.get(server.url)
        until(lambda: self.text("title") == "German → English")

    def find(self, name: str) -> Any:
        return self.browser.find_element("id", name)

    def all(self, selector: str) -> list[Any]:
        found: list[Any] = self.browser.find_elements("css selector", selector)
        return found

    def text(self, name: str) -> str:
        return str(self.find(name).text)

    def translate(self, text: str, **options: object) -> None:
        self.browser.execute_script("document.querySelector('details').open = true")
        for name, value in {"source": text, **options}.items():
            field = self.find(name)
            field.clear()
            field.send_keys(str(value))
        self.find("go").click()
        until(lambda: bool(self.find("go").is_enabled()))

    def messages(self) -> list[str]:
        return [entry["message"] for entry in self.browser.get_log("browser") if entry["level"] == "SEVERE"]


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with running(limits=Limits(words=30)) as (_, server):
        yield server


@pytest.fixture
def page(browser: Any, server: Server) -> Page:
    return Page(browser, server)


def test_a_translation_with_its_alternatives_and_attention(page: Page) -> None:
    translator = make_translator(beam_width=3)
    (wanted,) = translator.nbest(SENTENCES[:1], 3, attention=True)
    page.translate(SENTENCES[0], beam_width=3, nbest=3)
    assert page.text("translation") == wanted[0].text
    assert [row.text for row in page.all(".hypothesis .text")] == [found.text for found in wanted]
    scores = [float(row.text.split()[-1].replace("−", "-")) for row in page.all(".hypothesis .score")]
    assert scores == [pytest.approx(found.score, abs=6e-4) for found in wanted]
    for choice, found in zip(page.all(".hypothesis input"), wanted, strict=True):
        choice.click()
        assert found.attention is not None
        assert [head.text for head in page.all("#attention thead th")] == found.source
        assert [head.text for head in page.all("#attention tbody th")] == [*found.words, "</s>"][: len(found.attention)]
        shown = [int(cell.text or 0) for cell in page.all("#attention tbody td")]
        assert shown == [pytest.approx(100 * weight, abs=0.51) for weight in found.attention.flatten()]
    assert page.messages() == []


def test_a_cell_says_what_it_is(page: Page) -> None:
    page.translate("die mühle", beam_width=0, nbest=1)
    cell = page.all("#attention tbody td")[1]
    cell.click()
    row = page.all("#attention tbody th")[0].text
    assert page.text("cell").startswith(f"{row} ← mühle: ")
    assert page.text("cell") == cell.get_attribute("title")
    assert [head.text for head in page.all("th.on")] == ["mühle", row]


def test_errors_are_shown_and_go_away(page: Page) -> None:
    page.translate(" ")
    assert page.text("error") == "the sentence is empty: write something to translate"
    assert page.find("error").get_attribute("role") == "alert"
    assert not page.find("result").is_displayed()
    page.translate("bach", beam_width=2, nbest=3)
    assert page.text("error") == "nbest may be at most beam_width, got 3 with beam_width 2: give a wider beam"
    page.translate("bach " * 31)
    assert "has 31 words as the model reads them, at most 30 may be" in page.text("error")
    page.translate("bach", beam_width=3, nbest=3)
    assert not page.find("error").is_displayed()
    assert page.find("result").is_displayed()


def test_what_looks_like_markup_is_text(page: Page) -> None:
    """In what is typed, in words that are unknown, and in the model's own words, of which one is <b>."""
    attack = "<script>window.broken=1</script> <img/src=x/onerror=window.broken=1> die mühle"
    page.translate(attack, beam_width=9, nbest=9)
    assert page.find("read").text.startswith(f"Read: {attack} – words that are underlined")
    assert [word.text for word in page.all("#read .unknown")] == attack.split()[:2]
    assert any("<b>" in row.text for row in page.all(".hypothesis .text"))
    assert page.all("#result script, #result img, #result b") == []
    assert page.browser.execute_script("return window.broken === undefined") is True
    assert page.messages() == []


def test_keys_alone_are_enough(page: Page) -> None:
    """Typing, Ctrl + Enter, and going to the next translation with an arrow."""
    from selenium.webdriver.common.keys import Keys

    assert page.browser.switch_to.active_element.get_attribute("id") == "source"
    page.browser.switch_to.active_element.send_keys("das korn", Keys.CONTROL, Keys.ENTER)
    until(lambda: bool(page.find("result").is_displayed()))
    first, second = page.all(".hypothesis input")[:2]
    first.send_keys(Keys.ARROW_DOWN)
    assert second.is_selected()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_phone_needs_no_scrolling_sideways(page: Page, scheme: str) -> None:
    devtools = page.browser.execute_cdp_cmd
    devtools(
        "Emulation.setDeviceMetricsOverride", {"width": 360, "height": 740, "deviceScaleFactor": 2, "mobile": True}
    )
    devtools("Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": scheme}]})
    try:
        page.translate("mahlt " * 30, beam_width=2, nbest=2)
        assert page.browser.execute_script("return document.documentElement.scrollWidth") <= 360
        assert page.find("go").size["height"] >= 40  # large enough for a finger
        back = page.browser.execute_script("return getComputedStyle(document.body).backgroundColor")
        assert (sum(map(int, back[4:-1].split(","))) < 384) == (scheme == "dark")
    finally:
        devtools("Emulation.clearDeviceMetricsOverride", {})
        devtools("Emulation.setEmulatedMedia", {"features": []})


def test_a_server_that_has_gone(browser: Any) -> None:
    with running() as (_, server):
        page = Page(browser, server)
    page.translate("bach")
    assert page.text("error") == "The server cannot be reached. Is it still running?"
