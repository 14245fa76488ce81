"""Redaction of secrets in values that are recorded, logged or sent to another process.

`Redactor` finds a secret by the key or name before it, by the form of well-known tokens, or because it found
the same value before. A table holds the known values by their first word, so it reads each text once, and
the time grows with the size of the text, not with the number of known values.
"""

from __future__ import annotations

import base64
import binascii
import json
import os
import re
from collections.abc import Iterable, Mapping
from functools import partial
from itertools import count
from typing import Any, Final, cast
from urllib.parse import urlsplit

from adk_fluent._encodings import SHORTEST_ENCODED, in_escapes, in_file, in_text

REDACTED: Final = "[redacted]"

# --- keys -----------------------------------------------------------------------------------------


def _listed(*names: str) -> frozenset[str]:
    return frozenset(" ".join(names).split())


_ENDINGS: Final = _listed(
    "password passwd pwd passphrase passcode secret secrets token tokens jwt bearer authorization",
    "credential credentials cookie cookies api_key access_key private_key secret_key signing_key",
    "encryption_key account_key master_key auth_key subscription_key license_key session_key ssh_key",
    "api_keys access_keys private_keys db_pass user_pass smtp_pass redis_pass mysql_pass connection_string",
)
"""Last words of a key whose value is a secret."""

_JOINED: Final = re.compile(
    "(?:password|passwd|passphrase|apikeys?|secretkey|accesskey|privatekey|clientsecret|"
    "(?:access|refresh|auth|api|id|session|csrf|bearer)tokens?)$"
)
"""The same endings, written without a break between their words."""

SHORTEST: Final = 6
"""Shortest value, in characters, that is searched for in texts; it must have letters and digits."""

_TRAILING: Final = _listed("value text string raw plain hash base64 b64 header prod dev staging new old")
"""Words that may follow such an ending: `API_KEY_PROD` still names a secret."""

_COUNTS: Final = _listed(
    "max min total num number n count input output prompt completion cached cache reasoning thought thoughts",
    "used budget limit remaining estimated expected candidates tool context avg average per of sum usage",
    "generated new",
)
"""Words before `tokens` that make it a number, as in `max_tokens`."""

_BREAKS: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")

_NAMES: Final = _listed("role model author agent_name tool_name agent branch visibility finish_reason")
"""Keys whose values are names of agents, or words of the protocol."""


def _words(key: str) -> tuple[str, ...]:
    """Split a key in camel, snake or kebab case: `accessToken` and `ACCESS_TOKEN` have the same words."""
    return tuple(word.lower() for word in _BREAKS.findall(key))


# --- texts ----------------------------------------------------------------------------------------

_ISSUED: Final = re.compile(
    r"(?<![\w-])(?:"
    r"sk-[A-Za-z0-9_-]{16,}"  # OpenAI, Anthropic
    r"|(?:sk|rk|pk)_(?:live|test)_[A-Za-z0-9]{8,}|whsec_[A-Za-z0-9+/=]{16,}"  # Stripe
    r"|AIza[0-9A-Za-z_-]{35}|ya29\.[A-Za-z0-9._-]{16,}|GOCSPX-[A-Za-z0-9_-]{16,}"  # Google
    r"|gh[pousr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{22,}"  # GitHub
    r"|gl(?:pat|ptt|dt|rt|cbt|soat)-[A-Za-z0-9_.-]{10,}"  # GitLab
    r"|hf_[A-Za-z0-9]{16,}|gsk_[A-Za-z0-9]{16,}|xai-[A-Za-z0-9]{16,}|r8_[A-Za-z0-9]{16,}"  # model providers
    r"|nvapi-[A-Za-z0-9_-]{16,}|pplx-[A-Za-z0-9]{16,}|tvly-[A-Za-z0-9-]{16,}"
    r"|npm_[A-Za-z0-9]{16,}|pypi-[A-Za-z0-9_-]{16,}|dop_v1_[a-f0-9]{16,}|shp(?:at|ss|ca)_[a-fA-F0-9]{16,}"
    r"|xox[abeprs]-[A-Za-z0-9-]{10,}|xapp-[A-Za-z0-9-]{10,}"  # Slack
    r"|SG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}"  # SendGrid
    r"|(?:AKIA|ASIA)[0-9A-Z]{16}(?![0-9A-Z])"  # AWS
    r"|eyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]+"  # a JSON web token
    r")"
    r"|-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----.*?(?:-----END [A-Z ]{0,40}PRIVATE KEY-----|\Z)",
    re.DOTALL,
)
"""Keys and tokens of well-known services. Each starts at the start of a word, so a text is read once."""

