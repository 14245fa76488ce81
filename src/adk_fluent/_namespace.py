"""Classes that hold factories, such as `S`: a misspelt one is answered with the nearest."""

from __future__ import annotations

from typing import TYPE_CHECKING, Never

from adk_fluent.errors import UnknownMethodError
from adk_fluent.spelling import did_you_mean


class Namespace(type):
    """The class of such classes. One that users know by another name than its own says it as `_called`.

    >>> class F(metaclass=Namespace):
    ...     @staticmethod
    ...     def rename(): ...
    >>> F.renme  # doctest: +IGNORE_EXCEPTION_DETAIL
    Traceback (most recent call last):
    UnknownMethodError: F has no 'renme'. Did you mean 'rename'?
    """

    if not TYPE_CHECKING:  # a type checker that saw it would take any name

        def __getattr__(cls, name: str) -> Never:
            if name.startswith("_"):
                raise AttributeError(name)
            known = [known for known in vars(cls) if not known.startswith("_")]
            near = did_you_mean(name, known) or f" It has {', '.join(known)}."
            called = vars(cls).get("_called", cls.__name__)
            raise UnknownMethodError(f"{called} has no {name!r}.{near}")
