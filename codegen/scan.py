"""What an installed google-adk release offers: a frozen, JSON-able value.

>>> from codegen.scan import scan
>>> "instruction" in {f.name for f in scan().classes["LlmAgent"]}
True
"""

from __future__ import annotations

import inspect
import json
import sys
import typing
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from importlib import import_module, metadata
from pathlib import Path
from types import MappingProxyType

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from .typeref import is_builtin, literal, parse, resolve

SCHEMA_VERSION = 1

# The agent classes are what the generated modules are made of; an ADK without them is not usable.
AGENTS: Mapping[str, str] = MappingProxyType(
    {
        "LlmAgent": "google.adk.agents.llm_agent",
        "SequentialAgent": "google.adk.agents.sequential_agent",
        "ParallelAgent": "google.adk.agents.parallel_agent",
        "LoopAgent": "google.adk.agents.loop_agent",
    }
)

# Only compared between releases; a module that cannot be imported is reported as not scanned.
COMPARED: Mapping[str, str] = MappingProxyType(
    {
        "RunConfig": "google.adk.agents.run_config",
        "App": "google.adk.apps.app",
        "ResumabilityConfig": "google.adk.apps.app",
        "EventsCompactionConfig": "google.adk.apps.app",
    }
)
# What an agent's model can be told beside its instruction. It belongs to google-genai, which checks the
# values: only the names are read.
OPTIONS = ("GenerateContentConfig", "google.genai.types")
PLUGIN = ("BasePlugin", "google.adk.plugins.base_plugin")


@dataclass(frozen=True, slots=True)
class Field:
    """One public field: its canonical type, its default as source text (`None` when it has none)."""

    name: str
    type: str
    default: str | None = None
    required: bool = False


@dataclass(frozen=True, slots=True)
class Scan:
    """The public fields of the scanned classes of one ADK release.

    `imports` maps each class name used in a type to the shortest public module that exports it;
    `unavailable` maps a class to the reason why it could not be read.
    """

    adk_version: str
    classes: Mapping[str, tuple[Field, ...]]
    imports: Mapping[str, str]
    unavailable: Mapping[str, str]

    def to_json(self) -> str:
        """Stable JSON text that `from_json` reads back."""
        document = {
            "schema_version": SCHEMA_VERSION,
            "adk_version": self.adk_version,
            "classes": {name: [asdict(f) for f in fields] for name, fields in self.classes.items()},
            "imports": dict(sorted(self.imports.items())),
            "unavailable": dict(self.unavailable),
        }
        return json.dumps(document, indent=2) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Scan:
        """The scan that `to_json` wrote; `ValueError` for another schema version."""
        document = json.loads(text)
        if document["schema_version"] != SCHEMA_VERSION:
            raise ValueError(
                f"scan has schema version {document['schema_version']}, this codegen reads {SCHEMA_VERSION}:"
                " write it again with `python -m codegen scan`"
            )
        return cls(
            adk_version=document["adk_version"],
            classes={name: tuple(Field(**f) for f in fields) for name, fields in document["classes"].items()},
            imports=document["imports"],
            unavailable=document["unavailable"],
        )

    @classmethod
    def load(cls, path: Path) -> Scan:
        """The scan stored in the file `path`."""
        return cls.from_json(path.read_text(encoding="utf-8"))


def scan() -> Scan:
    """Read the google-adk that is installed in this interpreter."""
    seen: dict[str, type] = {}
    classes: dict[str, tuple[Field, ...]] = {}
    unavailable: dict[str, str] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # ADK warns on import about its own experimental features
        for name, module in AGENTS.items():
            classes[name] = model_fields(_load(module, name), seen)
        for name, module in COMPARED.items():
            try:
                classes[name] = model_fields(_load(module, name), seen)
            except ImportError as e:
                unavailable[name] = str(e)
        options: type[BaseModel] = _load(OPTIONS[1], OPTIONS[0])
        classes[OPTIONS[0]] = tuple(Field(name, "object") for name in options.model_fields)
        try:
            classes[PLUGIN[0]] = callbacks(_load(PLUGIN[1], PLUGIN[0]), seen)
        except ImportError as e:
            unavailable[PLUGIN[0]] = str(e)
        imports = {name: path for name, cls in seen.items() if (path := public_module(cls)) is not None}
    return Scan(metadata.version("google-adk"), classes, imports, unavailable)


