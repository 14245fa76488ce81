"""How far a card is believed that came from somewhere else."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from adk_fluent._redaction import safe_url
from adk_fluent.a2a.protocol import cards, sdk
from adk_fluent.errors import ArgumentError


@dataclass(frozen=True, slots=True)
class Believed:
    """What of a card counts.

    Attributes:
        name: a Python identifier, made of what it calls itself.
        url: where calls go.
        public_only: whether the address there must be public.
    """

    name: str
    url: str
    public_only: bool

    @classmethod
    def of(cls, card: object, *, allow_private: bool, allow_http: bool) -> Believed:
        """What counts of a card, of its JSON, or of what a directory found.

        Raises:
            ArgumentError: it is no card, or names no URL that may be called.
        """
        near = bool(getattr(card, "is_near", False))  # found by a directory on this machine
        held = getattr(card, "card", card)
        if not isinstance(held, Mapping):
            sdk.need("from_card()")
        try:
            told = sdk.json_of(held)
        except ValueError as error:
            raise ArgumentError(f"from_card(): {error}.") from error
        try:
            found = cards.well_formed(told)
        except cards.CardError as error:
            raise ArgumentError(f"from_card(): the card {_called(told)!r:.80} is none: {error}.") from error
        url = sdk.urls_in(found)[0]
        if allow_private or (near and cards.is_loopback(url)):
            return cls(_identifier(found), url, public_only=False)
        if _is_known_private(url):
            raise ArgumentError(
                f"from_card(): {safe_url(url)} is not a public address. If it is meant, say "
                "allow_private=True."
            )
        try:
            cards.check_scheme(url, allow_http=allow_http)
        except cards.CardError as error:
            raise ArgumentError(f"from_card(): {error}") from error
        return cls(_identifier(found), url, public_only=True)


def _is_known_private(url: str) -> bool:
    """Whether a URL says by itself that its address is private; of a name only a look-up tells."""
    if cards.is_loopback(url):
        return True
    try:
        ipaddress.ip_address(urlsplit(url).hostname or "")
    except ValueError:
        return False
    return cards.is_private(urlsplit(url).hostname or "")


def _called(card: Mapping[str, Any]) -> str:
    return str(card.get("name") or "")


def _identifier(card: Mapping[str, Any]) -> str:
    name = re.sub(r"\W+", "_", _called(card), flags=re.ASCII).strip("_")[:60]
    return name if name.isidentifier() and name != "user" else f"remote_{name}".rstrip("_")