_USER: Final = re.compile(r"(?<=://)[^\s/?#\"'<>]+(?=@)")
"""The user and the password in a URL."""

_SCHEME: Final = re.compile(r"(?<![\w-])(basic|bearer)\s+(?P<value>[\w.~+/=-]{8,})", re.IGNORECASE)
"""The value of an `Authorization` header."""

_NAMED: Final = re.compile(
    r"(?<![\w.-])-{0,2}(?P<key>[A-Za-z_][\w.-]{0,99})(?P<quote>\\*[\"'])?\s{0,20}(?P<sign>=>|=|:)(?![=/])\s{0,20}"
)
"""A name with a value after it, as in `KEY=value`, `?key=value`, `Key: value` or `"key": "value"`."""

_OPENING: Final = re.compile(r"\\{0,8}[\"']")
_LINE: Final = re.compile(r"[^\s\"'][^\r\n\"']*")
_RUN: Final = re.compile(r"[^\s\"']+")
_PIECE: Final = re.compile(r"[^\s\"'&,;<>(){}\[\]\\]+")
_TOKENS: Final = re.compile(r"\w+")
_HEADERS: Final = frozenset({"authorization", "cookie", "cookies"})
_KINDS: Final = re.compile(r"(?:basic|bearer|digest|token|negotiate|apikey|aws4)[\w-]*\s+\S", re.IGNORECASE)
_SIGNED: Final = frozenset({("sig",), ("signature",), ("amz", "signature")})
_STARTS: Final = frozenset({"", "export", "set", "ENV"})
"""Words before the name on a line that sets an environment variable."""
_EMPTY: Final = frozenset({"none", "null", "true", "false", "undefined", "nil"})