def _load(module: str, name: str) -> type:
    try:
        return getattr(import_module(module), name)
    except AttributeError as e:
        raise ImportError(f"{module} has no {name}") from e


def model_fields(model: type[BaseModel], seen: dict[str, type] | None = None) -> tuple[Field, ...]:
    """The public fields of a pydantic model, in declaration order."""
    return tuple(
        Field(name, str(resolve(info.annotation, seen)), _default(info), info.is_required())
        for name, info in model.model_fields.items()
    )


def _default(info: FieldInfo) -> str | None:
    if info.default_factory is None:
        return (
            None
            if info.default is PydanticUndefined
            else literal(info.default) or type(info.default).__name__
        )
    factory = typing.cast("typing.Callable[[], object]", info.default_factory)
    value = None if isinstance(factory, type) else literal(factory())
    return value or f"{getattr(factory, '__name__', type(factory).__name__)}()"


def callbacks(plugin: type, seen: dict[str, type] | None = None) -> tuple[Field, ...]:
    """The hooks of a plugin class, each with its signature as type, in declaration order."""
    names = (n for n, v in vars(plugin).items() if not n.startswith("_") and inspect.isfunction(v))
    return tuple(Field(name, signature(getattr(plugin, name), seen)) for name in names)


def signature(function: typing.Callable[..., object], seen: dict[str, type] | None = None) -> str:
    """The parameters (without `self`) and result of `function` with resolved types.

    >>> def f(self, *, n: "int", context: "typing.Optional[ToolContext]" = None) -> "str": ...
    >>> signature(f)
    '(*, n: int, context: Context | None) -> str'
    """
    namespace = vars(sys.modules[function.__module__])

    def canonical(annotation: object) -> str:
        if not isinstance(annotation, str):
            return str(resolve(annotation, seen))
        try:
            return str(resolve(eval(annotation, dict(namespace)), seen))  # ADK's own source text
        except NameError:  # a name that ADK imports for type checkers only
            return str(parse(annotation))

    shown: list[str] = []
    described = inspect.signature(function)
    for parameter in described.parameters.values():
        if parameter.name == "self":
            continue
        if parameter.kind is parameter.KEYWORD_ONLY and "*" not in shown:
            shown.append("*")
        shown.append(f"{parameter.name}: {canonical(parameter.annotation)}")
    return f"({', '.join(shown)}) -> {canonical(described.return_annotation)}"


def public_module(cls: type) -> str | None:
    """The shortest module path without underscores that exports `cls`; `None` when there is none.

    >>> from google.adk.models.base_llm import BaseLlm
    >>> public_module(BaseLlm)
    'google.adk.models'
    """
    if is_builtin(cls.__name__) and cls.__module__ == "builtins":
        return None
    parts = cls.__module__.split(".")
    return next((m for m in _prefixes(parts) if _exports(m, cls)), None)


def _prefixes(parts: list[str]) -> Iterable[str]:
    paths = (".".join(parts[: n + 1]) for n in range(len(parts)) if not parts[n].startswith("_"))
    return (p for p in paths if not any(part.startswith("_") for part in p.split(".")))


def _exports(module: str, cls: type) -> bool:
    try:
        home = import_module(module)
        listed = module == cls.__module__ or cls.__name__ in getattr(home, "__all__", ())
        return listed and getattr(home, cls.__name__, None) is cls
    except ImportError:  # a package whose lazy exports need an extra that is not installed
        return False
