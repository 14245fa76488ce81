"""Values given on the command line as `NAME=VALUE`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from adk_fluent.cli.errors import UsageError


def words_of(option: str, given: Iterable[str]) -> Mapping[str, str]:
    """What each name is given, as text.

    Args:
        option: the option that they were given with, for the message.
        given: the values of the option, in order; a later one wins.

    Raises:
        UsageError: one of them has no name, or no `=`.

    >>> words_of("--answer", ["call-1=y"])
    {'call-1': 'y'}
    """
    found: dict[str, str] = {}
    for pair in given:
        name, equals, value = pair.partition("=")
        if not equals or not name.strip():
            raise UsageError(f"{option} takes NAME=VALUE, not {pair!r}.")
        found[name.strip()] = value
    return found


def pairs(option: str, given: Iterable[str]) -> Mapping[str, Any]:
    """What each name is given: JSON where the value is JSON, else its text.

    Args:
        option: the option that they were given with, for the message.
        given: the values of the option, in order; a later one wins.

    Raises:
        UsageError: one of them has no name, or no `=`.

    >>> pairs("--state", ["tier=gold", "tries=2", 'tags=["a"]', 'code="2"'])
    {'tier': 'gold', 'tries': 2, 'tags': ['a'], 'code': '2'}
    """
    return {name: value_of(text) for name, text in words_of(option, given).items()}


def value_of(text: str) -> Any:
    """JSON where the text is JSON, else the text.

    >>> value_of("2"), value_of("Oslo")
    (2, 'Oslo')
    """
    try:
        return json.loads(text)
    except (ValueError, RecursionError):  # no JSON, or more of it than Python reads
        return text
