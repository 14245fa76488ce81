"""The gallery of the documentation: each example with what it shows, how to run it, and its picture."""

from __future__ import annotations

import ast
import json
import runpy
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PAGE = Path("docs/gallery.md")
FOLDER = Path("docs/pictures/examples")

SECTIONS: Mapping[str, tuple[str, ...]] = {
    "Applications": ("service", "slack_bot", "invoices", "retrieval", "nightly_batch", "support", "notebook"),
    "Shapes": ("patterns", "fallback", "map_over", "approval", "streaming_edges", "conversation"),
    "Context and knowledge": (
        "context",
        "prompts",
        "typed_state",
        "artifacts",
        "tools",
        "injection",
        "adopting",
    ),
    "Production": (
        "production",
        "middleware",
        "cost",
        "telemetry",
        "database_sessions",
        "distributing",
        "hundred_agents",
    ),
    "Proof": ("pytest_suite", "evaluation", "baseline", "recording", "failure_to_test"),
}
OTHERS = "More"

INTRO = """\
# Gallery

Complete programs, each with the picture that the library draws of its pipeline, and its source. Every one
runs without a key, on scripted models or a small one in the process, and asks Gemini where `GOOGLE_API_KEY`
is set; the tests run them both ways. They lie in `examples/`; `pip install --group examples` brings what
single ones read and write beside the library. [Pictures](how-to/pictures.md) says how to read the drawings.
"""


@dataclass(frozen=True)
class Example:
    """One example program.

    Attributes:
        name: its file or folder, without suffix.
        command: how it is started from the root of the repository.
        sentence: what it shows.
        expression: the largest of its expressions.
        sources: its Python files, below the root of the repository.
    """

    name: str
    command: str
    sentence: str
    expression: Any
    sources: tuple[Path, ...] = ()


def gallery(root: Path) -> Mapping[Path, str]:
    """Path below the repository root → text of the page and of its pictures."""
    found = {example.name: example for example in examples(root)}
    pictures = {FOLDER / f"{name}.svg": found[name].expression.visualize("svg") for name in sorted(found)}
    return {PAGE: page(found), **pictures}


def page(found: Mapping[str, Example]) -> str:
    """The page, in the order of the sections; what is in none of them comes last."""
    known = {name for names in SECTIONS.values() for name in names}
    sections = {**SECTIONS, OTHERS: tuple(sorted(found.keys() - known))}
    lines = [INTRO]
    for title, names in sections.items():
        shown = [found[name] for name in names if name in found]
        if shown:
            lines.append(f"## {title}\n")
        lines.extend(entry(example) for example in shown)
    return "\n".join(lines)


def entry(example: Example) -> str:
    """One example on the page."""
    title = example.name.replace("_", " ").capitalize()
    text = f"### {title}\n\n{example.sentence}\n\n```console\n$ {example.command}\n```\n"
    text += f"\n![The pipeline of {example.name}](pictures/examples/{example.name}.svg)\n"
    for source in example.sources:
        text += f'\n??? example "`{source.name}`"\n    ``` {{.python}}\n    --8<-- "{source}"\n    ```\n'
    return text


def examples(root: Path) -> Iterator[Example]:
    """Every program and notebook of `examples/`; their modules are run, their programs are not."""
    folder = root / "examples"
    for path in sorted(folder.glob("*.py")):
        yield example(folder, path.stem, path, path)
    for path in sorted(folder.glob("*/__main__.py")):
        modules = [path, *(other for other in sorted(path.parent.glob("*.py")) if is_module(other))]
        yield example(folder, path.parent.name, path, *modules)
    for path in sorted(folder.glob("*.ipynb")):
        yield notebook(path)


def is_module(path: Path) -> bool:
    """Whether a file of a folder is neither its program nor a test."""
    return not path.name.startswith(("__", "test_"))


def example(folder: Path, name: str, main: Path, *modules: Path) -> Example:
    """The example whose program is `main`, drawn from the largest expression of its modules."""
    said = ast.get_docstring(ast.parse(main.read_text(encoding="utf-8"))) or ""
    sys.path.insert(0, str(main.parent))
    try:
        names = [value for path in modules for value in runpy.run_path(str(path)).values()]
    finally:
        sys.path.remove(str(main.parent))
    started = main.parent if main.name == "__main__.py" else main
    command = f"python examples/{started.name}"
    files = sorted(main.parent.glob("*.py")) if main.name == "__main__.py" else [main]
    sources = tuple(Path("examples") / path.relative_to(folder) for path in files)
    return Example(name, command, said.partition("\n")[0], largest(names), sources)


def notebook(path: Path) -> Example:
    """A notebook: its cells that do not run a pipeline are run here."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    texts = [(cell["cell_type"], "".join(cell["source"])) for cell in cells]
    names: dict[str, Any] = {}
    for kind, text in texts:
        if kind == "code" and "await" not in text and "result" not in text:
            exec(text, names)
    sentence = texts[0][1].partition("\n\n")[2]
    return Example(path.stem, f"jupyter lab examples/{path.name}", sentence, largest(list(names.values())))


def largest(values: list[Any]) -> Any:
    """The expression with the most steps, the last of several; agents of ADK are adopted.

    Raises:
        ValueError: there is none among these values.
    """
    # Imported here: what is generated must not be needed to generate it.
    from google.adk.agents import BaseAgent

    from adk_fluent.adopt import adopt
    from adk_fluent.ir import walk

    found = [adopt(value) if isinstance(value, BaseAgent) else value for value in values]
    expressions = [value for value in found if hasattr(value, "to_ir") and not isinstance(value, type)]
    if not expressions:
        raise ValueError("an example has a pipeline at the level of its module; this one has none")
    return max(reversed(expressions), key=lambda value: len(list(walk(value.to_ir()))))
