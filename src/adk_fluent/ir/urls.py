"""Validation of URLs that users and agent cards give."""

from __future__ import annotations

from urllib.parse import urlsplit


def is_url(value: object) -> bool:
    """True if a value is an http or https URL to which a request can be sent.

    >>> is_url("https://pay.example:443/a2a"), is_url("pay.example"), is_url("http://x:99999"), is_url(3)
    (True, False, False, False)
    """
    if not isinstance(value, str) or "\\" in value:  # some clients read a backslash as a slash
        return False
    try:
        parts = urlsplit(value)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # brackets that do not match, or an invalid port
        return False
