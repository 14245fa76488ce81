"""Random pipelines whose every state key and every sentence can be followed while they run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any

from adk_fluent import Agent, C, FanOut, Loop, Pipeline, Route, S, gate, map_over, race, tap, transfer
from adk_fluent.context.spec import Context
from adk_fluent.expr.base import Expr
from adk_fluent.ir import Match, TransferNode, declares, rewrite, walk
from adk_fluent.state.delta import is_session_scoped
from adk_fluent.testing import call_tool

KEYS = ("k0", "k1", "k2", "k3", "user:u", "temp:t")
SESSION_KEYS = tuple(key for key in KEYS if is_session_scoped(key))
VALUES = ("v0", "v1")
TRANSFER = "transfer_to_agent"
Build = Callable[["Maker", int], Expr[Any]]


class Failure(RuntimeError):
    """What a scripted model raises when its branch is to fail."""


@dataclass
class Seen:
    """What the probes of one run saw: probe → for each time it ran, which keys were there."""

    probes: dict[str, list[frozenset[str]]] = field(default_factory=dict[str, "list[frozenset[str]]"])


@dataclass(frozen=True)
class Sample:
    """A pipeline with the answers of its models and the state it starts from."""

    expression: Expr[Any]
    responses: Mapping[str, Any]
    state: Mapping[str, Any]
    seen: Seen


@dataclass
class Maker:
    """Makes parts of one pipeline."""

    random: Random
    seen: Seen = field(default_factory=Seen)
    responses: dict[str, Any] = field(default_factory=dict[str, Any])
    made: list[Expr[Any]] = field(default_factory=list["Expr[Any]"])
    may_fail: bool = False
    count: int = 0

    def name(self, kind: str) -> str:
        self.count += 1
        return f"{kind}{self.count}"

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def key(self, keys: tuple[str, ...] = KEYS) -> str:
        return self.random.choice(keys)

    # --- steps ------------------------------------------------------------------------------------

    def agent(self, depth: int = 0) -> Expr[Any]:
        name = self.name("a")
        made = Agent(name)
        if self.chance(0.3):
            made = made.instruct("Go on.").context(self.context())
        else:
            marks = ["" if self.chance(0.15) else "?" for _ in range(self.random.randint(0, 2))]
            made = made.instruct(" ".join(["Go on.", *(f"{{{self.key()}{mark}}}" for mark in marks)]))
        if self.chance(0.6):
            made = made.writes(self.key())
        if self.may_fail and self.chance(0.35):
            self.responses[name] = Failure(name)
        else:
            self.responses[name] = [f"{self.random.choice(VALUES)} {said(name)}" for _ in range(2)]
        return made

    def context(self) -> Context:
        """A context spec without state, so that whose words a request holds is clear."""
        known = list(self.responses) or ["nobody"]
        names = self.random.sample(known, min(len(known), 2))
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
        ]
        return self.random.choice(specs)

    def probe(self, depth: int = 0) -> Expr[Any]:
        name = self.name("p")
        notes = self.seen.probes.setdefault(name, [])

        @declares(reads=KEYS)
        def look(state: Mapping[str, Any]) -> None:
            notes.append(frozenset(key for key in KEYS if key in state))

        return tap(look).named(name)

    def transform(self, depth: int = 0) -> Expr[Any]:
        return self.random.choice(_TRANSFORMS)(self)

    def function(self, depth: int = 0) -> Expr[Any]:
        key = self.key()
        if self.chance(0.7):
            return S.fn(lambda state: {key: "v0"}, writes=[key])
        return Pipeline(lambda state: {key: "v1"})

    def waiting(self, depth: int = 0) -> Expr[Any]:
        return gate(declares(reads=[self.key()])(lambda state: False))

    def capture(self, depth: int = 0) -> Expr[Any]:
        return S.capture(self.key())

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
        made = Loop(self.part(depth - 1), self.part(depth - 1), max_iterations=self.random.randint(1, 3))
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
        children: list[Any] = [self.agent(), self.agent()]
        parent: Any = self.agent()
        if self.chance(0.6):
            chosen = self.random.choice(children)
            self.responses[parent.name] = call_tool(TRANSFER, agent_name=chosen.name)
            if self.chance(0.3):
                other = next(child for child in children if child is not chosen)
                self.responses[chosen.name] = call_tool(TRANSFER, agent_name=other.name)
        return parent.delegate(*children)

    def again(self, depth: int) -> Expr[Any]:
        """Something that stands in the pipeline already; no delegation, where ADK goes by names."""
        copies = [
            part for part in self.made if not any(n.kind == "agent" and n.children for n in walk(part.node))
        ]
        return self.random.choice(copies) if copies else self.probe()

    def part(self, depth: int) -> Expr[Any]:
        kinds, weights = zip(*(_LEAVES if depth <= 0 else _LEAVES + _COMPOSITES), strict=True)
        build: Build = self.random.choices(kinds, weights)[0]
        made = build(self, depth)
        self.made.append(made)
        return made


_LEAVES: list[tuple[Build, float]] = [
    (Maker.agent, 4),
    (Maker.probe, 4),
    (Maker.transform, 5),
    (Maker.function, 0.7),
    (Maker.waiting, 0.2),
    (Maker.capture, 0.4),
    (Maker.over, 0.4),
    (Maker.again, 0.4),
]
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


def _two(maker: Maker) -> tuple[str, str]:
    first, second = maker.random.sample(SESSION_KEYS, 2)
    return first, second


def _set(maker: Maker) -> Expr[Any]:
    return S.set(**{maker.key(): maker.random.choice(VALUES)})


def _default(maker: Maker) -> Expr[Any]:
    return S.default(**{maker.key(): "v0"})


def _pick(maker: Maker) -> Expr[Any]:
    return S.pick(*_two(maker))


def _drop(maker: Maker) -> Expr[Any]:
    return S.drop(maker.key())


def _rename(maker: Maker) -> Expr[Any]:
    first, second = _two(maker)
    return S.rename(**{first: second, **({second: first} if maker.chance(0.2) else {})})


def _merge(maker: Maker) -> Expr[Any]:
    return S.merge(*_two(maker), into=maker.key())


def _compute(maker: Maker) -> Expr[Any]:
    return S.compute(**{maker.key(): declares(reads=[])(_second)})


def _second(state: Mapping[str, Any]) -> str:
    return VALUES[1]


def _accumulate(maker: Maker) -> Expr[Any]:
    return S.accumulate(maker.key(), into="list")


def _history(maker: Maker) -> Expr[Any]:
    return S.history(maker.key())


def _when(maker: Maker) -> Expr[Any]:
    key = maker.key()
    test: Any = key if maker.chance(0.5) else maker.predicate()
    return S.when(test, maker.random.choice(_PLAIN)(maker))


def _branch(maker: Maker) -> Expr[Any]:
    plain = [maker.random.choice(_PLAIN)(maker) for _ in VALUES]
    return S.branch(maker.key(), **dict(zip(VALUES, plain, strict=True)))


def _chain(maker: Maker) -> Expr[Any]:
    first, second = _two(maker)
    return S.when(maker.predicate(), S.set(**{first: "v0"}) >> S.rename(**{first: second}))


def _together(maker: Maker) -> Expr[Any]:
    first, second = _two(maker)
    other: Any = maker.random.choice((_pick, _drop, _rename))(maker)
    return S.set(**{first: "v1", second: "v0"}) + other


def _flat(maker: Maker) -> Expr[Any]:
    key = maker.key(SESSION_KEYS)
    flat = S.set(**{key: {"x": 1, "y": {"z": 2}}}) >> S.flatten(key)
    return flat >> S.unflatten() if maker.chance(0.4) else flat


def _check(maker: Maker) -> Expr[Any]:
    key = maker.key()
    return S.require(key) if maker.chance(0.5) else S.guard(Match(key, "truthy", True), "stop")


def _fail_without(maker: Maker) -> Expr[Any]:
    return S.transform(maker.key(), lambda value: value)


_PLAIN = (_set, _default, _drop, _rename, _merge, _compute)
_TRANSFORMS = (
    *_PLAIN, _set, _set, _pick, _when, _branch, _chain, _together, _flat, _accumulate, _history, _check,
    _fail_without,
)  # fmt: skip


def said(name: str) -> str:
    """The words by which an agent's answer is recognized."""
    return f"<{name} spoke>"


def sample(seed: int) -> Sample:
    """The pipeline of a seed; the same for the same seed."""
    maker = Maker(Random(seed))
    parts = [maker.part(2) for _ in range(maker.random.randint(1, 3))]
    whole = Pipeline(*parts, maker.agent(), maker.probe())
    agents = [node.name for node in walk(whole.node) if node.kind == "agent"]
    target = maker.random.choice(agents)

    def aim(node: Any) -> Any:
        return node.replace(target=target) if isinstance(node, TransferNode) else node

    state = {key: "v0" for key in KEYS if maker.chance(0.15)}
    return Sample(Pipeline[Any].from_node(rewrite(whole.node, aim)), maker.responses, state, maker.seen)
