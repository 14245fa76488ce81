"""What a user is told about another google-adk: true of what adk-fluent does, on paper and as JSON."""

from __future__ import annotations

import json
import pkgutil
from dataclasses import replace
from importlib import import_module

import pytest
from google.adk.agents import LlmAgent
from google.adk.apps import App
from google.adk.plugins.base_plugin import BasePlugin
from pydantic import BaseModel

import adk_fluent
from adk_fluent import Agent, C, Pipeline
from adk_fluent.backends.adk.added import AddedPlugin
from adk_fluent.config import CompactionConfig, ExecutionConfig
from adk_fluent.errors import CompileError
from adk_fluent.tide.diff import KINDS, Diff, diff
from adk_fluent.tide.methods import EXPRESSIONS, FURTHER, OWN, methods_of
from adk_fluent.tide.report import WIDTH, advice, document, text
from adk_fluent.tide.scan import AdkField, Scan, callbacks, model_fields, reference
from codegen.store import stored_scans


class Odd(BaseModel):
    """Somebody's agent class."""

    instruction: str = ""
    generate_content_config: int = 1
    description: str = ""
    gone: bool = False


class Odder(BaseModel):
    """The same, a release later."""

    instruction: int = 0
    sparkle: bool = False
    must: str


class Hooks:
    def on_event_callback(self, *, event: str) -> None: ...


class MoreHooks:
    def on_sleep_callback(self, *, event: str) -> None: ...


def made_up() -> Diff:
    """A release that changes something of each kind."""
    old = {
        "LlmAgent": model_fields(Odd),
        "RunConfig": (AdkField("max_llm_calls", "int", "500"),),
        "App": (AdkField("name", "str", None, True),),
        "GenerateContentConfig": (AdkField("seed", "object"),),
        "BasePlugin": callbacks(Hooks),
    }
    new = {
        "LlmAgent": model_fields(Odder),
        "RunConfig": (AdkField("pace", "int", "1"),),
        "App": (AdkField("name", "str", None, True), AdkField("colour", "str", "'red'")),
        "GenerateContentConfig": (AdkField("mood", "object"),),
        "BasePlugin": callbacks(MoreHooks),
    }
    missing = {"LoopAgent": "google.adk.agents.loop_agent has no LoopAgent"}
    return diff(Scan("1.0.0", old, {}, {}), Scan("2.0.0", new, {}, missing))


REPORT = """\
google-adk 1.0.0 to 2.0.0: 13 differences, 8 to look at, 1 class unread.
adk-fluent's fields were made from 1.0.0; 2.0.0 is installed.

LlmAgent
  Added. No method sets these yet; an adk-fluent that is made from this
    google-adk has one for each. Until then assign them on the agent that
    .build() gives.
    sparkle: bool = False
    must: str (now required)
  Removed. Code that sets these fields breaks: where a method named here was
    called, building and running raise CompileError.
    generate_content_config: int = 1
      set by .generate_content_config(), .generate()
    description: str = ''
      set by .describe()
    gone: bool = False
  Changed. Look at each: our methods may need another type or meaning.
    instruction
      was str = ''
      is  int = 0
      set by .instruct()

RunConfig
  Added. adk-fluent does not set these; a runner of .to_runner() takes a
    RunConfig that does, in run_async(run_config=...).
    pace: int = 1
  Removed. Code that sets these fields breaks.
    max_llm_calls: int = 500
      adk-fluent itself uses it

App
  Added. adk-fluent does not set these; assign them on the App that .to_app()
    gives.
    colour: str = 'red'

GenerateContentConfig
  Added. google-genai's. .generate() does not know these yet;
    .generate_content_config() takes a GenerateContentConfig that has them.
    mood
  Removed. google-genai's. Where .generate() was given one of these, building
    and running raise CompileError.
    seed

BasePlugin
  Added. Plugins of your own can have these; adk-fluent's have none of them.
    on_sleep_callback: (*, event: str) -> None
  Removed. ADK no longer calls these hooks of plugins.
    on_event_callback: (*, event: str) -> None
      adk-fluent itself uses it

Not compared, since it could not be read
  LoopAgent: google.adk.agents.loop_agent has no LoopAgent"""


