"""The HTML page in a real browser, opened from a file without a network."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from adk_fluent import Agent, C, S, gate
from adk_fluent.expr.base import Expr
from tests.browser import in_browser, new_page
from tests.viz.pipelines import BY_SIZE, good_enough, middle, small

if TYPE_CHECKING:
    from playwright.async_api import Browser, Page

pytestmark = [pytest.mark.newest, in_browser]

VIEW = {"width": 1200, "height": 800}


class Opened:
    """A page in the browser, and everything it complained about or asked for."""

    def __init__(self, page: Page, url: str) -> None:
        self.page = page
        self.url = url
        self.complaints: list[str] = []
        self.requests: list[str] = []
        page.on("console", lambda message: self.complaints.append(message.text))
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("dialog", lambda dialog: self.complaints.append(f"dialog {dialog.message}"))
        page.on("request", lambda request: self.requests.append(request.url))

    async def click(self, step: str) -> str:
        """Click a step; gives what the panel says then."""
        await self.page.click(f'.step[data-name="{step}"]')
        return await self.panel()

    async def panel(self) -> str:
        """The text of the panel."""
        return await self.page.inner_text("#panel")

    async def picture(self) -> Pixels:
        """The visible elements."""
        return await Pixels.of(self.page)

    def settled(self) -> None:
        """Nothing went wrong, and nothing but the file itself was asked for."""
        assert self.complaints == []
        assert self.requests == [self.url]


class Pixels:
    """A screenshot, by its pixels."""

    def __init__(self, colours: bytes, width: int) -> None:
        self._colours = colours
        self._width = width

    @classmethod
    async def of(cls, page: Page) -> Pixels:
        """Take one; another page of the browser decodes it, as this one may load no images."""
        shot = b64encode(await page.screenshot()).decode()
        other = await page.context.new_page()
        found: Any = await other.evaluate(_DECODE, f"data:image/png;base64,{shot}")
        await other.close()
        return cls(b64decode(found["data"]), found["width"])

    def at(self, x: float, y: float) -> tuple[int, int, int]:
        """The colour at a point."""
        start = (int(y) * self._width + int(x)) * 4
        red, green, blue = self._colours[start : start + 3]
        return red, green, blue

    def within(self, box: Mapping[str, Any]) -> set[tuple[int, int, int]]:
        """The colours in a rectangle."""
        return {
            self.at(x, y)
            for x in range(int(box["x"]), int(box["x"] + box["width"]))
            for y in range(int(box["y"]), int(box["y"] + box["height"]))
        }


_DECODE = """async (source) => {
  const image = new Image();
  image.src = source;
  await image.decode();
  const canvas = new OffscreenCanvas(image.width, image.height);
  const context = canvas.getContext("2d");
  context.drawImage(image, 0, 0);
  const { data } = context.getImageData(0, 0, image.width, image.height);
  const reader = new FileReader();
  const read = new Promise((done) => { reader.onload = done; });
  reader.readAsDataURL(new Blob([data]));
  await read;
  return { width: image.width, data: reader.result.split(",")[1] };
}"""

_BOXES = """() => [...document.querySelectorAll(".step")].map((step) => {
  const place = (node) => {
    const { x, y, width, height } = node.getBBox();
    return { text: node.textContent, x, y, width, height };
  };
  const texts = [...step.querySelectorAll(":scope > text")];
  return { name: step.dataset.name, shape: place(step.querySelector(".shape")), texts: texts.map(place) };
})"""


async def open_page(browser: Browser, folder: Path, expression: Expr[Any], scheme: Any = "light") -> Opened:
    """Write an expression's page to a file and open that without a network."""
    file = folder / "page.html"
    file.write_text(expression.visualize("html"), encoding="utf-8")
    page = await new_page(browser, offline=True, color_scheme=scheme, viewport=VIEW)
    opened = Opened(page, file.as_uri())
    await opened.page.goto(opened.url)
    return opened


