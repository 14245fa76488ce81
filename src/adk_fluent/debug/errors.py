"""Errors that were recorded, raised again."""

from __future__ import annotations

import builtins
import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

from adk_fluent import errors
from adk_fluent.debug.values import Failure
from adk_fluent.errors import ADKFluentError, ModelError

_MORE: Final = UnicodeError | BaseExceptionGroup | StopIteration | StopAsyncIteration
"""Errors of Python that are made of more than a message, or end a generator."""

_PLAIN: Final = frozenset(
    name
    for name, kind in vars(builtins).items()
    if isinstance(kind, type) and issubclass(kind, Exception) and not issubclass(kind, _MORE)
)
"""Errors of Python that are made of a message alone."""


def bases_of(kind: type[BaseException]) -> tuple[str, ...]:
    """The class of an error and those it derives from, as `module:name`; none for Python's and adk-fluent's.

    >>> import json
    >>> bases_of(json.JSONDecodeError), bases_of(KeyError)
    (('json.decoder:JSONDecodeError', 'builtins:ValueError'), ())
    """
    found = [each for each in kind.__mro__ if issubclass(each, Exception) and each is not Exception]
    paths = dict.fromkeys(map(_path, found))
    return () if kind.__module__ in ("builtins", errors.__name__) else tuple(paths)


def _path(kind: type) -> str:
    return f"{kind.__module__}:{kind.__qualname__}"


def raised(failure: Failure) -> Exception:
    """An error like the one that was recorded: of its class, with the same message and HTTP status.

    Classes of other libraries are looked up in the modules that are imported already, so that what catches
    them catches them again. Nothing is imported, and no constructor of theirs is called. If a class is not
    there, the error has its name and derives from those of its bases that are. A recording of an older format
    does not say the module of a class: then the error is a `ModelError` of that name.

    >>> raised(Failure("TimeoutError", "too slow"))
    TimeoutError('too slow')
    >>> type(raised(Failure("ServerError", "busy", 503))).__name__, raised(Failure("X", status=429)).code
    ('ServerError', 429)
    >>> isinstance(raised(Failure("Lost", bases=("shop:Lost", "builtins:OSError"))), OSError)
    True
    """
    own = getattr(errors, failure.type, None)
    made: Exception
    if failure.bases:
        made = _class(failure.bases)(failure.message)
    elif isinstance(own, type) and issubclass(own, ADKFluentError):
        made = own(failure.message)
    elif failure.type in _PLAIN:
        made = getattr(builtins, failure.type)(failure.message)
    else:
        made = _named(f"{__name__}:{failure.type}", (ModelError,))(failure.message)
    if failure.status is not None:
        for name in ("code", "status_code"):  # where providers put it
            with suppress(Exception):  # a property of the class
                setattr(made, name, failure.status)
    return made


def unknown_class(failure: Failure) -> str | None:
    """The class of an error, as `module:name`, if no module that is imported has it."""
    if failure.bases:
        return failure.bases[0] if _found(failure.bases[0]) is None else None
    is_known = failure.type in _PLAIN or hasattr(errors, failure.type)
    return None if is_known else failure.type


def _class(bases: tuple[str, ...]) -> type[Exception]:
    """A class of errors like the first of these, which derives from those that are there."""
    known = [found for path in bases if (found := _found(path)) is not None]
    lowest = [kind for kind in known if not any(o is not kind and issubclass(o, kind) for o in known)]
    first = next((n for n, path in enumerate(bases) if _found(path) is not None), len(bases))
    try:
        kind = _named(bases[max(first - 1, 0)], tuple(lowest) or (Exception,))
    except Exception:  # noqa: BLE001  # they do not go together, or one takes no subclasses
        kind = _named(bases[0], (Exception,))
    for path in reversed(
        bases[: max(first - 1, 0)]
    ):  # some errors are told apart by the names of their bases
        kind = _named(path, (kind,))
    return kind


def _named(path: str, above: tuple[type[Exception], ...]) -> type[Exception]:
    module, _, qualname = path.rpartition(":")
    name = qualname.rpartition(".")[2]
    space = {"__module__": module, "__qualname__": qualname, **_METHODS}
    return type(name if name.isidentifier() else "RecordedError", above, space)


_MADE_BY_CODE: Final = 1 << 9
"""The flag of classes that are not Python's own (`Py_TPFLAGS_HEAPTYPE`)."""


def _new(cls: type[Exception], message: str) -> Exception:
    native: Any = next(each for each in cls.__mro__ if not each.__flags__ & _MADE_BY_CODE)
    return native.__new__(cls, message)


def _init(self: Exception, message: str) -> None:
    self.args = (message,)


def _said(self: Exception) -> str:
    return str(self.args[0])


_METHODS: Final = {"__new__": _new, "__init__": _init, "__str__": _said}
"""What an error does that is made without what its class is made of."""


def _found(path: str) -> type[Exception] | None:
    """A class of errors, if its module is imported already."""
    module, _, qualname = path.rpartition(":")
    found: Any = sys.modules.get(module)
    for name in qualname.split("."):
        held: Mapping[str, Any] = getattr(found, "__dict__", {})
        found = held.get(name)
    if not isinstance(found, type) or not issubclass(found, Exception) or issubclass(found, _MORE):
        return None
    return found if _path(found) == path else None
