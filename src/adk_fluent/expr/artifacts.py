"""`A`: steps that save files beside the state, and load them again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, cast

from adk_fluent.artifacts import formats
from adk_fluent.artifacts.operations import ArtifactOperation, ConditionalOperations, files
from adk_fluent.artifacts.requests import NAMES, Mime, fault_of, is_mime, stem
from adk_fluent.context.control import ForLlm
from adk_fluent.context.spec import Context
from adk_fluent.errors import ArgumentError, ExpressionError
from adk_fluent.expr.arguments import artifact_steps, check_key, describe, function, observer, one_of
from adk_fluent.expr.base import Expr, Step
from adk_fluent.ir.keys import USER_SCOPE
from adk_fluent.ir.nodes import ArtifactNode
from adk_fluent.ir.predicates import Predicate, plain, truth_of
from adk_fluent.spelling import Namespace, did_you_mean
from adk_fluent.state.delta import detached
from adk_fluent.tools.spec import ArtifactTool

Scope = Literal["session", "user"]
Decode = Literal["text", "json", "csv", "markdown", "base64"]


class ArtifactStep(Step):
    """A step that works with artifacts; the `A` factories return it."""

    __slots__ = ()


def _step(operation: ArtifactOperation) -> ArtifactStep:
    return ArtifactStep.from_node(ArtifactNode(operation=operation))


# --- arguments ------------------------------------------------------------------------------------


def _file(filename: object, scope: str, where: str) -> str:
    """The artifact's name for ADK: with the prefix `user:` if it belongs to the user."""
    if not isinstance(filename, str):
        raise ArgumentError(f"{where} takes a filename as text, not {describe(filename)}.")
    one_of(scope, ("session", "user"), f"{where[:-1]}scope=)")
    if fault := fault_of(filename):
        raise ArgumentError(f"{where} takes a filename such as 'report.md', and {filename!r:.60} {fault}.")
    return filename if scope == "session" or filename.startswith(USER_SCOPE) else USER_SCOPE + filename


def _key(key: object, filename: str, where: str, option: str, ending: str = "") -> str:
    """The state key for a file: the given one, or the file's name without its ending."""
    if key is not None:
        return check_key(key, f"{where[:-1]}{option}=)")
    name = stem(filename)
    if not name.isidentifier():
        raise ArgumentError(
            f"{where}: {filename!r:.60} cannot be a state key; name one: {option}='...'"
            + (f", with A.snapshot({filename!r:.60}, into_key='...')." if where == "A.load()" else ".")
        )
    return name + ending


def _mime(mime: object, where: str) -> str | None:
    if mime is None or (isinstance(mime, str) and is_mime(mime)):
        return mime
    shown = did_you_mean(mime, NAMES.values()) if isinstance(mime, str) else ""
    name = mime.upper().lstrip(".") if isinstance(mime, str) else ""
    hint = f" Did you mean A.mime.{name}?" if name in NAMES else shown
    what = f"{where[:-1]}mime=) takes a MIME type such as 'text/markdown'"
    raise ArgumentError(f"{what}, not {mime!r:.60}.{hint}")


def _metadata(metadata: object, where: str) -> tuple[tuple[str, Any], ...]:
    if metadata is None:
        return ()
    given = cast("Mapping[object, Any]", metadata)
    if not isinstance(metadata, Mapping) or not all(isinstance(key, str) for key in given):
        raise ArgumentError(
            f"{where[:-1]}metadata=) takes a dict with text keys, not {describe(cast(object, metadata))}."
        )
    try:
        formats.to_json(given)
    except formats.Unfit as error:
        raise ArgumentError(f"{where[:-1]}metadata=) {error}.") from error
    return tuple((str(key), detached(value)) for key, value in given.items())


def _pairs(pairs: tuple[object, ...], where: str) -> tuple[tuple[str, str], ...]:
    if not pairs:
        raise ExpressionError(f"{where} needs at least one pair: (filename, key).")
    found: list[tuple[str, str]] = []
    for pair in pairs:
        if not isinstance(pair, tuple | list) or len(cast("tuple[object, ...]", pair)) != 2:
            raise ArgumentError(f"{where} takes pairs: (filename, key), not {describe(cast(object, pair))}.")
        filename, key = cast("tuple[object, object]", pair)
        found.append((_file(filename, "session", where), check_key(key, where)))
    return tuple(found)


# --- the operations -------------------------------------------------------------------------------