class Redactor:
    """Replace the secrets in JSON-like values with `[redacted]`.

    The redactor replaces the values of keys that name a secret, in any case (`api_key`, `accessToken`,
    `DB_PASSWORD`). In texts, including JSON texts, it replaces values after such names, tokens of well-known
    services, passwords in URLs and `Authorization` headers. It also replaces the values of environment
    variables that name a secret. Once it has found a value, it replaces that value everywhere, if the value
    is distinctive: six characters with letters and digits, eight with signs, or sixteen. It replaces an
    ordinary word, such as `user`, only under its key. Numbers under keys like `tokens` are counts and stay.

    It also reads texts in base64, in `data:` URIs and with escapes of JSON, URLs or HTML, and files in base64
    under `data` beside a `mime_type`, in any encoding of Unicode, and in any with ASCII and one byte for each
    character. If a binary file such as a picture holds a secret, it replaces the whole file. It leaves out a
    file that is compressed, packed or encrypted; see `adk_fluent._encodings.in_bytes`. It does not read the
    text that a picture shows.

    The time is proportional to the size of the text, however many values are known.

    Args:
        keys: more keys whose values are secret.
        environment: environment variables; by default those of this process.

    >>> redacted = Redactor(["ssn"])
    >>> redacted({"apiKey": "zebra-4711", "ssn": 12345, "tokens": 3, "text": "It is sk-abcdefghijklmnop12."})
    {'apiKey': '[redacted]', 'ssn': '[redacted]', 'tokens': 3, 'text': 'It is [redacted].'}
    >>> redacted(["The key is zebra-4711.", "redis://:pw@host", "DB_PASSWORD=user", "Hello, user."])
    ['The key is [redacted].', 'redis://[redacted]@host', 'DB_PASSWORD=[redacted]', 'Hello, user.']
    """

    def __init__(self, keys: Iterable[str] = (), environment: Mapping[str, str] | None = None) -> None:
        self._more = frozenset(words for key in keys if (words := _words(key)))
        self._asked: dict[str, bool] = {}
        self._known: set[str] = set()
        self._lengths: dict[str, set[tuple[int, int]]] = {}
        for name, value in (os.environ if environment is None else environment).items():
            if self.names_a_secret(name):
                self._learn(value)
        self.has_learned: bool = False

    def __call__(self, value: Any) -> Any:
        """Return a copy of the value without secrets."""
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, list | tuple):
            return [self(item) for item in cast("list[Any]", value)]
        if isinstance(value, Mapping):
            entries = [(str(key), item) for key, item in cast("Mapping[Any, Any]", value).items()]
            hidden = {key: self._hidden(key, item) for key, item in entries if self.names_a_secret(key)}
            of = _file_type(cast("Mapping[Any, Any]", value))
            return _keyed((key, hidden.get(key) or self._held(key, item, of)) for key, item in entries)
        return REDACTED if isinstance(value, int) and _digits(value) in self._known else value

    def _held(self, key: str, value: Any, file_type: str | None) -> Any:
        """Redact a value whose key names no secret; names of agents and models are not looked up."""
        if isinstance(value, str) and file_type is not None and key == "data":
            return in_file(value, self._text, file_type)
        if isinstance(value, str) and (key in _NAMES or (key == "name" and value.replace("_", "").isalpha())):
            return self._without_named(_without_user_in(_without_issued(value)))
        return self(value)

    def names_a_secret(self, key: str) -> bool:
        """True if the value of this key is a secret."""
        if (known := self._asked.get(key)) is None:
            if len(self._asked) > 10_000:
                self._asked.clear()
            known = self._asked[key] = self._names(_words(key))
        return known

    def _names(self, words: tuple[str, ...]) -> bool:
        if any(words[-len(more) :] == more for more in self._more):
            return True
        while len(words) > 1 and (words[-1] in _TRAILING or words[-1].isdigit()):
            words = words[:-1]
        if not words or (words[-1] == "tokens" and not _COUNTS.isdisjoint(words[:-1])):
            return False
        ends = {words[-1], "_".join(words[-2:])}
        return not _ENDINGS.isdisjoint(ends) or _JOINED.search(words[-1]) is not None

    def _hidden(self, key: str, value: Any) -> Any:
        """Redact a value whose key names a secret, and remember it."""
        if isinstance(value, list | tuple):
            return [self._hidden(key, item) for item in cast("list[Any]", value)]
        if isinstance(value, Mapping):
            entries = cast("Mapping[Any, Any]", value).items()
            return _keyed((str(inner), self._hidden(key, item)) for inner, item in entries)
        if value is None or isinstance(value, bool) or value in ("", REDACTED) or _is_count(key, value):
            return value
        self._learn(_digits(value) if isinstance(value, int) else value if isinstance(value, str) else "")
        return REDACTED

    # --- values that are known --------------------------------------------------------------------

    def _learn(self, value: str) -> None:
        if value in self._known or not _is_distinctive(value):
            return
        first = _TOKENS.search(value)
        assert first is not None
        self._known.add(value)
        self._lengths.setdefault(first.group(), set()).add((first.start(), len(value)))
        self.has_learned = True

    def _without_known(self, text: str) -> str:
        if not self._known:
            return text
        pieces: list[str] = []
        done = 0
        for token in _TOKENS.finditer(text):
            for before, length in sorted(self._lengths.get(token.group(), ()), key=lambda each: -each[1]):
                start = token.start() - before
                end = start + length
                if start >= done and text[start:end] in self._known and not _inside_word(text, end):
                    pieces += [text[done:start], REDACTED]
                    done = end
                    break
        return "".join([*pieces, text[done:]]) if pieces else text

    # --- texts ------------------------------------------------------------------------------------

    def _text(self, text: str, levels: int = 4) -> str:
        """Redact a text; `levels` is how many times escapes may stand in escapes."""
        if text[:1] in ("{", "[") or text.lstrip()[:1] in ("{", "["):
            try:
                parsed = json.loads(text)
                made = self(parsed)
                return text if made == parsed else json.dumps(made, ensure_ascii=False)
            except (ValueError, RecursionError):
                pass  # it only looks like JSON
        if len(text) < 4:
            return text
        if len(text) >= SHORTEST_ENCODED:
            text = in_text(text, partial(self._text, levels=levels))
        if levels and len(text) >= SHORTEST_ENCODED:
            text = in_escapes(text, partial(self._text, levels=levels - 1), partial(self._text, levels=0))
        text = _without_issued(self._without_known(self._without_named(text)))
        return _SCHEME.sub(_without_scheme, _without_user_in(text))

    def _without_named(self, text: str) -> str:
        """Replace the values that follow names of secrets in a text."""
        if "=" not in text and ":" not in text:
            return text
        pieces: list[str] = []
        done = 0
        for named in _NAMED.finditer(text):
            if named.start() < done or not (value := self._named_value(text, named)):
                continue
            start, end = value
            if not _learnable(text[start:end]):
                continue
            self._learn(text[start:end])
            shown = f'"{REDACTED}"' if named["quote"] and text[start - 1] not in "\"'" else REDACTED
            pieces += [text[done:start], shown]
            done = end
        return "".join([*pieces, text[done:]]) if pieces else text

    def _named_value(self, text: str, named: re.Match[str]) -> tuple[int, int] | None:
        """The start and end of the value after a name in a text; `None` if it is not a secret."""
        key, start = named["key"], named.end()
        in_url = named.start() > 0 and text[named.start() - 1] in "?&"
        if not self.names_a_secret(key) and not (in_url and _words(key)[-2:] in _SIGNED):
            return None
        if (opened := _OPENING.match(text, start)) and (end := text.find(opened[0], opened.end())) >= 0:
            return None if _is_count(key, text[opened.end() : end]) else (opened.end(), end)
        if named["sign"] == ":" and not named["quote"]:
            return self._after_colon(text, key, start)
        before = re.split(r"[\r\n]", text[max(0, named.start() - 20) : named.start()])[-1]
        whole = (_RUN if before.strip() in _STARTS and not in_url else _PIECE).match(text, start)
        said = "" if whole is None else whole[0].rstrip(",;")
        return None if not said or _is_count(key, said) else (start, start + len(said))

    def _after_colon(self, text: str, key: str, start: int) -> tuple[int, int] | None:
        """The start and end of a value after `name:`; `None` if it looks like a sentence instead."""
        if _words(key)[-1] in _HEADERS and (line := _LINE.match(text, start)):
            said = line.group()
            if _KINDS.match(said) or ("=" in said and "cookie" in key.lower()):
                return line.span()
        piece = _PIECE.match(text, start)
        if piece is None or len(piece.group()) < 4 or piece.group().rstrip(".!?").isalpha():
            return None
        return None if _is_count(key, piece.group()) else piece.span()


