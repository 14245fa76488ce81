r"""The grammar of `{key}` placeholders in instructions: the one parser, for checking and for rendering.

A placeholder is `{key}`, `{key?}` (optional), `{artifact.file}` or `{artifact.file?}`; a key is an
identifier, or `app:`, `user:` or `temp:` and an identifier; spaces inside the braces do not count.
Anything else in braces (`{a.b}`, `{0}`, JSON) is plain text, and so is `${key}`. `\{key}` is a literal
`{key}`: the backslash goes.

These are the rules of the newest ADK, with two exceptions: ADK keeps the backslash, and it drops surplus
braces; here `{"name": {key}}` keeps its last brace. If ADK's releases disagree with each other or with these
rules, `is_portable` returns False, and adk-fluent renders the instruction instead of ADK.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import lru_cache

from adk_fluent.ir.frozen import Frozen, frozen
from adk_fluent.ir.state_keys import is_key

# Opening braces, the text between, closing braces. The look-behind tries a run of opening braces only from
# its first one, and the possessive `+` after a repetition prevents backtracking: every text takes one pass.
_BRACES = re.compile(r"([\\$]?)(?<!\{)(\{++)([^{}]*+)(\}++)")

_LONG_RUN = "{" * 100


@frozen
class Placeholder(Frozen):
    """One placeholder: a state key, or an artifact's file name when `artifact` is true."""

    key: str
    optional: bool = False
    artifact: bool = False


Segment = str | Placeholder
"""A piece of a template: plain text, or a placeholder."""


@lru_cache(maxsize=4096)
def segments(text: str) -> tuple[Segment, ...]:
    r"""The segments of a template, in order.

    >>> segments(r"Help {name}. Write \{x} as {y: 1}.")
    ('Help ', Placeholder(key='name'), '. Write {x} as {y: 1}.')
    """
    pieces: list[Segment] = []
    plain: list[str] = []
    position = 0
    for match in _BRACES.finditer(text):
        found = _placeholder(match[3])
        if found is None or match[1] == "$":
            continue
        plain.append(text[position : match.start()])
        position = match.end()
        if match[1]:
            plain.append(match[0][1:])
            continue
        pairs = min(len(match[2]), len(match[4]))
        before = "".join([*plain, match[2][pairs:]])
        pieces += [before, found] if before else [found]
        plain = [match[4][pairs:]]
    after = "".join([*plain, text[position:]])
    return (*pieces, after) if after else tuple(pieces)


def placeholders(text: str) -> tuple[Placeholder, ...]:
    """The placeholders of a template, in order of appearance.

    >>> for placeholder in placeholders("Help {name}: {user:tier?} {not a key} {artifact.cv}"):
    ...     print(placeholder)
    Placeholder(key='name')
    Placeholder(key='user:tier', optional=True)
    Placeholder(key='cv', artifact=True)
    """
    return tuple(piece for piece in segments(text) if isinstance(piece, Placeholder))


def render(text: str, value: Callable[[Placeholder], str]) -> str:
    """A template with each placeholder replaced by its value.

    >>> render("Hello {name}, {'a': 1}", lambda placeholder: placeholder.key.upper())
    "Hello NAME, {'a': 1}"
    """
    return "".join(piece if isinstance(piece, str) else value(piece) for piece in segments(text))


@lru_cache(maxsize=4096)
def is_portable(text: str) -> bool:
    r"""True if every supported ADK release renders a template by these rules, and fast.

    The releases disagree about `{{key}}`, `${key}`, `\{key}`, surplus braces and the text of
    `{artifact.name}`. Some take minutes for a very long run of opening braces.

    >>> is_portable("{name} and {a: 1}"), is_portable("{{name}}"), is_portable("{artifact.cv}")
    (True, False, False)
    """
    if _LONG_RUN in text:
        return False
    for match in _BRACES.finditer(text):
        found = _placeholder(match[3])
        if found and (found.artifact or match[0] != f"{{{match[3]}}}"):
            return False
    return True


def _placeholder(inner: str) -> Placeholder | None:
    inner = inner.strip()
    optional = inner.endswith("?")
    name = inner.removesuffix("?")
    if name.startswith("artifact."):
        return Placeholder(name.removeprefix("artifact."), optional, artifact=True)
    return Placeholder(name, optional) if is_key(name) else None


def required_keys(text: str) -> frozenset[str]:
    """The state keys that a template needs."""
    return frozenset(p.key for p in placeholders(text) if not p.optional and not p.artifact)


@lru_cache(maxsize=4096)
def all_keys(text: str) -> frozenset[str]:
    """The state keys a template reads, optional ones included."""
    return frozenset(p.key for p in placeholders(text) if not p.artifact)


_ONE_LINE = re.compile(r"(?<![\\$])\{ *([^\W\d][^{}\n]{0,60}?) *\}")


@lru_cache(maxsize=4096)
def lookalikes(text: str) -> tuple[str, ...]:
    """Texts in braces that begin like a placeholder but are none, so rendering leaves them as they are.

    >>> lookalikes("{name}: {ticket.team} {my key} {0}")
    ('ticket.team', 'my key')
    """
    if "{" not in text:
        return ()
    return tuple(inner for inner in _ONE_LINE.findall(text) if _placeholder(inner) is None)


def about_braces(key: str, texts: Iterable[str] = (), *, known: bool = False) -> str:
    r"""A hint for a placeholder that cannot be filled: the way to write literal braces.

    Args:
        texts: the templates; if one doubles the braces of the key, the hint says that this is no escape.
        known: True if a step writes the key, so that only doubled braces can be meant as text.

    >>> print(about_braces("x"))
    If you mean the text {x}, write \{x}.
    >>> print(about_braces("x", ["Write {{x}}."]))
    If {{x}} is meant as the text {x}, write \{x}: doubled braces are no escape.
    """
    doubled = re.compile(rf"\{{\{{\s*{re.escape(key)}\s*\}}\}}")
    meant = f"{{{key}}}"
    if not any(doubled.search(text) for text in texts):
        return "" if known else f"If you mean the text {meant}, write \\{meant}."
    return f"If {{{meant}}} is meant as the text {meant}, write \\{meant}: doubled braces are no escape."
