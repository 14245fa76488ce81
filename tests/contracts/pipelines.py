"""Random pipelines whose every state key and every sentence can be followed while they run."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any, Literal

from google.adk.artifacts import InMemoryArtifactService
from google.adk.models.llm_request import LlmRequest
from google.adk.sessions import InMemorySessionService
from google.adk.tools.exit_loop_tool import exit_loop
from google.genai import types
from pydantic import BaseModel

from adk_fluent import A, Agent, C, FanOut, Loop, P, Pipeline, Route, S, gate, map_over, race, tap, transfer
from adk_fluent.context.selection import OPERATIONS
from adk_fluent.context.spec import Context
from adk_fluent.errors import DuplicateNameError
from adk_fluent.expr.artifacts import ArtifactStep
from adk_fluent.expr.base import Expr
from adk_fluent.expr.transforms import Transform
from adk_fluent.ir import ArtifactNode, TransferNode, TransformNode, declares, resolve_names, rewrite, walk
from adk_fluent.ir.state_keys import is_session_scoped
from adk_fluent.state import StateSchema
from adk_fluent.testing import call_tool
from tests.artifacts import operations as artifacts
from tests.state.operations import Sampler, food

KEYS = ("k0", "k1", "k2", "k3", "user:u", "temp:t")
FILES = ("f0.md", "f1.md", "user:f.md")
SESSION_KEYS = tuple(key for key in KEYS if is_session_scoped(key))
VALUES = ("v0", "v1")
TRANSFER = "transfer_to_agent"
About = Literal["all", "talk", "files"]
Build = Callable[["Maker", int], Expr[Any]]


class Failure(RuntimeError):
    """The error of a scripted model whose branch is to fail."""


@dataclass
class Seen:
    """The observations of the probes in a run.

    Attributes:
        probes: probe → the keys that were there each time it ran, with their values.
        files: probe → the artifacts that were there each time it ran.
        service: where those are kept.
    """

    probes: dict[str, list[dict[str, Any]]] = field(default_factory=dict[str, "list[dict[str, Any]]"])
    files: dict[str, list[set[str]]] = field(default_factory=dict[str, "list[set[str]]"])
    service: InMemoryArtifactService = field(default_factory=InMemoryArtifactService)


@dataclass(frozen=True)
class Sample:
    """A pipeline with the answers of its models and the state it starts from.

    Attributes:
        runs: how many runs of its session have begun; answers say in which they were given.
        sessions: where its session is kept.
    """

    expression: Expr[Any]
    responses: Mapping[str, Any]
    state: Mapping[str, Any]
    seen: Seen
    runs: list[int]
    sessions: InMemorySessionService


class Answer(BaseModel):
    """The answer of a typed agent."""

    text: str


class Fields(StateSchema):
    """Fields that an agent may write; one of them holds its text."""

    k0: str
    k1: Literal["v0", "v1"]
    k2: list[str] | None
    k3: bool


@dataclass(frozen=True)
class Say:
    """The model answers, as JSON if it is typed."""

    value: str
    typed: bool = False


@dataclass(frozen=True)
class Fill:
    """The model answers with fields, beside its words."""

    values: Mapping[str, Any]


@dataclass(frozen=True)
class Use:
    """The model calls its tool, which says so."""


@dataclass(frozen=True)
class Hand:
    """The model hands over to another agent; `aside`, it says something beside."""

    to: str
    aside: bool


@dataclass(frozen=True)
class Leave:
    """The model leaves the loop."""


Act = Say | Fill | Use | Hand | Leave | Failure


@dataclass
class Maker:
    """Makes parts of one pipeline.

    Attributes:
        about: what most of it is: of everything some; agents, which write, and have tools, more often; or
            operations on artifacts.
    """

    random: Random
    seen: Seen = field(default_factory=Seen)
    acts: dict[str, list[Act]] = field(default_factory=dict[str, "list[Act]"])
    made: list[Expr[Any]] = field(default_factory=list["Expr[Any]"])
    may_fail: bool = False
    in_loop: bool = False
    count: int = 0
    about: About = "all"

    def name(self, kind: str) -> str:
        self.count += 1
        return f"{kind}{self.count}"

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def key(self, keys: tuple[str, ...] = KEYS) -> str:
        return self.random.choice(keys)

    # --- steps ------------------------------------------------------------------------------------

    def agent(self, depth: int = 0) -> Expr[Any]:
        made: Any = self.speaker()
        if all(isinstance(act, Say) for act in self.acts[made.name]):
            if self.chance(0.1):
                made = made.returns(Answer)
                self.acts[made.name] = [Say(VALUES[0], typed=True)]
            elif self.chance(0.15):
                made = self.filling(made)
            elif self.chance(0.8 if self.about == "talk" else 0.3):
                made = made.tool(tool_of(made.name))
                self.acts[made.name] = [Use(), *self.answers()]
        return made

    def filling(self, made: Any) -> Any:
        """An agent that writes fields."""
        values: dict[str, Any] = {
            "k1": self.random.choice(VALUES),
            "k2": self.random.choice((None, ["v0"])),
            "k3": self.random.choice((True, False)),
        }
        chosen = self.random.sample(sorted(values), self.random.randint(1, 3))
        self.acts[made.name] = [Fill({key: values[key] for key in chosen})]
        return made.writes(Fields.k0, *(Fields.fields()[key] for key in chosen))

    def speaker(self) -> Expr[Any]:
        name = self.name("a")
        made = Agent(name)
        if self.chance(0.8):
            marks = ["" if self.chance(0.1) else "?" for _ in range(self.random.randint(0, 2))]
            made = made.instruct(" ".join(["Go on.", *(f"{{{self.key()}{mark}}}" for mark in marks)]))
        elif self.chance(0.5):
            made = made.instruct(P.task("Go on.") + P.from_state(self.key()) + P.when(self.key(), _MORE))
        if self.chance(0.4):
            made = made.context(self.context())
        elif self.chance(0.05):
            made = made.include_contents("none")
        if self.chance(0.9 if self.about == "talk" else 0.6):
            made = made.writes(self.key())
        self.acts[name] = self.answers()
        if self.may_fail and self.chance(0.35):
            self.acts[name] = [Failure(name)]
        elif self.in_loop and self.chance(0.1):
            made = made.tool(exit_loop)
            self.acts[name] = [*self.answers()[:1], Leave()]
        return made

    def answers(self) -> list[Act]:
        return [Say(self.random.choice(VALUES)) for _ in range(2)]

    def others(self) -> list[str]:
        """One or two of the agents there are so far."""
        known = list(self.acts) or ["nobody"]
        return self.random.sample(known, min(len(known), 2))

    def context(self) -> Context:
        if self.chance(0.5):
            return self.composed()
        names = self.others()
        specs = [
            C.none(),
            C.user_only(),
            C.default(),
            C.from_agents(*names),
            C.exclude_agents(*names),
            C.window(self.random.randint(1, 3)),
            C.from_agents(names[0]).as_contents(),
            C.exclude_agents(names[0]).as_contents(),
            C.from_agents(names[0]) + C.none(),
            C.window(2) | C.exclude_agents(names[0]),
            C.when(self.predicate(), C.none()),
            C.compact(),
            C.from_state(self.key()),
            C.from_state(self.key()) + C.exclude_agents(names[0]),
            C.template(f"<{{{self.key()}?}}>"),
            C.default() + C.from_state(self.key()),
            C.user() + C.notes(self.key()),
            C.write_notes(self.key()),
            C.from_agents(*names) | C.summarize(),
            C.exclude_agents(names[0]) | C.distill(into=self.key()),
            C.from_agents_windowed(**{names[0]: 1}),
            C.window(1).as_contents(),
        ]
        return self.random.choice(specs)

    def composed(self) -> Context:
        """Any operation, alone or with others."""
        made = self.operation()
        if self.chance(0.3):
            made = made | self.operation() if self.chance(0.5) else made + self.operation()
        return made.as_contents() if self.chance(0.2) else made

    def operation(self) -> Context:
        name = self.random.choice([name for name in OPERATIONS if name not in ("sum", "pipe")])
        return _CONTEXTS[name](self)

    def probe(self, depth: int = 0) -> Expr[Any]:
        name = self.name("p")
        notes = self.seen.probes.setdefault(name, [])
        files = self.seen.files.setdefault(name, [])

        @declares(reads=KEYS)
        def look(state: Mapping[str, Any]) -> None:
            notes.append({key: state[key] for key in KEYS if key in state})
            files.append({path.rpartition("/")[2] for path in self.seen.service.artifacts})

        return tap(look).named(name)

    def transform(self, depth: int = 0) -> Expr[Any]:
        return self.random.choice(_TRANSFORMS)(self)

    def function(self, depth: int = 0) -> Expr[Any]:
        key = self.key()
        other = self.key()
        if self.chance(0.4):
            return S.fn(lambda state: {key: "v0"}, writes=[key])
        if self.chance(0.7):
            return S.fn(lambda state: {key: [state.get(other)]}, reads=[other], writes=[key])
        return Pipeline(lambda state: {key: f"v1 {state.get(other)}"})

    def artifact(self, depth: int = 0) -> Expr[Any]:
        """An operation on artifacts of any kind, mostly with what it needs."""
        if self.chance(0.15):
            return A.delete(self.random.choice(FILES)) >> self.probe()
        made = artifacts.Sampler(self.random, KEYS, files=FILES).any()
        step: Expr[Any] = ArtifactStep.from_node(ArtifactNode(operation=made))
        for use in made.artifacts:
            if use.how == "reads" and use.level == "required" and self.chance(0.7):
                step = A.save(use.filename, "v0 text") >> step
        needed = artifacts.food(made)
        return S.set(**needed) >> step if needed and self.chance(0.8) else step

    def waiting(self, depth: int = 0) -> Expr[Any]:
        return gate(declares(reads=[self.key()])(lambda state: False))

    def capture(self, depth: int = 0) -> Expr[Any]:
        return S.capture(self.key()) if self.chance(0.6) else C.capture_turns(self.key(), n=2)

    def over(self, depth: int = 0) -> Expr[Any]:
        target = transfer("later", condition=self.predicate()) if self.chance(0.8) else transfer("later")
        return target

    def predicate(self) -> Callable[[Mapping[str, Any]], bool]:
        key, wanted = self.key(), self.chance(0.5)
        return declares(reads=[key])(lambda state: (key in state) is wanted)

    # --- composites -------------------------------------------------------------------------------

    def sequence(self, depth: int) -> Expr[Any]:
        return Pipeline(*(self.part(depth - 1) for _ in range(self.random.randint(2, 4))))

    def parallel(self, depth: int) -> Expr[Any]:
        return FanOut(*(self.part(depth - 1) for _ in range(self.random.randint(2, 3))))

    def racing(self, depth: int) -> Expr[Any]:
        return race(*self.failing(depth))

    def fallback(self, depth: int) -> Expr[Any]:
        first, second = self.failing(depth)
        return first // second

    def failing(self, depth: int) -> tuple[Expr[Any], Expr[Any]]:
        """Two branches, of which the first may fail."""
        before, self.may_fail = self.may_fail, True
        first = self.part(depth - 1)
        self.may_fail = before
        return first, self.part(depth - 1)

    def loop(self, depth: int) -> Expr[Any]:
        before, self.in_loop = self.in_loop, True
        made = Loop(self.part(depth - 1), self.part(depth - 1), max_iterations=self.random.randint(1, 3))
        self.in_loop = before
        return made.until(self.predicate()) if self.chance(0.5) else made

    def route(self, depth: int) -> Expr[Any]:
        made: Any = Route(self.key())
        for value in VALUES[: self.random.randint(1, 2)]:
            test = self.random.choice((made.contains, made.contains, made.ne, made.eq))
            made = test(value, self.part(depth - 1))
        if self.chance(0.3):
            made = made.when(self.predicate(), self.part(depth - 1))
        return made.otherwise(self.part(depth - 1)) if self.chance(0.5) else made

    def items(self, depth: int) -> Expr[Any]:
        count = self.random.randint(0, 2)
        body = self.part(depth - 1)
        item_key, output_key = self.random.sample(SESSION_KEYS, 2)
        over = map_over("items", body, item_key=item_key, output_key=output_key)
        return S.set(items=[f"i{n}" for n in range(count)]) >> over

    def limited(self, depth: int) -> Expr[Any]:
        return self.part(depth - 1).timeout(60)

    def skipped(self, depth: int) -> Expr[Any]:
        return self.part(depth - 1).proceed_if(self.predicate())

    def delegating(self, depth: int) -> Expr[Any]:
        children: list[Any] = [self.speaker(), self.speaker()]
        parent: Any = self.speaker()
        if self.chance(0.7):
            chosen, other = self.random.sample(children, 2)
            self.hands(parent, chosen)
            if self.chance(0.6):
                self.hands(chosen, self.random.choice([other, parent]))
                if self.chance(0.3):
                    self.hands(other, parent)
        return parent.delegate(*children)

    def hands(self, agent: Expr[Any], to: Expr[Any]) -> None:
        """Let an agent hand over when it is first asked."""
        self.acts[agent.name] = [Hand(to.name, self.chance(0.5)), *self.answers()]

    def again(self, depth: int) -> Expr[Any]:
        """Something that stands in the pipeline already; no delegation, where ADK goes by names."""
        copies = [
            part for part in self.made if not any(n.kind == "agent" and n.children for n in walk(part.node))
        ]
        return self.random.choice(copies) if copies else self.probe()

    def part(self, depth: int) -> Expr[Any]:
        leaves = _MOSTLY.get(self.about, _LEAVES)
        composites = _COMPOSITES if self.about == "all" else _COMPOSITES[:-1]
        kinds, weights = zip(*(leaves if depth <= 0 else leaves + composites), strict=True)
        build: Build = self.random.choices(kinds, weights)[0]
        made = build(self, depth)
        self.made.append(made)
        return made


_LEAVES: list[tuple[Build, float]] = [
    (Maker.agent, 4),
    (Maker.probe, 4),
    (Maker.transform, 5),
    (Maker.function, 0.7),
    (Maker.artifact, 0.7),
    (Maker.waiting, 0.2),
    (Maker.capture, 0.4),
    (Maker.over, 0.4),
    (Maker.again, 0.4),
]
_TALKERS: list[tuple[Build, float]] = [(Maker.agent, 9), (Maker.probe, 0.6), (Maker.transform, 0.4)]
_FILING: list[tuple[Build, float]] = [(Maker.artifact, 8), (Maker.probe, 5), (Maker.agent, 0.7)]
_MOSTLY = {"talk": _TALKERS, "files": _FILING}
_COMPOSITES: list[tuple[Build, float]] = [
    (Maker.sequence, 5),
    (Maker.parallel, 2),
    (Maker.racing, 1.2),
    (Maker.fallback, 1.5),
    (Maker.loop, 2),
    (Maker.route, 2.5),
    (Maker.items, 1.2),
    (Maker.limited, 0.3),
    (Maker.skipped, 1),
    (Maker.delegating, 0.8),
]


def _operation(maker: Maker) -> Expr[Any]:
    """An operation of any kind, each as often, mostly on values that it takes."""
    made = Sampler(maker.random, KEYS).any()
    step = Transform.from_node(TransformNode(fn=made))
    needed = food(made, maker.random)
    return S.set(**needed) >> step if needed and maker.chance(0.7) else step


def _set(maker: Maker) -> Expr[Any]:
    return S.set(**{maker.key(): maker.random.choice(VALUES)})


def _rename(maker: Maker) -> Transform:
    first, second = maker.random.sample(SESSION_KEYS, 2)
    return S.rename(**{first: second, **({second: first} if maker.chance(0.2) else {})})


def _replacing(maker: Maker) -> Expr[Any]:
    """A writer of two keys together with an operation that removes keys, perhaps the same ones."""
    keys = maker.random.sample(SESSION_KEYS, 2)
    other: Any = maker.random.choice((S.pick, S.drop))(maker.key(SESSION_KEYS))
    return S.set(**dict.fromkeys(keys, "v1")) + (_rename(maker) if maker.chance(0.3) else other)


def _flat(maker: Maker) -> Expr[Any]:
    key = maker.key(SESSION_KEYS)
    flat = S.set(**{key: {"x": 1, "y": {"z": 2}}}) >> S.flatten(key)
    return flat >> S.unflatten() if maker.chance(0.4) else flat


_CONTEXTS: Mapping[str, Callable[[Maker], Context]] = {
    "default": lambda m: C.default(),
    "none": lambda m: C.none(),
    "user_only": lambda m: C.user_only(),
    "user": lambda m: C.user(m.random.choice(("all", "first", "last", "bookend"))),
    "from_agents": lambda m: C.from_agents(*m.others()),
    "exclude_agents": lambda m: C.exclude_agents(*m.others()),
    "window": lambda m: C.window(m.random.randint(1, 2)),
    "from_agents_windowed": lambda m: C.from_agents_windowed(**dict.fromkeys(m.others(), 1)),
    "select": lambda m: C.select(
        author=m.random.choice((None, "user", *m.others())), type=m.random.choice((None, "text"))
    ),
    "from_state": lambda m: C.from_state(m.key()),
    "notes": lambda m: C.notes(m.key()),
    "template": lambda m: C.template(f"<{{{m.key()}{'?' if m.chance(0.9) else ''}}}>"),
    "recent": lambda m: C.recent(half_life=1, min_weight=m.random.choice((0.4, 0.9))),
    "fresh": lambda m: C.fresh(m.random.choice((1e-9, 9999))),
    "compact": lambda m: C.compact(),
    "dedup": lambda m: C.dedup(m.random.choice(("exact", "normalized", "semantic"))),
    "project": lambda m: C.project(m.random.choice(("text", "files", "function_calls"))),
    "priority": lambda m: C.priority(1),
    "truncate": lambda m: C.truncate(max_turns=m.random.randint(1, 2), max_tokens=m.random.choice((9, 99))),
    "fit": lambda m: C.fit(m.random.choice((9, 99))),
    "redact": lambda m: C.redact(m.random.choice(("spoke", "user", *m.others())), replacement=""),
    "summarize": lambda m: C.summarize(scope=m.random.choice(("all", "earlier", "tools"))),
    "rolling": lambda m: C.rolling(1, summarize=m.chance(0.7)),
    "manus_cascade": lambda m: C.manus_cascade(m.random.choice((20, 99))),
    "budget": lambda m: C.budget(20, m.random.choice(("truncate_oldest", "error", "summarize"))),
    "relevant": lambda m: C.relevant(top_k=1, query_key=m.random.choice((None, m.key()))),
    "extract": lambda m: C.extract(Answer, into=m.key()),
    "distill": lambda m: C.distill(into=m.key()),
    "write_notes": lambda m: C.write_notes(m.key(), m.random.choice(("append", "replace"))),
    "for_llm": lambda m: A.for_llm(m.random.choice(FILES)),
    "validate": lambda m: C.validate(m.random.choice((is_long, is_anything))),
    "when": lambda m: C.when(m.random.choice((m.key(), m.predicate())), m.operation()),
}
"""Each operation of `C`, with parameters at random."""


def is_long(text: str) -> bool:
    """A check of a context that some pass."""
    return len(text) > 40


def is_anything(text: str) -> bool:
    """A check of a context that all pass."""
    return True


_TRANSFORMS = (*[_operation] * 6, _set, _set, _rename, _replacing, _flat)


_MORE = P.section("more", "More.")


def tool_of(name: str) -> Callable[[], Awaitable[str]]:
    """A tool that an agent may call, whose result can be recognized; async, so that runs repeat exactly."""

    async def use() -> str:
        """Does something."""
        return used(name)

    use.__name__ = f"use_{name}"
    return use


def used(name: str) -> str:
    """The result of an agent's tool."""
    return f"<the tool of {name} was used>"


