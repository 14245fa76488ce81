"""Secrets stay out of recordings."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, cast

REDACTED: Final = "[redacted]"

_NAMES: Final = (
    "(?:^|[_.:-])(?:api[_-]?key|access[_-]?key|private[_-]?key|client[_-]?secret|secret|password|passwd|"
    "passphrase|token|authorization|credentials?|set[_-]?cookie|cookie)$"
)
"""How a key ends whose value is nobody's business."""

_VALUES: Final = (
    r"\bsk-[A-Za-z0-9_-]{16,}"  # OpenAI, Anthropic
    r"|\bAIza[0-9A-Za-z_-]{35}"  # Google
    r"|\bgh[pousr]_[A-Za-z0-9]{36,}|\bgithub_pat_[A-Za-z0-9_]{22,}"
    r"|\bxox[abprs]-[A-Za-z0-9-]{10,}"  # Slack
    r"|\bAKIA[0-9A-Z]{16}\b"  # AWS
    r"|\beyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]+"  # a JSON web token
    r"|(?<=Bearer )[A-Za-z0-9._~+/=-]{8,}"
    r"|(?<=://)[^/\s:@]+:[^/\s:@]+(?=@)"  # a user and a password in a URL
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)"
)
"""What the keys of well-known services look like in a text."""

_SHORTEST: Final = 4
"""Characters of the shortest value that is taken for a secret; shorter ones stand everywhere by chance."""


class Redactor:
    """Takes secrets out of JSON.

    Redacted are the values of keys that name a secret (`api_key`, `authorization`, `password`, `token`, ...),
    texts that look like the keys of well-known services, and the values of environment variables that name
    a secret. A value that was once found under such a key is redacted wherever it stands from then on, so
    that what was redacted in one place reads the same in all others.

    Args:
        keys: more keys whose values are secret.
        environment: by default that of this process.

    >>> redacted = Redactor(["ssn"])
    >>> redacted({"api_key": "zebra", "ssn": 12345, "tokens": 3, "text": "It is sk-abcdefghijklmnop1234."})
    {'api_key': '[redacted]', 'ssn': '[redacted]', 'tokens': 3, 'text': 'It is [redacted].'}
    >>> redacted(["The key is zebra."])
    ['The key is [redacted].']
    """

    def __init__(self, keys: Iterable[str] = (), environment: Mapping[str, str] | None = None) -> None:
        more = "".join(f"|^{re.escape(key)}$" for key in keys)
        self._secret = re.compile(_NAMES + more, re.IGNORECASE)
        found = os.environ if environment is None else environment
        named = (value for name, value in found.items() if self._secret.search(name))
        self._known = {value for value in named if len(value) >= _SHORTEST}
        self.learned: set[str] = set()
        self._pattern = self._compiled()

    def __call__(self, value: Any) -> Any:
        """The same without secrets."""
        if isinstance(value, str):
            return self._pattern.sub(REDACTED, value)
        if isinstance(value, list):
            return [self(item) for item in cast("list[Any]", value)]
        if isinstance(value, dict):
            entries = cast("dict[str, Any]", value).items()
            hidden = {key: self._hidden(item) for key, item in entries if self._secret.search(key)}
            return {key: hidden[key] if key in hidden else self(item) for key, item in entries}
        return value

    def everywhere(self, text: str) -> str:
        """A text without anything that was found to be a secret since it was written."""
        return self._pattern.sub(REDACTED, text) if self.learned else text

    def _hidden(self, value: Any) -> Any:
        """What stands under a key that names a secret."""
        if isinstance(value, list):
            return [self._hidden(item) for item in cast("list[Any]", value)]
        if isinstance(value, dict):
            return {key: self._hidden(item) for key, item in cast("dict[str, Any]", value).items()}
        text = str(value)
        if value is None or isinstance(value, bool) or len(text) < _SHORTEST or text == REDACTED:
            return value
        if text not in self._known:
            self._known.add(text)
            self.learned.add(text)
            self._pattern = self._compiled()
        return REDACTED

    def _compiled(self) -> re.Pattern[str]:
        words = sorted(self._known, key=lambda value: (-len(value), value))
        exact = [rf"(?<!\w){re.escape(word)}(?!\w)" for word in words]
        return re.compile("|".join([*exact, _VALUES]), re.DOTALL)