@pytest.mark.parametrize("size", BY_SIZE)
async def test_texts_and_boxes_do_not_overlap(size: str, browser: Browser, tmp_path: Path) -> None:
    """As the browser measures them: text stays in its box, boxes in the image, and no two boxes meet."""
    opened = await open_page(browser, tmp_path, BY_SIZE[size])
    boxes: list[Any] = await opened.page.evaluate(_BOXES)
    left, top, width, height = map(
        float, (await opened.page.get_attribute("#picture svg", "viewBox") or "").split()
    )
    assert len(boxes) >= 5
    for box in boxes:
        shape = box["shape"]
        assert left <= shape["x"]
        assert shape["x"] + shape["width"] <= left + width
        assert top <= shape["y"]
        assert shape["y"] + shape["height"] <= top + height
        assert box["texts"], box["name"]
        for text in box["texts"]:
            assert text["width"] > 0
            assert shape["x"] < text["x"], text
            assert text["x"] + text["width"] < shape["x"] + shape["width"], text
            assert shape["y"] - 1 < text["y"], text
            assert text["y"] + text["height"] < shape["y"] + shape["height"] + 1, text
    for number, one in enumerate(boxes):
        for other in boxes[number + 1 :]:
            a, b = one["shape"], other["shape"]
            across = a["x"] < b["x"] + b["width"] and b["x"] < a["x"] + a["width"]
            down = a["y"] < b["y"] + b["height"] and b["y"] < a["y"] + a["height"]
            assert not (across and down), (one["name"], other["name"])
    opened.settled()


async def test_a_click_shows_what_reaches_a_step(browser: Browser, tmp_path: Path) -> None:
    """A click opens the step's channels, what it writes and its diagnostics; another click another step's."""
    opened = await open_page(browser, tmp_path, small)
    shown = await opened.click("helper")
    for words in (
        "helper",
        "Only other agents see what it says.",
        "sees user, classify",
        "never sees booker, polish",
        "intnt in the instruction, no step writes it before",
        '"Help with {intnt}."',
        "response goes to the conversation",
        'Did you mean "intent"?',
    ):
        assert words in shown
    shown = await opened.click("booker")
    assert "SUPPRESSED" in shown
    assert "intent beside the conversation, written by classify, the words of classify" in shown
    assert "Did you mean" not in shown
    assert "The user sees what it says." in await opened.click("polish")
    await opened.page.click("#panel .link:text-is('booker')")
    assert (await opened.panel()).startswith("All diagnostics\nbooker")
    opened.settled()


async def test_the_keyboard_is_enough(browser: Browser, tmp_path: Path) -> None:
    """Tab reaches the steps in order, Enter and Space open one, Escape goes back to the whole."""
    opened = await open_page(browser, tmp_path, small)
    keyboard = opened.page.keyboard
    await opened.page.focus("#larger")
    for key, name in (("Enter", "classify"), (" ", "route"), ("Enter", "booker")):
        await keyboard.press("Tab")
        await keyboard.press(key)
        assert name in (await opened.panel()).splitlines()
        assert await opened.page.get_attribute(f'.step[data-name="{name}"]', "aria-pressed") == "true"
    await keyboard.press("Escape")
    assert (await opened.panel()).startswith("Diagnostics")
    assert await opened.page.locator(".step.selected").count() == 0
    opened.settled()


async def test_a_diagnostic_leads_to_its_step(browser: Browser, tmp_path: Path) -> None:
    """The list of the whole pipeline jumps to the step that a finding is about, wherever that is."""
    late = BY_SIZE["large"] >> Agent("very_last").instruct("{nothing_like_it}")
    opened = await open_page(browser, tmp_path, late)
    step = opened.page.locator('.step[data-name="very_last"]')
    box = await step.bounding_box()
    assert box is not None
    assert box["y"] > VIEW["height"]
    assert "steps" in await opened.page.inner_text("#summary")
    await opened.page.click("#panel .issue:has-text('nothing_like_it')")
    assert (await opened.panel()).startswith("All diagnostics\nvery_last")
    box = await step.bounding_box()
    assert box is not None
    assert 0 < box["y"] < VIEW["height"]
    opened.settled()


