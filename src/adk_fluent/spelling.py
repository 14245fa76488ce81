"""Suggestions for misspelt names: "Did you mean ...?"

- `did_you_mean` is the end of an error message.
- `Spelling` looks for slips among many names, as the contract checks need it.
- `Namespace` is the metaclass of classes that hold factories, such as `S` and `T`.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final, Never

from adk_fluent.errors import ADKFluentError, ArgumentError, UnknownMethodError

LONGEST_SLIP: Final = 100
"""Longest word, in characters, that is compared; the time of a comparison grows with the length."""
_ALIKE: Final = 0.65
"""Least similarity of a word and a suggestion, from 0 to 1: `intent` and `note` have 0.6."""
_FEW: Final = 200
"""Most names that `Spelling.like` compares letter by letter; each comparison takes time."""


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """` Did you mean 'x'?` for the nearest of `known`, or an empty string.

    >>> did_you_mean("instuct", ["instruct", "model"])
    " Did you mean 'instruct'?"
    >>> did_you_mean("modle", ["mode", "model"])
    " Did you mean 'model'?"
    """
    if len(word) > LONGEST_SLIP:
        return ""
    from difflib import get_close_matches

    near = get_close_matches(word, list(known), n=3, cutoff=_ALIKE)
    # Two swapped letters are the most common slip, but difflib prefers a name with a letter less.
    near.sort(key=lambda name: sorted(name) != sorted(word))
    return f" Did you mean {near[0]!r}?" if near else ""


class Spelling:
    """Find names that differ in one letter, in case, or by two swapped neighbours, among any number of names.

    Args:
        names: the names that exist, the most likely first.

    Example:
        >>> spelling = Spelling(["draft", "feedback"])
        >>> spelling.meant("drfat"), spelling.meant("Feedbacks"), spelling.meant("topic")
        ('draft', 'feedback', None)
    """

    def __init__(self, names: Iterable[str]) -> None:
        self._names = list(names)
        self._forms: dict[str, list[str]] = {}
        for name in self._names:
            for form in set(_forms(name)):
                self._forms.setdefault(form, []).append(name)

    def meant(self, word: str) -> str | None:
        """The name that `word` is a slip of, or `None`."""
        for form in _forms(word):
            for name in self._forms.get(form, ()):
                if name != word and abs(len(name) - len(word)) <= 1:
                    return name
        return None

    def like(self, word: str) -> str | None:
        """The name that `word` resembles, or `None`; looser than `meant`, for hints."""
        if (meant := self.meant(word)) is not None or len(self._names) > _FEW or len(word) > LONGEST_SLIP:
            return meant
        from difflib import get_close_matches

        near = get_close_matches(word, [name for name in self._names if name != word], n=1, cutoff=_ALIKE)
        return near[0] if near else None


def _forms(word: str) -> Iterator[str]:
    """The word in lower case; and, if it has 4 to `LONGEST_SLIP` letters, the word without each of them."""
    plain = word.casefold()
    yield plain
    if 3 < len(plain) <= LONGEST_SLIP:
        for index in range(len(plain)):
            yield plain[:index] + plain[index + 1 :]


def _explaining(function: Callable[..., Any], called: str) -> Callable[..., Any]:
    """Wrap a factory: a call that does not fit its parameters raises an error that shows them."""

    @functools.wraps(function)
    def factory(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except TypeError as error:
            if isinstance(error, ADKFluentError) or (at := error.__traceback__) is None or at.tb_next:
                raise  # its own code raised
            told = str(error).partition("() ")[2]
        raise ArgumentError(f"{called}() {told}. {_parameters(function, called, kwargs)}")

    return factory


def _parameters(function: Callable[..., Any], called: str, given: Iterable[str]) -> str:
    """The parameters of a function, and the keyword that is meant, for the end of a message."""
    parameters = inspect.signature(function).parameters
    shown = [
        f"{name}=..." if one.kind is one.KEYWORD_ONLY else str(one.replace(annotation=one.empty))
        for name, one in parameters.items()
    ]
    unknown = next((name for name in given if name not in parameters), None)
    hint = "" if unknown is None else did_you_mean(unknown, parameters)
    return f"Write {called}({', '.join(shown)}).{hint}"


class Namespace(type):
    """Metaclass of classes that hold factories: an unknown factory raises an error with the nearest name.

    A call with the wrong arguments raises an error that shows the parameters of the factory.

    If users know the class by another name than its own, the class states that name as `_called`.

    >>> class F(metaclass=Namespace):
    ...     @staticmethod
    ...     def rename(): ...
    >>> F.renme  # doctest: +IGNORE_EXCEPTION_DETAIL
    Traceback (most recent call last):
    UnknownMethodError: F has no 'renme'. Did you mean 'rename'?
    """

    if not TYPE_CHECKING:  # a type checker that saw it would accept any name

        def __new__(mcs, name, bases, members):
            """Let each factory explain a call with the wrong arguments."""
            called = members.get("_called", name)
            for key, value in members.items():
                if isinstance(value, staticmethod) and not key.startswith("_"):
                    members[key] = staticmethod(_explaining(value.__func__, f"{called}.{key}"))
            return super().__new__(mcs, name, bases, members)

        def __getattr__(cls, name: str) -> Never:
            if name.startswith("_"):
                raise AttributeError(name)
            known = [known for known in vars(cls) if not known.startswith("_")]
            near = did_you_mean(name, known) or f" It has {', '.join(known)}."
            called = vars(cls).get("_called", cls.__name__)
            raise UnknownMethodError(f"{called} has no {name!r}.{near}")
