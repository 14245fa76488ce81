"""The kinds of findings, one class each; `docs/reference/contracts.md` shows each with bad and good code."""

from __future__ import annotations

from adk_fluent.contracts.report import ContractIssue, issue


@issue
class UnresolvedTemplateVar(ContractIssue):
    """An instruction, or a gate's message, has a placeholder whose key is not, or may not be, in state."""

    code: str = "unresolved-template-var"


@issue
class RouteMissingKey(ContractIssue):
    """A route compares a key that is not, or may not be, in state."""

    code: str = "route-missing-key"


@issue
class ReadBeforeWrite(ContractIssue):
    """A step reads a key that is not, or may not be, in state when it runs."""

    code: str = "read-before-write"


@issue
class PlaceholderTypo(ContractIssue):
    """Something in braces is no placeholder, or never filled, and looks like a key that exists."""

    code: str = "placeholder-typo"


@issue
class LiteralPlaceholder(ContractIssue):
    """Something in braces is no placeholder, such as `{ticket.team}`, so the model gets it as it stands."""

    code: str = "literal-placeholder"


@issue
class ScopeMismatch(ContractIssue):
    """A key is read in one scope and written in another, such as `tier` and `user:tier`."""

    code: str = "scope-mismatch"


@issue
class TypeMismatch(ContractIssue):
    """A value has another type than its reader, or the schema, says."""

    code: str = "type-mismatch"


@issue
class SchemaViolation(ContractIssue):
    """A session key is written that the bound schema does not declare."""

    code: str = "schema-violation"


@issue
class UnmetConsumes(ContractIssue):
    """An agent consumes a field that nothing before it says it produces."""

    code: str = "unmet-consumes"


@issue
class ChannelDuplication(ContractIssue):
    """An agent gets the same text twice: through the conversation and through state."""

    code: str = "channel-duplication"


@issue
class DataLoss(ContractIssue):
    """What an agent says reaches its next reader neither through state nor through the conversation."""

    code: str = "data-loss"


@issue
class DeadState(ContractIssue):
    """A key is written that nothing reads."""

    code: str = "dead-state"


@issue
class UnknownAgent(ContractIssue):
    """A context names an agent that the tree does not have."""

    code: str = "unknown-agent"


@issue
class MisnamedAgent(ContractIssue):
    """An instruction tells a model to hand over to an agent that does not exist."""

    code: str = "misnamed-agent"


@issue
class UnknownAccess(ContractIssue):
    """What some functions read or write is not known, so some questions have no answer."""

    code: str = "unknown-access"


@issue
class StreamingRouteConflict(ContractIssue):
    """An answer is passed on token by token into a route, which needs the whole of it."""

    code: str = "streaming-route-conflict"


@issue
class StreamingModelConflict(ContractIssue):
    """An answer is passed on token by token into another model, which needs more than a token."""

    code: str = "streaming-model-conflict"


@issue
class StreamingEdgeWaits(ContractIssue):
    """An edge says that an answer goes on in pieces, and it cannot, or not while it is generated."""

    code: str = "streaming-edge-waits"


@issue
class StreamingSourceMissing(ContractIssue):
    """A step is to pass on or to take an answer in pieces, and nobody answers there."""

    code: str = "streaming-source-missing"


@issue
class ModalityMismatch(ContractIssue):
    """An agent produces a kind of content that the next one does not accept."""

    code: str = "modality-mismatch"


@issue
class ModalityLoss(ContractIssue):
    """A context spec turns content that is not text, such as an image, into text."""

    code: str = "modality-loss"


@issue
class BoundaryTempKey(ContractIssue):
    """A `temp:` key is read on the other side of an execution boundary."""

    code: str = "boundary-temp-key"


@issue
class BoundaryType(ContractIssue):
    """A value crosses an execution boundary that cannot be serialized as it says."""

    code: str = "boundary-type"


@issue
class BoundaryUncuttable(ContractIssue):
    """An execution boundary stands where a run cannot be cut."""

    code: str = "boundary-uncuttable"


@issue
class BoundaryUndeclared(ContractIssue):
    """A step behind an execution boundary does not say which keys it reads, so that all of them cross."""

    code: str = "boundary-undeclared"


@issue
class RemoteInputMissing(ContractIssue):
    """A remote agent's input has a field that is not sent along."""

    code: str = "remote-input-missing"


@issue
class MissingBudget(ContractIssue):
    """A model is chosen by a budget that nobody sets."""

    code: str = "missing-budget"


@issue
class BudgetWithoutFallback(ContractIssue):
    """When the budget is used up, calls are refused: there is no fallback model."""

    code: str = "budget-without-fallback"


@issue
class UnknownPrice(ContractIssue):
    """A model is chosen by price, or its calls are counted, and nobody knows what it costs."""

    code: str = "unknown-price"