class _Tools(metaclass=Namespace):
    """Tools with which a model saves, loads and lists artifacts: `A.tool`."""

    _called = "A.tool"

    @staticmethod
    def save() -> ArtifactTool:
        """`save_artifact(filename, content)`: the model saves a text as a new version of an artifact."""
        return ArtifactTool("save")

    @staticmethod
    def load() -> ArtifactTool:
        """`load_artifacts(artifact_names)`: ADK's own tool; it shows the model these artifacts."""
        return ArtifactTool("load")

    @staticmethod
    def list() -> ArtifactTool:
        """`list_artifacts()`: the model gets the names of all artifacts."""
        return ArtifactTool("list")


class A(metaclass=Namespace):
    """Factories of artifact operations. Each of them except `for_llm` returns a step for a pipeline.

    An artifact is a file with versions that ADK's artifact service stores beside the state: for the session,
    or, with a name that starts with `user:`, for all sessions of a user. A filename may hold `{key}`, which
    is filled from the state.

    Example:
        >>> from adk_fluent import A, Agent
        >>> Agent("writer").writes("report") >> A.publish("report.md") >> Agent("mailer")
        Pipeline(writer, publish, mailer)
    """

    mime = Mime
    """MIME types by name: `A.mime.MARKDOWN`."""
    tool = _Tools
    """Tools for models: `A.tool.save()`, `A.tool.load()`, `A.tool.list()`."""

    # --- saving -----------------------------------------------------------------------------------

    @staticmethod
    def publish(
        filename: str,
        from_key: str | None = None,
        *,
        mime: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        scope: Scope = "session",
    ) -> ArtifactStep:
        """Save the value at a state key as a new version of an artifact.

        Text is saved in UTF-8, bytes unchanged, a list of dicts in a CSV file as a table, and any other value
        as JSON. For a binary type, such as an image, text must be base64.

        Args:
            filename: the file's name.
            from_key: the state key; by default the file's name without its ending.
            mime: the MIME type; by default that of the filename's ending, or else that of the value.
            metadata: your own JSON-able data, which ADK stores with the version.
            scope: store it for the `session`, or for all sessions of the `user`.

        Raises:
            ArgumentError: the filename or MIME type is invalid, or the filename cannot be a state key.
            ArtifactError: at run time, the value cannot be written, or there is no artifact service.

        >>> A.publish("report.md", from_key="draft").node.operation
        Publish(filename='report.md', key='draft')
        """
        where = "A.publish()"
        name = _file(filename, scope, where)
        return _step(
            files.Publish(
                filename=name,
                key=_key(from_key, name, where, "from_key"),
                mime=_mime(mime, where),
                metadata=_metadata(metadata, where),
            )
        )

    @staticmethod
    def save(
        filename: str,
        content: object,
        *,
        mime: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        scope: Scope = "session",
    ) -> ArtifactStep:
        """Save the given content as a new version of an artifact, in the formats of `publish`.

        >>> A.save("terms.txt", content="No refunds.").node.operation
        Save(filename='terms.txt', content='No refunds.')
        """
        where = "A.save()"
        if content is None:
            raise ArgumentError(f"{where} needs content=: text, bytes, or what JSON can hold.")
        return _step(
            files.Save(
                filename=_file(filename, scope, where),
                content=detached(content),
                mime=_mime(mime, where),
                metadata=_metadata(metadata, where),
            )
        )

    @staticmethod
    def publish_many(*pairs: tuple[str, str]) -> ArtifactStep:
        """Save several state values: `A.publish_many(("a.md", "draft"), ("b.json", "facts"))`.

        Nothing is saved unless every value can be.
        """
        return _step(files.PublishMany(pairs=_pairs(pairs, "A.publish_many()")))

    # --- loading ----------------------------------------------------------------------------------

    @staticmethod
    def snapshot(
        filename: str,
        into_key: str | None = None,
        *,
        version: int | None = None,
        decode: Decode = "text",
        scope: Scope = "session",
    ) -> ArtifactStep:
        """Copy an artifact into the state.

        Args:
            into_key: the state key; by default the file's name without its ending.
            version: the version number, starting at 0; by default the latest version.
            decode: the form of the value: `text`, the parsed `json`, the rows of a `csv` table as dicts, the
                sections of a `markdown` text, or the bytes in `base64`.
            scope: the artifact of the `session`, or of the `user`.

        Raises:
            ArtifactError: at run time, the artifact does not exist or cannot be decoded, or there is no
                artifact service.

        >>> A.snapshot("prices.csv", decode="csv").node.operation
        Snapshot(filename='prices.csv', key='prices', decode='csv')
        """
        where = "A.snapshot()"
        one_of(decode, tuple(formats.DECODINGS), "A.snapshot(decode=)")
        if version is not None and (not isinstance(version, int) or isinstance(version, bool) or version < 0):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers may be untyped
            raise ArgumentError(f"A.snapshot(version=) takes a number from 0 on, not {version!r:.40}.")
        name = _file(filename, scope, where)
        key = _key(into_key, name, where, "into_key")
        return _step(files.Snapshot(filename=name, key=key, version=version, decode=decode))

    @staticmethod
    def load(filename: str, *, scope: Scope = "session") -> ArtifactStep:
        """Copy an artifact, as text, to the state key that is its name without the ending.

        >>> A.load("user:profile.md").node.key_writes
        ('profile',)
        """
        name = _file(filename, scope, "A.load()")
        return _step(files.Load(filename=name, key=_key(None, name, "A.load()", "into_key")))

    @staticmethod
    def snapshot_many(*pairs: tuple[str, str]) -> ArtifactStep:
        """Copy several artifacts, as text, into the state; if one does not exist, nothing is written."""
        found = _pairs(pairs, "A.snapshot_many()")
        keys = [key for _, key in found]
        if twice := next((key for key in keys if keys.count(key) > 1), None):
            raise ExpressionError(f"A.snapshot_many() gives two artifacts the key {twice!r}.")
        return _step(files.SnapshotMany(pairs=found))

    # --- listing and deleting ---------------------------------------------------------------------

    @staticmethod
    def list(into_key: str = "artifacts") -> ArtifactStep:
        """Write the names of all artifacts in order; those of the user start with `user:`."""
        return _step(files.List(key=check_key(into_key, "A.list(into_key=)")))

    @staticmethod
    def version(filename: str, into_key: str | None = None, *, scope: Scope = "session") -> ArtifactStep:
        """Write the number of an artifact's latest version; the first version is 0.

        Args:
            filename: the file's name.
            into_key: the state key; by default the file's name without its ending, plus `_version`.
            scope: the artifact of the `session`, or of the `user`.
        """
        name = _file(filename, scope, "A.version()")
        key = _key(into_key, name, "A.version()", "into_key", "_version")
        return _step(files.Version(filename=name, key=key))

    @staticmethod
    def delete(filename: str, *, scope: Scope = "session") -> ArtifactStep:
        """Delete all versions of an artifact; do nothing if it does not exist."""
        return _step(files.Delete(filename=_file(filename, scope, "A.delete()")))

    # --- values in another form -------------------------------------------------------------------

    @staticmethod
    def as_json(key: str) -> ArtifactStep:
        """Replace the value at a key by JSON text."""
        return _step(files.AsJson(key=check_key(key, "A.as_json()")))

    @staticmethod
    def as_csv(key: str) -> ArtifactStep:
        """Replace a list of dicts by CSV text: the keys as column names, then a line for each dict."""
        return _step(files.AsCsv(key=check_key(key, "A.as_csv()")))

    @staticmethod
    def as_text(key: str) -> ArtifactStep:
        """Replace a value by text: a list has a line for each item, a dict one for each entry."""
        return _step(files.AsText(key=check_key(key, "A.as_text()")))

    @staticmethod
    def from_json(key: str) -> ArtifactStep:
        """Replace JSON text, with or without a Markdown fence around it, by the value that it holds."""
        return _step(files.FromJson(key=check_key(key, "A.from_json()")))

    @staticmethod
    def from_csv(key: str) -> ArtifactStep:
        """Replace CSV text by a list of dicts of texts, whose keys are the cells of the first line."""
        return _step(files.FromCsv(key=check_key(key, "A.from_csv()")))

    @staticmethod
    def from_markdown(key: str) -> ArtifactStep:
        """Replace Markdown text by a dict: heading → the text below it; `""` → what is before them."""
        return _step(files.FromMarkdown(key=check_key(key, "A.from_markdown()")))

    # --- the rest ---------------------------------------------------------------------------------

    @staticmethod
    def for_llm(filename: str, *, scope: Scope = "session") -> Context:
        """Make a `C` spec that adds the artifact itself to the request of an agent's model.

        Images, audio, video and PDF are sent as files, text as text; for any other type, the request only
        says that the file exists. Alone, the spec keeps the whole conversation; with
        `C.none() + A.for_llm(...)`, only the current user message stays beside the artifact.

        Raises:
            ArtifactError: at run time, the artifact does not exist, or there is no artifact service.

        >>> from adk_fluent import Agent, C
        >>> Agent("eye").context(C.none() + A.for_llm("cat.png")).node.annotations.context
        C.none() + A.for_llm('cat.png')
        """
        return ForLlm(_file(filename, scope, "A.for_llm()"))

    @staticmethod
    def when(predicate: Predicate | str, operation: Expr[Any]) -> ArtifactStep:
        """Run an A operation, or a chain of them, only if `predicate(state)` holds.

        Args:
            predicate: a function of the state, or a key that must be set and true.
        """
        where = "A.when()"
        test = observer(function(plain(truth_of(predicate, where), where), where), where)
        return _step(ConditionalOperations(test=test, steps=artifact_steps(operation, where)))