def test_every_line_of_a_report() -> None:
    """Both versions and the verdict, then what differs class by class, then what could not be read."""
    assert text(made_up()) == REPORT


def test_nothing_changed_is_one_line() -> None:
    """A release with the same fields needs no more than a line, under its own version."""
    later = replace(reference(), adk_version="99.0.0")
    version = reference().adk_version
    assert text(diff(reference(), later)) == f"google-adk {version} to 99.0.0: nothing changed."


@pytest.mark.parametrize("old", stored_scans(), ids=lambda s: s.adk_version)
@pytest.mark.parametrize("new", stored_scans(), ids=lambda s: s.adk_version)
def test_the_report_fits_eighty_columns_and_leaves_nothing_out(old: Scan, new: Scan) -> None:
    """Between any two real releases each change has its line, and no line is wider than a terminal."""
    found = diff(old, new)
    lines = text(found).splitlines()
    assert [line for line in lines if len(line) > WIDTH] == []
    for change in found.changes:
        heading = next(n for n, line in enumerate(lines) if change.cls in line.split(", "))
        group = lines[heading + 1 :]
        group = group[: group.index("")] if "" in group else group
        assert any(line.strip().partition(":")[0].split()[0] == change.field for line in group)


def test_a_class_that_only_was_not_compared_is_no_silence() -> None:
    """What could not be read is part of the verdict, for it may have changed."""
    found = diff(reference(), replace(reference(), unavailable={"App": "no module named x"}))
    assert not found.is_empty
    first, *_, last = text(found).splitlines()
    assert first.endswith("0 differences, 1 class unread.")
    assert last == "  App: no module named x"


def test_json_has_what_the_text_says() -> None:
    """Machines are told the versions, the verdict, each change with its methods and advice, and the rest."""
    found = made_up()
    read = json.loads(document(found))
    assert (read["before"], read["after"], read["verdict"]) == ("1.0.0", "2.0.0", found.verdict)
    assert read["not_compared"] == dict(found.not_compared)
    told = {(c["class"], c["field"]): c for kind in KINDS for c in read[kind]}
    assert set(told) == {(c.cls, c.field) for c in found.changes}
    for change in found.changes:
        entry = told[change.cls, change.field]
        assert entry["advice"] == advice(change)
        assert tuple(entry["methods"]) == methods_of(change.cls, change.field)
    assert told["BasePlugin", "on_event_callback"]["set_by_adk_fluent"] is True
    assert told["RunConfig", "pace"]["set_by_adk_fluent"] is False


def test_json_is_sorted_and_the_same_for_another_order_of_classes() -> None:
    """The order in which ADK declares classes and fields does not reach the JSON."""
    found = made_up()
    turned = replace(found, changes=found.changes[::-1])
    assert document(turned) == document(found)
    read = json.loads(document(found))
    assert list(read) == sorted(read)


# --- what is said is true -------------------------------------------------------------------------


@pytest.mark.parametrize("adk_class", EXPRESSIONS)
def test_a_removed_field_is_refused_when_its_method_was_called(adk_class: str) -> None:
    """On an ADK without a field, building what its method was called on is a `CompileError`."""
    import google.adk.agents as agents

    have = set(getattr(agents, adk_class).model_fields)
    expression = {
        "Agent": Agent("a", "m"),
        "Pipeline": Pipeline(Agent("a", "m"), Agent("b", "m")),
        "FanOut": Agent("a", "m") | Agent("b", "m"),
        "Loop": Agent("a", "m") * 2,
    }[EXPRESSIONS[adk_class]]
    expression.build()
    values = {"mode": "chat", "state_schema": Odd, "timeout": 1.0}
    gone = [field.name for field in reference().classes[adk_class] if field.name not in have]
    refused = 0
    for field in gone:
        for method in methods_of(adk_class, field):
            called = getattr(expression, method.strip(".()"))(values.get(field, True))
            with pytest.raises(CompileError, match=f"no field '{field}'"):
                called.build()
            refused += 1
    assert refused == sum(len(methods_of(adk_class, field)) for field in gone)


