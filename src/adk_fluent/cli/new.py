"""`adk-fluent new`: a folder that `adk web` and `adk run` open."""

from __future__ import annotations

import importlib.util
import keyword
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from adk_fluent.cli.errors import UsageError
from adk_fluent.errors import InvalidNameError
from adk_fluent.ir.naming import check_name

FILES: Final[Mapping[str, str]] = {
    "__init__.py": '''\
"""An agent made with adk-fluent."""

from . import agent

__all__ = ["agent"]
''',
    "agent.py": '''\
"""{name}: a writer and an editor. ADK looks for `app` and `root_agent` here."""

import os

from adk_fluent import Agent
from adk_fluent.config import ExecutionConfig


def choose_model():
    """Gemini when there is a key, else a small model in this process."""
    if os.environ.get("GOOGLE_API_KEY"):
        return "gemini-2.5-flash"
    from adk_fluent.local import LocalLlm

    return LocalLlm(max_tokens=80)


model = choose_model()

pipeline = (
    Agent("writer", model).instruct("Answer the user in two sentences.").writes("draft")
    >> Agent("editor", model).instruct("Make this shorter, in one sentence: {{draft}}")
)

app = pipeline.to_app(ExecutionConfig(app_name="{name}"))
root_agent = app.root_agent
''',
    "README.md": """\
# {name}

    adk-fluent run {name} "Hello"     # from the folder above this one
    adk-fluent viz {name}
    adk web                           # then open {name} in the browser
    adk run {name}

The pipeline is in `agent.py`. Without a key it runs on a small model in the process
(`pip install 'adk-fluent[local]'`); for Gemini, copy `.env.example` to `.env` and put your key there.
""",
    ".env.example": """\
# Copy to .env and fill in; `adk` and `adk-fluent` read it.
GOOGLE_API_KEY=
""",
    ".gitignore": """\
.env
.adk/
__pycache__/
""",
}
"""What the folder holds; `{name}` stands for its name."""


def new(folder: Path) -> int:
    """Write the folder.

    Raises:
        UsageError: its name is not one that ADK can load, or it exists and is not empty.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError(f"{str(folder)!r} exists and is not an empty folder; choose another name.")
    name = _checked_name(folder.absolute())
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for file, text in FILES.items():
            (folder / file).write_text(text.format(name=name), encoding="utf-8")
    except OSError as error:
        raise UsageError(f"Cannot write {str(folder)!r}: {error.strerror}.") from error
    print(f"wrote {folder}: {', '.join(FILES)}")
    print(f'next: adk-fluent run {folder} "Hello"')
    return 0


def _checked_name(folder: Path) -> str:
    name = folder.name
    try:
        check_name(name, "agent folder")
    except InvalidNameError as error:
        raise UsageError(str(error)) from error
    if keyword.iskeyword(name):
        raise UsageError(
            f"{name!r} is a word of Python itself; ADK could not import it. Choose another name."
        )
    if name in sys.stdlib_module_names or _taken(name, folder):
        raise UsageError(f"{name!r} is a Python module already; ADK would import that. Choose another name.")
    return name


def _taken(name: str, folder: Path) -> bool:
    """Whether Python would find another module of this name."""
    spec = importlib.util.find_spec(name)
    return spec is not None and list(spec.submodule_search_locations or ()) != [str(folder)]
