"""SVG and PNG: images of an expression, made without a network."""

from __future__ import annotations

import re
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adk_fluent import Agent, S, gate
from adk_fluent.errors import MissingExtraError
from adk_fluent.expr.base import Expr
from adk_fluent.viz import to_html, to_png, to_svg
from tests.limits import LIMIT
from tests.properties.strategies import EXPRESSIONS
from tests.sampling import examples
from tests.viz.pipelines import BY_SIZE, good_enough

pytestmark = pytest.mark.newest  # the same on every release

DOCS = Path(__file__).parents[2] / "docs"
SVG = "{http://www.w3.org/2000/svg}"


def words(svg: str) -> list[str]:
    """Every text in an image, in order."""
    return [node.text or "" for node in ElementTree.fromstring(svg).iter(f"{SVG}text")]


def test_svg_shows_names_keys_and_visibility() -> None:
    """`visualize(format="svg")` is well-formed and has the names, the keys, and what the user hears."""
    picture = (Agent("a").writes("x") >> Agent("b").instruct("{x}")).visualize(format="svg")
    assert words(picture) == ["a", "writes x", "b", "reads x", "to the user"]


def test_svg_shows_what_a_gate_asks_and_keeps() -> None:
    """The box of a gate has its question, when it asks, and the key of the answer."""
    svg = gate(good_enough, message="Refund {total}?", into="approval").visualize("svg")
    assert words(svg) == ["Refund {total}?, if", "good_enough(score)", "writes approval"]


def test_borders_show_the_visibility_of_a_step() -> None:
    """Borders are thick for the user, thin for other agents, dashed without text, in light and dark style."""
    svg = to_svg((Agent("first") >> S.set(x=1) >> Agent("last")).node)
    looks = {node.get("data-name"): node.get("class") for node in ElementTree.fromstring(svg).iter(f"{SVG}g")}
    assert looks == {"first": "step agent internal", "set": "step state zero_cost", "last": "step agent user"}
    style = svg.split("<style>")[1].split("</style>")[0]
    assert ".user .shape { stroke-width: 3.2px; }" in style
    assert ".zero_cost .shape { stroke-dasharray: 5 3; }" in style
    assert "prefers-color-scheme: dark" in style


@given(EXPRESSIONS)
@settings(max_examples=examples(60))
def test_any_expression_is_well_formed(expression: Expr[Any]) -> None:
    """The SVG of any expression is well-formed XML."""
    assert ElementTree.fromstring(to_svg(expression.node)).tag == f"{SVG}svg"


@given(st.text())
def test_any_text_is_well_formed(message: str) -> None:
    """Whatever characters a message holds, the image is well-formed and can be written as UTF-8."""
    tree = gate(good_enough, message=message).node
    svg, page = to_svg(tree).encode(), to_html(tree).encode()
    assert ElementTree.fromstring(svg).tag == f"{SVG}svg"
    assert page.startswith(b"<!doctype html>")
    (drawn,) = re.findall(rb"<svg .*?</svg>", page, re.DOTALL)
    assert ElementTree.fromstring(drawn).tag == f"{SVG}svg"


def test_equal_expressions_give_equal_images_in_any_process() -> None:
    """SVG and HTML depend on the expression alone, not on the hash seed."""
    code = "from tests.viz.pipelines import middle\nprint(middle.visualize('svg'), middle.visualize('html'))"
    runs = [
        subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path), "PYTHONUTF8": "1"},
            timeout=LIMIT,
        ).stdout
        for seed in ("1", "2")
    ]
    assert runs[0].startswith("<svg ")
    assert runs[0] == runs[1]


def test_pictures_need_no_adk() -> None:
    """SVG and HTML leave google.adk unloaded."""
    code = (
        "import sys\n"
        "from tests.viz.pipelines import middle\n"
        "middle.visualize('svg'), middle.visualize('html')\n"
        "print('google.adk' in sys.modules)"
    )
    env = {"PYTHONPATH": ":".join(sys.path)}
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, env=env, timeout=LIMIT).stdout
        == b"False\n"
    )


@pytest.mark.parametrize("size", BY_SIZE)
def test_png_is_a_picture_of_the_right_size(size: str) -> None:
    """A PNG has the shape of the SVG, at up to twice its size."""
    png, svg = to_png(BY_SIZE[size].node), ElementTree.fromstring(to_svg(BY_SIZE[size].node))
    assert png.startswith(b"\x89PNG\r\n\x1a\n")
    width, height = struct.unpack(">II", png[16:24])
    wide, high = float(svg.get("width", "0")), float(svg.get("height", "0"))
    assert 1 <= width / wide <= 2
    assert width / height == pytest.approx(wide / high, rel=0.01)


def test_png_draws_text_from_the_fonts_of_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """Text does not depend on the fonts of the machine: without any of those the image is the same."""
    import resvg_py

    tree = (Agent("agent_with_a_name").writes("key") >> Agent("other").instruct("{key}")).node
    usual = to_png(tree)
    draw = resvg_py.svg_to_bytes
    monkeypatch.setattr(resvg_py, "svg_to_bytes", lambda **options: draw(**options, skip_system_fonts=True))  # pyright: ignore[reportUnknownLambdaType,reportUnknownArgumentType]  # passes on what it gets
    assert to_png(tree) == usual
    monkeypatch.setattr(
        resvg_py,
        "svg_to_bytes",
        lambda **options: draw(**{**options, "font_dirs": []}, skip_system_fonts=True),  # pyright: ignore[reportUnknownLambdaType,reportUnknownArgumentType,reportArgumentType]  # passes on what it gets
    )
    assert len(to_png(tree)) < len(usual)


def test_png_without_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the package that draws, one line names the extra."""
    monkeypatch.setitem(sys.modules, "resvg_py", None)
    with pytest.raises(MissingExtraError, match=r"resvg-py.*pip install 'resvg-py>=0.5' 'ttf-opensans"):
        Agent("a").visualize("png")


def test_png_without_its_fonts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the fonts, which would leave every box empty, one line names the extra."""
    monkeypatch.setattr("adk_fluent.viz.images.find_spec", lambda name: None)  # pyright: ignore[reportUnknownLambdaType,reportUnknownArgumentType]  # a test double
    with pytest.raises(MissingExtraError, match="ttf-opensans"):
        Agent("a").visualize("png")


def test_the_image_in_the_documentation_is_the_one_its_code_makes(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """`docs/pictures/support.svg` is what the pipeline on that page draws."""
    monkeypatch.chdir(tmp_path)
    page = (DOCS / "how-to/pictures.md").read_text(encoding="utf-8")
    names: dict[str, Any] = {}
    exec(page.split("```python\n")[1].split("```")[0], names)
    assert names["support"].visualize("svg") == (DOCS / "pictures/support.svg").read_text(encoding="utf-8")