def _file_type(value: Mapping[Any, Any]) -> str | None:
    """The MIME type of a file that a mapping holds in base64 under `data`; `None` for other mappings."""
    found = value.get("mime_type", value.get("mimeType")) if "data" in value else None
    return found if isinstance(found, str) else None


def _keyed(entries: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """Make a dict of the entries; keys that are tokens become `[redacted]`, `[redacted] 2` and so on."""
    made: dict[str, Any] = {}
    for key, item in entries:
        shown = _without_issued(key)
        if shown != key and shown in made:
            shown = next(name for number in count(2) if (name := f"{shown} {number}") not in made)
        made[shown] = item
    return made


def _without_issued(text: str) -> str:
    return _ISSUED.sub(REDACTED, text) if len(text) >= 8 else text


def _is_count(key: str, value: object) -> bool:
    """True if a value is a number of tokens, and not a token."""
    number = isinstance(value, int | float) or (isinstance(value, str) and value.isdecimal())
    return number and _words(key)[-1:] == ("tokens",)


def _is_distinctive(value: str) -> bool:
    """True if a value is unlikely to occur in a text by chance, so that it is a secret there, too."""
    if len(value) < SHORTEST or _TOKENS.search(value) is None or value.lower() in _EMPTY:
        return False
    letters = any(char.isalpha() for char in value)
    digits = any(char.isdigit() for char in value)
    if letters and digits:
        return True
    is_name = all(char.isalpha() or char in "_-. " for char in value)
    return len(value) >= (SHORTEST + 10 if is_name else SHORTEST + 2)


def _learnable(value: str) -> bool:
    return bool(value) and value.lower().rstrip(",;)") not in _EMPTY and not value.startswith(REDACTED[:9])


def _digits(value: int) -> str:
    """A number as text; empty for huge numbers, which Python refuses to convert."""
    return str(value) if value.bit_length() < 256 else ""


def _inside_word(text: str, end: int) -> bool:
    """True if the characters before and at this position belong to one word."""
    return 0 < end < len(text) and all(char.isalnum() or char == "_" for char in text[end - 1 : end + 1])


def _without_user_in(text: str) -> str:
    return _USER.sub(_without_user, text) if "://" in text else text


def _without_user(found: re.Match[str]) -> str:
    user = found.group()
    return REDACTED if ":" in user or len(user) >= 16 else user


def _without_scheme(found: re.Match[str]) -> str:
    value = found["value"]
    start = found.start("value") - found.start()
    if found[1].lower() == "basic":
        secret = _holds_a_password(value)
    else:
        secret = len(value) >= 20 or any(char.isdigit() for char in value)
    return found.group()[:start] + REDACTED if secret else found.group()


def _holds_a_password(text: str) -> bool:
    """True if the text is `user:password` in base64."""
    try:
        return b":" in base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    except (binascii.Error, ValueError):
        return False


def safe_url(url: object) -> str:
    """A URL for a message: its scheme, host, port and path, without user, password and query.

    >>> safe_url("redis://:pw@host:6379/0?password=x"), safe_url("https://[bad"), safe_url("no url")
    ('redis://host:6379/0', 'https://...', 'no url')
    """
    text = str(url)
    scheme, colon, _ = text.partition("://")
    if not colon:
        return cast(str, Redactor(environment={})(text))
    try:
        parts = urlsplit(text)
        host, port = parts.hostname or "", parts.port
    except ValueError:  # the end of the password is unknown
        return f"{scheme}://..."
    if "@" in parts.path + parts.query + parts.fragment:  # the password may hold a sign that ends the host
        return f"{scheme}://..."
    host = f"[{host}]" if ":" in host else host
    return f"{scheme}://{host}{f':{port}' if port else ''}{parts.path}"


def shown(name: str, value: Any) -> Any:
    """Redact the value of a field for a `repr`, if its name or its content is that of a secret.

    >>> shown("endpoint", "redis://:pw@host/queue"), shown("headers", {"Authorization": "x"})
    ('redis://[redacted]@host/queue', {'Authorization': '[redacted]'})
    """
    if not isinstance(value, str | dict) or not value:
        return cast(Any, value)
    redacted = Redactor(environment={})
    if isinstance(value, str) and "://" not in value and not redacted.names_a_secret(name):
        return value
    return redacted({name: cast(Any, value)})[name]
