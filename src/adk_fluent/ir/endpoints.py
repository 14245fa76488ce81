"""Endpoints: the URLs of services, and those of queues with the server and the name of the queue."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from adk_fluent.errors import ArgumentError

SCHEMES: Final = ("redis", "rediss", "nats", "amqp", "amqps", "pubsub")
"""The URL schemes of message brokers."""
ENGINE: Final = "temporal"
"""The URL scheme of a task queue of the durable engine."""

_TOPIC: Final = re.compile(r"projects/([^/]+)/topics/([A-Za-z][\w.~+%-]{2,200})")
_NAME: Final = re.compile(r"[\w.:~+%-]{1,200}")


@dataclass(frozen=True, slots=True)
class QueueAddress:
    """The address of a queue.

    Attributes:
        scheme: the URL scheme, which names the kind of broker.
        server: the URL of the server; for Pub/Sub the name of the project.
        queue: the name of the queue.
    """

    scheme: str
    server: str
    queue: str


def place_of_queue(endpoint: str) -> QueueAddress:
    """Parse the URL of a queue.

    Raises:
        ArgumentError: `endpoint` is not the URL of a queue; the message never shows a password.
    """
    scheme, separator, rest = endpoint.partition("://")
    shown = f"{scheme}{separator}{rest.rpartition('@')[2]}"
    if not separator or scheme not in (*SCHEMES, ENGINE):
        known = ", ".join(f"{each}://" for each in (*SCHEMES, ENGINE))
        raise ArgumentError(f"TransportConfig(endpoint={shown!r:.80}): queues are at {known}.")
    if scheme == "pubsub":
        found = _TOPIC.fullmatch(rest)
        if found is None:
            raise ArgumentError(
                f"TransportConfig(endpoint={shown!r:.80}): a topic is at pubsub://projects/PROJECT/topics/TOPIC"
                "; its name begins with a letter and has three characters or more."
            )
        return QueueAddress(scheme, found[1], found[2])
    server, _, queue = rest.rstrip("/").rpartition("/")
    if not _has_host(f"{scheme}://{server}") or not _NAME.fullmatch(queue):
        raise ArgumentError(
            f"TransportConfig(endpoint={shown!r:.80}): it names a server and a queue, as "
            f"{scheme}://HOST:PORT/QUEUE; the name of a queue has letters, digits and . _ - : only."
        )
    return QueueAddress(scheme, f"{scheme}://{server}", queue)


def _has_host(url: str) -> bool:
    from urllib.parse import urlsplit  # late: most programs name no URL, and it loads ipaddress

    try:
        parts = urlsplit(url)
        return bool(parts.hostname) and parts.port != 0
    except ValueError:  # for example, the port is not a number
        return False


def is_url(value: object) -> bool:
    """True if a value is an http or https URL to which a request can be sent.

    >>> is_url("https://pay.example:443/a2a"), is_url("pay.example"), is_url("http://x:99999"), is_url(3)
    (True, False, False, False)
    """
    if not isinstance(value, str) or "\\" in value:  # some clients read a backslash as a slash
        return False
    from urllib.parse import urlsplit

    try:
        parts = urlsplit(value)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # brackets that do not match, or an invalid port
        return False