def said(name: str, run: int = 1) -> str:
    """The words by which what an agent, or the user, says in a run is recognized."""
    return f"<{name} spoke in {run}>"


def sample(seed: int, about: About = "all") -> Sample:
    """The pipeline of a seed; the same for the same seed.

    Args:
        about: what most of it is.
    """
    maker = Maker(Random(seed), about=about)
    parts = [maker.part(2) for _ in range(maker.random.randint(1, 3))]
    whole = Pipeline(*parts, maker.agent(), maker.probe())
    agents = [node.name for node in walk(whole.node) if node.kind == "agent"]
    target = maker.random.choice(agents)

    def aim(node: Any) -> Any:
        return node.replace(target=target) if isinstance(node, TransferNode) else node

    state = {key: "v0" for key in KEYS if maker.chance(0.15)}
    expression = Pipeline[Any].from_node(rewrite(whole.node, aim))
    runs = [0]
    return Sample(
        expression, responses(maker, expression, runs), state, maker.seen, runs, InMemorySessionService()
    )


def responses(maker: Maker, expression: Expr[Any], runs: list[int]) -> dict[str, Any]:
    """The scripted answers of each agent; each copy of an agent has its own text."""
    try:
        origins = resolve_names(expression.node).origins
    except DuplicateNameError:
        origins = {}
    found: dict[str, Any] = {}
    for name in maker.acts:
        for operation in OPERATIONS:
            found[f"{name}:{operation}"] = everything_asked
        found[f"{name}:extract"] = all_of_it
    for name, origin in {**{name: name for name in maker.acts}, **origins}.items():
        if origin in maker.acts:
            found[name] = [response(act, name, origin, runs) for act in maker.acts[origin]]
    return found


def response(act: Act, name: str, origin: str, runs: list[int]) -> Any:
    """One response of a scripted model."""
    match act:
        case Say(value, typed):

            def answer(request: LlmRequest) -> Any:
                words = said(name, runs[0])
                return {"text": words} if typed else f"{value} {words}"

            return answer
        case Fill(values):

            def fill(request: LlmRequest) -> Any:
                return {"k0": said(name, runs[0]), **values}

            return fill
        case Use():
            return call_tool(f"use_{origin}")
        case Hand(to, aside):

            def hand_over(request: LlmRequest) -> types.Content:
                call = types.Part(function_call=types.FunctionCall(name=TRANSFER, args={"agent_name": to}))
                words = [types.Part(text=said(name, runs[0]))] if aside else []
                return types.Content(role="model", parts=[*words, call])

            return hand_over
        case Leave():
            return call_tool("exit_loop")
        case Failure():
            return act


def all_of_it(request: LlmRequest) -> dict[str, str]:
    """The same, as data."""
    return {"text": everything_asked(request)}


def everything_asked(request: LlmRequest) -> str:
    """The answer of a helper model that hides nothing."""
    parts = [part.text or "" for content in request.contents for part in content.parts or ()]
    return "\n".join(parts)
