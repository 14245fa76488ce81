"""What an installed google-adk release offers: a frozen, JSON-able value.

>>> from adk_fluent.tide.scan import scan
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
from importlib import import_module, metadata, resources
from pathlib import Path
from types import MappingProxyType

from adk_fluent.errors import ADKFluentError, what_happened
from adk_fluent.tide.typeref import is_builtin, literal, parse, resolve

if typing.TYPE_CHECKING:  # it comes with google-adk, which may be missing
    from pydantic import BaseModel
    from pydantic.fields import FieldInfo

SCHEMA_VERSION = 1
REFERENCE = "reference.json"
"""The file beside this module that holds the scan from which the generated modules were made."""

# The agent classes are what the generated modules are made of.
AGENTS: Mapping[str, str] = MappingProxyType(
    {
        "LlmAgent": "google.adk.agents.llm_agent",
        "SequentialAgent": "google.adk.agents.sequential_agent",
        "ParallelAgent": "google.adk.agents.parallel_agent",
        "LoopAgent": "google.adk.agents.loop_agent",
    }
)

# Only compared between releases.
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


class MissingADKError(ADKFluentError):
    """There is no google-adk in this Python; the message says how to install one."""


@dataclass(frozen=True, slots=True)
class AdkField:
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
    classes: Mapping[str, tuple[AdkField, ...]]
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
                f"scan has schema version {document['schema_version']}, this library reads {SCHEMA_VERSION}:"
                " write it again with `python -m codegen scan`"
            )
        return cls(
            adk_version=document["adk_version"],
            classes={
                name: tuple(AdkField(**f) for f in fields) for name, fields in document["classes"].items()
            },
            imports=document["imports"],
            unavailable=document["unavailable"],
        )

    @classmethod
    def load(cls, path: Path) -> Scan:
        """The scan stored in the file `path`."""
        return cls.from_json(path.read_text(encoding="utf-8"))


def reference() -> Scan:
    """The scan of the release from which adk-fluent's generated modules were made.

    >>> from adk_fluent.ir._generated import ADK_VERSION
    >>> reference().adk_version == ADK_VERSION
    True
    """
    return Scan.from_json(resources.files("adk_fluent.tide").joinpath(REFERENCE).read_text(encoding="utf-8"))


def scan() -> Scan:
    """Read the google-adk that is installed in this interpreter, as far as it can be read.

    Raises:
        MissingADKError: there is none.
    """
    try:
        version = metadata.version("google-adk")
    except metadata.PackageNotFoundError as error:
        raise MissingADKError("google-adk is not installed: pip install 'google-adk>=1.25,<3'") from error
    seen: dict[str, type] = {}
    classes: dict[str, tuple[AdkField, ...]] = {}
    unavailable: dict[str, str] = {}
    readers = {OPTIONS[0]: _options, PLUGIN[0]: callbacks}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # ADK warns on import about its own experimental features
        for name, module in {**AGENTS, **COMPARED, **dict((OPTIONS, PLUGIN))}.items():
            try:
                classes[name] = readers.get(name, model_fields)(_load(module, name), seen)
            except ImportError as error:
                unavailable[name] = str(error)
            except Exception as error:  # noqa: BLE001  # what a broken release raises is what we report
                unavailable[name] = what_happened(error)
        imports = {name: path for name, cls in seen.items() if (path := public_module(cls)) is not None}
    return Scan(version, classes, imports, unavailable)


def _load(module: str, name: str) -> typing.Any:
    home = import_module(module)
    try:
        return getattr(home, name)
    except AttributeError as e:
        raise ImportError(f"{module} has no {name}") from e


def _options(model: type[BaseModel], seen: dict[str, type] | None = None) -> tuple[AdkField, ...]:
    return tuple(AdkField(name, "object") for name in model.model_fields)


def model_fields(model: type[BaseModel], seen: dict[str, type] | None = None) -> tuple[AdkField, ...]:
    """The public fields of a pydantic model, in declaration order."""
    return tuple(
        AdkField(name, str(resolve(info.annotation, seen)), _default(info), info.is_required())
        for name, info in model.model_fields.items()
    )


def _default(info: FieldInfo) -> str | None:
    if info.default_factory is None:
        return None if info.is_required() else literal(info.default) or type(info.default).__name__
    factory = typing.cast("typing.Callable[[], object]", info.default_factory)
    value = None if isinstance(factory, type) else literal(factory())
    return value or f"{getattr(factory, '__name__', type(factory).__name__)}()"


def callbacks(plugin: type, seen: dict[str, type] | None = None) -> tuple[AdkField, ...]:
    """The hooks of a plugin class, each with its signature as type, in declaration order."""
    names = (n for n, v in vars(plugin).items() if not n.startswith("_") and inspect.isfunction(v))
    return tuple(AdkField(name, signature(getattr(plugin, name), seen)) for name in names)


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
    except Exception:  # noqa: BLE001  # broken, or its lazy exports need an extra that is not installed
        return False