def test_a_removed_option_is_refused_where_generate_was_given_it() -> None:
    """Options that the installed google-genai lacks are a `CompileError`; those it has go through."""
    from google.genai.types import GenerateContentConfig

    have = set(GenerateContentConfig.model_fields)
    assert Agent("a", "m").generate(seed=1).build().model_fields_set >= {"generate_content_config"}
    gone = {field.name for field in reference().classes["GenerateContentConfig"]} - have
    for option in gone:
        with pytest.raises(CompileError, match=f"no option '{option}'"):
            Agent("a", "m").generate(**{option: None}).build()


def tool() -> str:
    """Do something."""
    return ""


ARGUMENTS = {
    "sub_agents": Agent("b", "m"),
    "tools": tool,
    "context": C.user_only(),
    "reads": "key",
}


@pytest.mark.parametrize(("field", "method"), [(f, m) for f, names in FURTHER.items() for m in names])
def test_the_further_methods_set_the_field(field: str, method: str) -> None:
    """A method that a report names beside a field's own does set that field."""
    call = getattr(Agent("a", "m"), method)
    called = (
        call(temperature=0.5)
        if method == "generate"
        else call(*([ARGUMENTS[method]] if method in ARGUMENTS else []))
    )
    assert field in called.build().model_fields_set


def test_a_field_can_be_assigned_on_what_was_built() -> None:
    """What has no method is set on ADK's own objects: the agent of `build()`, the app of `to_app()`."""
    pipeline = Agent("a", "m") >> Agent("b", "m")
    built = pipeline.build()
    second = built.find_agent("b")
    assert isinstance(second, LlmAgent)
    second.disallow_transfer_to_peers = True
    app = pipeline.to_app()
    app.context_cache_config = None
    app.plugins.append(BasePlugin(name="mine"))
    assert App(name="letters", root_agent=built).root_agent is built
    assert [plugin.name for plugin in app.plugins][-1] == "mine"


def test_what_adk_fluent_sets_itself() -> None:
    """The fields that a report says adk-fluent uses are those it sets, where ADK has them."""
    from adk_fluent.backends.adk.running.backend import ADKBackend
    from adk_fluent.backends.adk.running.convert import run_config

    config = ExecutionConfig(
        compaction=CompactionConfig(token_threshold=5, event_retention_size=2),
        resumable=True,
        custom_metadata={"a": 1},
    )
    app = ADKBackend().compile(Agent("a", "gemini-2.5-flash").node, config).published()
    set_on = (app, app.resumability_config, app.events_compaction_config, run_config(config))
    found = {type(value): value.model_fields_set for value in set_on if value is not None}
    assert found == {cls: OWN[cls.__name__].intersection(cls.model_fields) for cls in found}
    assert {cls.__name__ for cls in found} == {*OWN} - {"BasePlugin"}


@pytest.mark.newest  # of the modules that hold them, one needs ADK 2.x
def test_the_hooks_that_our_plugins_have() -> None:
    """The hooks that a report says adk-fluent uses are those of the plugins in it."""
    path = adk_fluent.__path__
    for module in pkgutil.walk_packages([f"{path[0]}/backends"], "adk_fluent.backends."):
        import_module(module.name)
    plugins = [*BasePlugin.__subclasses__(), *AddedPlugin.__subclasses__()]
    ours = [cls for cls in plugins if cls.__module__.startswith("adk_fluent.")]
    hooks = {name for cls in ours for name in vars(cls) if name.endswith("_callback")}
    assert hooks == OWN["BasePlugin"]
