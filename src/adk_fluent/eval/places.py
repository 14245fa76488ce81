"""Text that is data, with the place where each part of it stands: YAML, and JSON."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Any, cast

import yaml
from yaml.nodes import MappingNode, Node, SequenceNode

from adk_fluent.errors import EvalError
from adk_fluent.eval.stored import parsed, read

Path = Sequence[str | int]


@dataclass(frozen=True)
class Document:
    """A file that holds data.

    Attributes:
        path: where it is.
        data: what it says: plain values alone.
    """

    path: str
    data: Any
    _root: Node | None = None

    @classmethod
    def of(cls, path: str | PathLike[str]) -> Document:
        """The data of a file: JSON where its name says so, else YAML.

        Raises:
            EvalError: it cannot be read, or is neither; the message names line and column.
        """
        text, shown = read(path), os.fspath(path)
        if shown.endswith(".json"):
            return cls(shown, parsed(shown, text), _composed(text))
        loader: Any = yaml.SafeLoader(text)
        try:
            root: Node | None = loader.get_single_node()
            _refuse_twice(root, shown)
            data: Any = loader.construct_document(root) if root is not None else None
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            where = f" at line {mark.line + 1}, column {mark.column + 1}" if mark else ""
            raise EvalError(f"{shown} is not YAML{where}: {error.problem or error.context}.") from error
        except yaml.YAMLError as error:
            raise EvalError(f"{shown} is not YAML: {' '.join(str(error).split())}.") from error
        except (ValueError, RecursionError) as error:
            raise EvalError(f"{shown} is not YAML that can be read: {error}.") from error
        finally:
            loader.dispose()
        return cls(shown, data, root)

    def error(self, path: Path, problem: str) -> EvalError:
        """What is wrong at a place of the data, with its line and column as far as they are known."""
        node = self._root
        for step in path:
            node = _step(node, step) or node
        where = f", line {node.start_mark.line + 1}, column {node.start_mark.column + 1}" if node else ""
        return EvalError(f"{self.path}{where}: {problem}")


def _composed(text: str) -> Node | None:
    """JSON as YAML has it, which nearly all of it is, for its places."""
    try:
        return cast(Any, yaml).compose(text, Loader=yaml.SafeLoader)
    except (yaml.YAMLError, RecursionError):
        return None


def _step(node: Node | None, step: str | int) -> Node | None:
    if isinstance(node, MappingNode):
        pairs = cast("list[tuple[Node, Node]]", node.value)
        return next((value for key, value in pairs if key.value == str(step)), None)
    if isinstance(node, SequenceNode) and isinstance(step, int):
        items = cast("list[Node]", node.value)
        return items[step] if step < len(items) else None
    return None


def _refuse_twice(root: Node | None, shown: str) -> None:
    """Refuse a key that stands twice in one mapping; YAML would quietly take the last."""
    pending, seen = [root] if root is not None else [], set[int]()
    while pending:
        node = pending.pop()
        if id(node) in seen:  # an alias
            continue
        seen.add(id(node))
        if isinstance(node, MappingNode):
            keys = set[Any]()
            for key, value in cast("list[tuple[Node, Node]]", node.value):
                if isinstance(key.value, str) and key.value in keys:
                    mark = key.start_mark
                    where = f"line {mark.line + 1}, column {mark.column + 1}"
                    raise EvalError(f"{shown}, {where}: {key.value!r} stands twice.")
                keys.add(key.value if isinstance(key.value, str) else id(key))
                pending.append(value)
        elif isinstance(node, SequenceNode):
            pending += cast("list[Node]", node.value)