async def test_lines_can_be_hidden(browser: Browser, tmp_path: Path) -> None:
    """The two boxes take control and state away from the picture, and give them back."""
    opened = await open_page(browser, tmp_path, small)
    shown = await opened.picture()
    for kind, colour in (("control", (0x5A, 0x66, 0x75)), ("data", (0x0F, 0x7B, 0x6C))):
        whole = {"x": 0, "y": 60, "width": 780, "height": 500}
        assert colour in shown.within(whole)
        await opened.page.uncheck(f"#{kind}")
        assert colour not in (await opened.picture()).within(whole)
        await opened.page.check(f"#{kind}")
    opened.settled()


@pytest.mark.parametrize(
    ("scheme", "paper", "fill"),
    [
        ("light", (0xFF, 0xFF, 0xFF), (0xE8, 0xF0, 0xFE)),
        ("dark", (0x14, 0x18, 0x1F), (0x1D, 0x2C, 0x47)),
    ],
)
async def test_light_and_dark(
    scheme: str, paper: tuple[int, int, int], fill: tuple[int, int, int], browser: Browser, tmp_path: Path
) -> None:
    """In both schemes boxes are drawn where they should be, with text in them, on the paper of the scheme."""
    opened = await open_page(browser, tmp_path, middle, scheme)
    shot = await opened.picture()
    assert shot.at(5, 700) == paper
    for name in ("triage", "tone", "booker"):
        box = await opened.page.locator(f'.step[data-name="{name}"] > .shape').bounding_box()
        assert box is not None
        assert shot.at(box["x"] + 12, box["y"] + 5) == fill
        assert len(shot.within(box)) > 20, "text is drawn with soft edges, in many shades"
    opened.settled()


async def test_nothing_in_a_pipeline_can_run(browser: Browser, tmp_path: Path) -> None:
    """Script in an instruction, a description, a message or a key is shown as text and never runs."""
    attack = "</script></style></svg><script>window.hacked=1;alert(1)</script><img src=x onerror=alert(2)>"
    tree = (
        Agent("a", attack).instruct(attack).describe(attack).static(attack).writes(attack)
        >> S.set(**{attack: attack})
        >> gate(good_enough, message=attack)
        >> Agent("b").context(C.template(attack)).reads(attack)
    )
    opened = await open_page(browser, tmp_path, tree)
    for name in ("a", "set", "gate", "b"):
        assert "<img src=x onerror=alert(2)>" in await opened.click(name)
    assert await opened.page.evaluate("window.hacked") is None
    assert await opened.page.locator("img").count() == 0
    opened.settled()


async def test_the_policy_of_the_page_stops_foreign_script(browser: Browser, tmp_path: Path) -> None:
    """Even script that found its way into the page would not run: the page allows its own alone."""
    opened = await open_page(browser, tmp_path, small)
    file = tmp_path / "page.html"
    text = file.read_text(encoding="utf-8")
    assert "<main>" in text
    file.write_text(text.replace("<main>", "<main><script>window.hacked=1</script>"), encoding="utf-8")
    await opened.page.reload()
    assert await opened.page.evaluate("window.hacked") is None
    assert any("Content Security Policy" in complaint for complaint in opened.complaints)


async def test_a_link_opens_a_step(browser: Browser, tmp_path: Path) -> None:
    """The address of the page names the open step, so that it can be handed on; zooming keeps it open."""
    opened = await open_page(browser, tmp_path, small)
    await opened.click("booker")
    assert opened.page.url.endswith("page.html#booker")
    other = await opened.page.context.new_page()
    await other.goto(opened.page.url)
    assert (await other.inner_text("#panel h2")) == "booker"
    before = await other.locator('.step[data-name="booker"]').bounding_box()
    await other.click("#larger")
    after = await other.locator('.step[data-name="booker"]').bounding_box()
    assert before is not None
    assert after is not None
    assert after["width"] > before["width"] * 1.2
    opened.settled()
