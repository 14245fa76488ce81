"""URLs as users and cards write them."""

from __future__ import annotations

from urllib.parse import urlsplit


def is_url(value: object) -> bool:
    """Whether a value is an http or https URL to which a request can go.

    >>> is_url("https://pay.example:443/a2a"), is_url("pay.example"), is_url("http://x:99999"), is_url(3)
    (True, False, False, False)
    """
    if not isinstance(value, str) or "\\" in value:  # which some read as a slash
        return False
    try:
        parts = urlsplit(value)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # brackets that do not match, or a port that is none
        return False
