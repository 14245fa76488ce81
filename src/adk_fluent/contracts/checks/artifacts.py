"""Check that a step saves each artifact before another step reads it."""

from __future__ import annotations

from collections.abc import Iterator

from adk_fluent.analysis.artifact_flow import FileFlow, FileRead
from adk_fluent.analysis.facts import Facts, analyse
from adk_fluent.analysis.plan import Step, at_most_three
from adk_fluent.analysis.values.fact import ABSENT, PRESENT
from adk_fluent.contracts.issues import MissingArtifact, ParallelWriters
from adk_fluent.contracts.reasons import names_of
from adk_fluent.contracts.report import ContractIssue, Severity, check
from adk_fluent.ir.execution import InParallel
from adk_fluent.ir.keys import USER_SCOPE
from adk_fluent.spelling import Spelling


@check(place=205)
def check_artifacts(root: object) -> list[ContractIssue]:
    """Check that every artifact exists when a step reads it, as far as this is known before a run.

    An earlier run, an upload or a tool may have saved it. So an artifact that no step saves is only a note.
    """
    facts = analyse(root)
    flow = facts.artifacts
    noted: set[str] = set()
    found = [issue for read in flow.reads for issue in _about(read, flow, facts, noted)]
    return [*found, *_clashes(flow, facts)]


def _about(read: FileRead, flow: FileFlow, facts: Facts, noted: set[str]) -> Iterator[ContractIssue]:
    name, optional = read.use.filename, read.use.level == "optional"
    savers = [step for step in flow.savers.get(name, ()) if facts.reaches(step)]
    if read.mask == PRESENT:
        return
    if read.mask == ABSENT:
        if not optional:
            yield _finding(read, Severity.ERROR, _deleted(name, read.step, flow))
    elif savers:
        if read.use.level == "required":
            yield _finding(read, Severity.WARN, _perhaps(read, savers))
    elif like := _elsewhere(name, flow):
        yield _finding(read, Severity.WARN, like)
    elif not optional and not flow.anything and name not in noted:
        noted.add(name)
        yield _finding(
            read,
            Severity.INFO,
            f"Nothing here saves {name!r}. It must be there before: from an earlier run, an upload, a tool.",
        )


def _clashes(flow: FileFlow, facts: Facts) -> Iterator[ContractIssue]:
    """Report branches that run at the same time and save the same file."""
    for step in facts.steps if flow.savers else ():
        if isinstance(step.node.runs, InParallel) and facts.reaches(step):
            for name, savers in flow.savers.items():
                inside = [s for child in step.children if (s := _first_inside(child, savers)) is not None]
                if len(inside) > 1:
                    yield _clash(step, name, inside)


def _first_inside(outer: Step, steps: list[Step]) -> Step | None:
    return next((step for step in steps if outer.index <= step.index < outer.end), None)


def _clash(step: Step, name: str, savers: list[Step]) -> ContractIssue:
    return ParallelWriters(
        severity=Severity.WARN,
        agent=savers[-1].name,
        message=f"{names_of(savers)} save {name!r} at the same time",
        hint=f"They are branches of {step.name}: which version is the latest is up to chance.\n"
        "Give each file its own name.",
    )


def _finding(read: FileRead, severity: Severity, hint: str) -> ContractIssue:
    step, name = read.step, read.use.filename
    if step.node.asks:
        message = f"{step.name} reads artifact {name!r} in its message"
    elif step.node.speaks:
        message = f"{step.name} is shown artifact {name!r}"
    else:
        message = f"{step.name} reads artifact {name!r}"
    return MissingArtifact(severity=severity, agent=step.name, message=message, hint=hint)


def _deleted(name: str, step: Step, flow: FileFlow) -> str:
    by = names_of([other for other in flow.deleters.get(name, ()) if other is not step][:3])
    return f"{by or step.name} deletes {name!r} before {step.name} runs.\nRead it earlier, or save it again."


def _perhaps(read: FileRead, savers: list[Step]) -> str:
    name, step = read.use.filename, read.step
    by = names_of(savers[:3])
    if read.mask & PRESENT:
        return (
            f"{name!r} is saved by {by}, but not on every way to {step.name}.\n"
            "Save it on every way, or put the step that reads it behind the one that saves it."
        )
    return (
        f"{name!r} is saved by {by}, but not before {step.name} runs: the first run finds none.\n"
        f"Move {savers[0].name} in front of {step.name}."
    )


def _elsewhere(name: str, flow: FileFlow) -> str:
    """A hint at the name that was probably meant: the same one in the other scope, or a similar one."""
    other = name.removeprefix(USER_SCOPE) if name.startswith(USER_SCOPE) else USER_SCOPE + name
    if other in flow.savers:
        by = at_most_three([step.name for step in flow.savers[other]])
        return f"Nothing here saves {name!r}, but {by} saves {other!r}, another file.\nRead {other!r}?"
    spelling = Spelling(flow.savers)
    like = spelling.meant(name) or spelling.like(name)
    return f"Nothing here saves {name!r}. Did you mean {like!r}?" if like else ""
