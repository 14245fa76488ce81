"""The gallery is what the examples are: their sentences, and the pictures of their pipelines."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from adk_fluent.cost import unregister_price
from codegen.__main__ import main
from codegen.gallery import PAGE, SECTIONS, gallery, largest

pytestmark = pytest.mark.newest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def drawn() -> Iterator[Mapping[Path, str]]:
    """The gallery of the examples as they are; what they say that models cost is taken back."""
    yield gallery(ROOT)
    for model in ("gemini-2.5-flash-lite", "house-model"):
        unregister_price(model)


def test_the_gallery_is_of_the_examples_as_they_are(drawn: Mapping[Path, str]) -> None:
    """Page and pictures are in the repository, and no picture is of an example that is gone."""
    stale = [str(p) for p, text in drawn.items() if (ROOT / p).read_text(encoding="utf-8") != text]
    assert stale == [], "run `python -m codegen pictures`"
    kept = {path.relative_to(ROOT) for path in (ROOT / "docs/pictures/examples").iterdir()}
    assert kept == set(drawn) - {PAGE}


def test_every_example_is_shown_with_its_picture(drawn: Mapping[Path, str]) -> None:
    """Each program and notebook has a heading, its sentence, its command and its picture on the page."""
    page = drawn[PAGE]
    folder = ROOT / "examples"
    programs = [
        *folder.glob("*.py"),
        *folder.glob("*.ipynb"),
        *(p.parent for p in folder.glob("*/__main__.py")),
    ]
    assert len(programs) >= 25
    for path in programs:
        assert f" examples/{path.name}\n" in page
        assert f"(pictures/examples/{path.stem}.svg)" in page
        for source in [path, *path.glob("*.py")]:
            assert source.suffix != ".py" or f'--8<-- "{source.relative_to(ROOT)}"' in page
    assert len(re.findall(r"^### ", page, re.MULTILINE)) == len(programs)
    assert {name for names in SECTIONS.values() for name in names} <= {path.stem for path in programs}


def test_the_largest_expression_is_drawn() -> None:
    """The gallery draws the expression with the most steps; a program without one is refused."""
    from adk_fluent import Agent

    one, two = Agent("one"), Agent("one") >> Agent("two")
    values: list[Any] = [two, one, Agent, 1]
    assert largest(values) is two
    native: Any = two.build()
    assert len(largest([one, native]).to_ir().children) == 2
    with pytest.raises(ValueError, match="at the level of its module"):
        largest([1])


def test_pictures_are_written_and_old_ones_removed(tmp_path: Path) -> None:
    """`python -m codegen pictures` draws what examples there are, and removes what shows none of them."""
    (tmp_path / "examples").mkdir()
    source = '"""Says hello."""\n\nfrom adk_fluent import Agent\n\npipeline = Agent("greeter")\n'
    (tmp_path / "examples/hello.py").write_text(source)
    (tmp_path / "pyproject.toml").write_text((ROOT / "pyproject.toml").read_text())
    old = tmp_path / "docs/pictures/examples/gone.svg"
    old.parent.mkdir(parents=True)
    old.write_text("<svg/>")
    assert main(["pictures", "--root", str(tmp_path)]) == 0
    assert not old.exists()
    assert "greeter" in (old.parent / "hello.svg").read_text()
    page = (tmp_path / PAGE).read_text()
    assert "## More\n\n### Hello\n\nSays hello.\n" in page
    assert (tmp_path / "docs/pictures/badges/python.svg").is_file()