@issue
class TokenLimit(ContractIssue):
    """A request is longer than its agent accepts, or than any of its models may get."""

    code: str = "token-limit"


@issue
class NobodyVisible(ContractIssue):
    """The user sees nothing of what the pipeline says."""

    code: str = "nobody-visible"


@issue
class BranchNotVisible(ContractIssue):
    """The user sees nothing when this branch runs."""

    code: str = "branch-not-visible"


@issue
class DuplicateName(ContractIssue):
    """Two different nodes have one name."""

    code: str = "duplicate-name"


@issue
class NestedTooDeep(ContractIssue):
    """Steps stand so deep inside each other that no run would get through."""

    code: str = "nested-too-deep"


@issue
class UnreachableBranch(ContractIssue):
    """A branch or step can never run."""

    code: str = "unreachable-branch"


@issue
class ParallelWriters(ContractIssue):
    """Two branches that run at the same time write one key."""

    code: str = "parallel-writers"


@issue
class RouteWithoutOtherwise(ContractIssue):
    """When no test of a route holds, nothing runs."""

    code: str = "route-without-otherwise"


@issue
class LoopRunsToLimit(ContractIssue):
    """A loop's `until` reads only keys that its body never writes, so only the limit, or nothing, ends it."""

    code: str = "loop-runs-to-limit"


@issue
class NotResumable(ContractIssue):
    """A gate or confirmation needs a run that can be resumed, and the configuration forbids it."""

    code: str = "not-resumable"


@issue
class PauseTempKey(ContractIssue):
    """A `temp:` key is read after the run may have stopped for a person, which it does not outlive."""

    code: str = "pause-temp-key"


@issue
class DuplicateTool(ContractIssue):
    """Two tools of an agent have one name, so that calls reach only one of them."""

    code: str = "duplicate-tool"


@issue
class UnknownTool(ContractIssue):
    """A `tool_approval` names a tool that no agent in its expression has."""

    code: str = "unknown-tool"


@issue
class GeminiTool(ContractIssue):
    """A tool that only Gemini runs stands beside a model of another provider."""

    code: str = "gemini-tool"


@issue
class UnnamedTool(ContractIssue):
    """A tool has no name that a model could call."""

    code: str = "unnamed-tool"


@issue
class MissingResource(ContractIssue):
    """A function takes what neither a model nor `.inject` gives it."""

    code: str = "missing-resource"


@issue
class SharedCache(ContractIssue):
    """A cache of a tool is for everybody, and the tool is given a resource of one session or run."""

    code: str = "shared-cache"


@issue
class UnusedResource(ContractIssue):
    """Something is injected, and no function takes it."""

    code: str = "unused-resource"


@issue
class ToolHistory(ContractIssue):
    """An agent with tools is not shown what the tools of an earlier one did."""

    code: str = "tool-history"


@issue
class MissingArtifact(ContractIssue):
    """An artifact is read that may not be there."""

    code: str = "missing-artifact"


@issue
class UnreadItem(ContractIssue):
    """Nothing that a map runs per item reads the item."""

    code: str = "unread-item"


@issue
class Overwritten(ContractIssue):
    """A key is written again before anybody has read it."""

    code: str = "overwritten"


@issue
class EmptyComposite(ContractIssue):
    """A pipeline, fan-out, loop or route has nothing to run."""

    code: str = "empty-composite"


@issue
class EndlessTransfer(ContractIssue):
    """An unconditional transfer always leads back to itself."""

    code: str = "endless-transfer"


@issue
class InvalidName(ContractIssue):
    """A name that ADK refuses."""

    code: str = "invalid-name"


@issue
class InvalidOption(ContractIssue):
    """An option of an agent that ADK refuses, or wants said in another place."""

    code: str = "invalid-option"


@issue
class ContextConflict(ContractIssue):
    """An agent is told to show the whole conversation and only a part of it."""

    code: str = "context-conflict"


@issue
class Unsupported(ContractIssue):
    """Something that the backend cannot run yet, so that building refuses it."""

    code: str = "unsupported"


@issue
class MixedOperators(ContractIssue):
    """`|` and `>>` stand beside each other without parentheses, and `>>` binds tighter."""

    code: str = "mixed-operators"


@issue
class NoInstruction(ContractIssue):
    """Nothing tells the model of an agent what to do."""

    code: str = "no-instruction"


@issue
class UndescribedTool(ContractIssue):
    """A function that is a tool has no docstring, or a parameter without a type."""

    code: str = "undescribed-tool"


@issue
class FormattedKey(ContractIssue):
    """An instruction has the name of a key, which a constant holds, where its value was meant."""

    code: str = "formatted-key"
