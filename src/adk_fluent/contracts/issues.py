"""The kinds of findings, one class each; `docs/reference/contracts.md` shows bad and good code for each."""

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
    """Text in braces resembles a key that exists, but is no placeholder or is never filled."""

    code: str = "placeholder-typo"


@issue
class LiteralPlaceholder(ContractIssue):
    """Text in braces is no placeholder, such as `{ticket.team}`, so the model gets it with the braces."""

    code: str = "literal-placeholder"


@issue
class ScopeMismatch(ContractIssue):
    """A key is read in one scope and written in another, such as `tier` and `user:tier`."""

    code: str = "scope-mismatch"


@issue
class TypeMismatch(ContractIssue):
    """A value has another type than its reader or the schema declares."""

    code: str = "type-mismatch"


@issue
class SchemaViolation(ContractIssue):
    """A step writes a session key that the bound schema does not declare."""

    code: str = "schema-violation"


@issue
class UnmetConsumes(ContractIssue):
    """An agent consumes a field that no earlier agent declares by `.produces()`."""

    code: str = "unmet-consumes"


@issue
class ChannelDuplication(ContractIssue):
    """An agent gets the same text twice: from the conversation and from the state."""

    code: str = "channel-duplication"


@issue
class DataLoss(ContractIssue):
    """An agent's answer reaches the next reader neither through the state nor through the conversation."""

    code: str = "data-loss"


@issue
class DeadState(ContractIssue):
    """A step writes a key that no step reads."""

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
    """The check does not know which keys some functions read or write, so it cannot judge those keys."""

    code: str = "unknown-access"


@issue
class StreamingRouteConflict(ContractIssue):
    """An answer is streamed into a route, which needs the whole answer."""

    code: str = "streaming-route-conflict"


@issue
class StreamingModelConflict(ContractIssue):
    """An answer is streamed token by token into another model, which needs more than a token."""

    code: str = "streaming-model-conflict"


@issue
class StreamingEdgeWaits(ContractIssue):
    """An edge asks for streaming, but the next step gets the answer whole, or only after it has ended."""

    code: str = "streaming-edge-waits"


@issue
class StreamingSourceMissing(ContractIssue):
    """A step should stream an answer or take a streamed one, but no agent answers there."""

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
    """A step reads a `temp:` key on the other side of an execution boundary."""

    code: str = "boundary-temp-key"


@issue
class BoundaryType(ContractIssue):
    """A value crosses an execution boundary, and its type cannot be serialized."""

    code: str = "boundary-type"


@issue
class BoundaryUncuttable(ContractIssue):
    """An execution boundary is at a place where a run cannot be cut."""

    code: str = "boundary-uncuttable"


@issue
class BoundaryUndeclared(ContractIssue):
    """A step behind an execution boundary does not declare which keys it reads, so all keys cross."""

    code: str = "boundary-undeclared"


@issue
class RemoteInputMissing(ContractIssue):
    """A remote agent requires an input field that `.reads()` does not send."""

    code: str = "remote-input-missing"


@issue
class MissingBudget(ContractIssue):
    """An agent chooses its model by a budget that no step sets."""

    code: str = "missing-budget"


@issue
class BudgetWithoutFallback(ContractIssue):
    """There is no fallback model, so calls are refused when the budget is used up."""

    code: str = "budget-without-fallback"


@issue
class UnknownPrice(ContractIssue):
    """An agent chooses by price, or counts the costs of its calls, and the price is not known."""

    code: str = "unknown-price"


@issue
class TokenLimit(ContractIssue):
    """A request is longer than its agent accepts, or than any of its models may get."""

    code: str = "token-limit"


@issue
class NobodyVisible(ContractIssue):
    """The user sees no answer of the pipeline."""

    code: str = "nobody-visible"


@issue
class BranchNotVisible(ContractIssue):
    """The user sees no answer when this branch runs."""

    code: str = "branch-not-visible"


@issue
class DuplicateName(ContractIssue):
    """Two different nodes have the same name."""

    code: str = "duplicate-name"


@issue
class NestedTooDeep(ContractIssue):
    """Steps are nested too deep for a run."""

    code: str = "nested-too-deep"


@issue
class UnreachableBranch(ContractIssue):
    """A branch or step can never run."""

    code: str = "unreachable-branch"


@issue
class ParallelWriters(ContractIssue):
    """Two branches that run at the same time write the same key."""

    code: str = "parallel-writers"


@issue
class RouteWithoutOtherwise(ContractIssue):
    """A route has no `otherwise`, so no branch runs when no test holds."""

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
    """A step reads a `temp:` key after the run may have stopped for a person: a pause loses such keys."""

    code: str = "pause-temp-key"


@issue
class DuplicateTool(ContractIssue):
    """Two tools of an agent have the same name, so calls reach only one of them."""

    code: str = "duplicate-tool"


@issue
class UnknownTool(ContractIssue):
    """A `tool_approval` names a tool that no agent in its expression has."""

    code: str = "unknown-tool"


@issue
class GeminiTool(ContractIssue):
    """An agent has a tool that only Gemini can run, and a model of another provider."""

    code: str = "gemini-tool"


@issue
class ToolCombination(ContractIssue):
    """An agent has a tool that Gemini runs, and functions or sub-agents that its model refuses beside it."""

    code: str = "tool-combination"


@issue
class UnnamedTool(ContractIssue):
    """A tool has no name, so a model cannot call it."""

    code: str = "unnamed-tool"


@issue
class MissingResource(ContractIssue):
    """A function has a parameter that neither a model nor `.inject` fills."""

    code: str = "missing-resource"


@issue
class SharedCache(ContractIssue):
    """All users share the cache of a tool that gets a resource of one session or run."""

    code: str = "shared-cache"


@issue
class UnusedResource(ContractIssue):
    """`.inject` provides a resource that no function has a parameter for."""

    code: str = "unused-resource"


@issue
class ToolHistory(ContractIssue):
    """An agent with tools does not see the tool calls of an earlier agent."""

    code: str = "tool-history"


@issue
class MissingArtifact(ContractIssue):
    """A step reads an artifact that may not exist."""

    code: str = "missing-artifact"


@issue
class UnreadItem(ContractIssue):
    """No step that a map runs per item reads the item."""

    code: str = "unread-item"


@issue
class Overwritten(ContractIssue):
    """A step writes a key again before any step has read it."""

    code: str = "overwritten"


@issue
class EmptyComposite(ContractIssue):
    """A pipeline, fan-out, loop or route has no steps."""

    code: str = "empty-composite"


@issue
class EndlessTransfer(ContractIssue):
    """An unconditional transfer always leads back to itself."""

    code: str = "endless-transfer"


@issue
class InvalidName(ContractIssue):
    """An agent has a name that ADK refuses."""

    code: str = "invalid-name"


@issue
class InvalidOption(ContractIssue):
    """An agent has an option that ADK refuses, or that belongs in another field."""

    code: str = "invalid-option"


@issue
class ContextConflict(ContractIssue):
    """An agent's options ask for the whole conversation and for a part of it."""

    code: str = "context-conflict"


@issue
class Unsupported(ContractIssue):
    """The backend cannot run this node yet, so building refuses it."""

    code: str = "unsupported"


@issue
class MixedOperators(ContractIssue):
    """An expression mixes `|` and `>>` without parentheses, and `>>` binds tighter."""

    code: str = "mixed-operators"


@issue
class NoInstruction(ContractIssue):
    """An agent has no instruction."""

    code: str = "no-instruction"


@issue
class UndescribedTool(ContractIssue):
    """A tool function has no docstring, or a parameter without a type."""

    code: str = "undescribed-tool"


@issue
class FormattedKey(ContractIssue):
    """An instruction contains the name of a key, taken from a constant, where its value was meant."""

    code: str = "formatted-key"
