"""Finding personal data in text: what has a shape that can be recognised, and a checksum where it has one.

Every search is linear in the length of the text: no pattern can be matched in more than one way, and what is
repeated is bounded.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Final, TypeAlias

from adk_fluent.middleware.arguments import of_type

Span: TypeAlias = tuple[int, int, str]
"""Where personal data stands in a text, and its kind: start, end (exclusive), kind such as `"EMAIL"`."""

Detector: TypeAlias = Callable[[str], Iterable[Span]]
"""Finds personal data in a text."""


def find_personal_data(text: str) -> list[Span]:
    """What in a text looks like an e-mail address, IBAN, payment card, SSN, IP address or telephone number.

    An IBAN must have the length of its country and pass mod 97, a card number must pass Luhn, a US social
    security number must be one that can be given out, and the IP address of the machine itself is none.
    Telephone numbers begin with `+`, `00` or `0`, or are written like `555-123-4567`. Names and postal
    addresses are not found: give `pii_filter` a detector that knows yours.

    Example:
        >>> text = "Ann, ann@example.org, card 4111 1111 1111 1111, not 4111 1111 1111 1112"
        >>> [(text[start:end], kind) for start, end, kind in find_personal_data(text)]
        [('ann@example.org', 'EMAIL'), ('4111 1111 1111 1111', 'CREDIT_CARD')]
    """
    of_type(text, str, "find_personal_data(text=)", "text")
    found: list[Span] = []
    for kind, spans in _KINDS:
        of_kind = _joined(sorted(spans(text)))
        found += ((start, end, kind) for start, end in of_kind)
        text = _without(text, of_kind)
    return sorted(found)


def _joined(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The spans, those that overlap as one."""
    found: list[tuple[int, int]] = []
    for start, end in spans:
        if found and start < found[-1][1]:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        else:
            found.append((start, end))
    return found


def _without(text: str, spans: list[tuple[int, int]]) -> str:
    """The text with what was found made unrecognisable, every place in it staying the same."""
    pieces: list[str] = []
    at = 0
    for start, end in spans:
        pieces += text[at:start], "\0" * (end - start)
        at = end
    return "".join([*pieces, text[at:]]) if spans else text


# --- e-mail ---------------------------------------------------------------------------------------

# RFC 5321: 64 characters before the @, labels of 63.
_DOMAIN: Final = re.compile(r"@(?:[^\W_](?:[\w-]{0,62})\.){1,8}[^\W\d_]{2,63}")
_LOCAL: Final = re.compile(r"[\w.!#$%&'*+/=?^`{|}~-]")
_LOCAL_LENGTH: Final = 64


def _emails(text: str) -> Iterator[tuple[int, int]]:
    for match in _DOMAIN.finditer(text):
        start = at = match.start()
        while start > max(0, at - _LOCAL_LENGTH) and _LOCAL.match(text[start - 1]):
            start -= 1
        while start < at and text[start] == ".":  # an ellipsis before it
            start += 1
        if start < at:
            yield start, match.end()


# --- IBAN -----------------------------------------------------------------------------------------

_IBAN: Final = re.compile(r"(?<![^\W_])[A-Za-z]{2}[0-9]{2}(?=[ -]?[A-Za-z0-9])")

_IBAN_LENGTHS: Final = {
    country: int(length)
    for length, countries in {
        "15": "NO", "16": "BE", "18": "DK FO FI GL NL SD", "19": "MK SI", "20": "AT BA EE KZ LT LU MN XK",
        "21": "CH HR LI LV", "22": "BG BH CR DE GB GE IE ME RS VA", "23": "AE GI IL IQ OM SO TL",
        "24": "AD CZ ES MD PK RO SA SE SK TN VG", "25": "LY PT ST", "26": "IS TR",
        "27": "BI DJ FR GR IT MC MR SM", "28": "AL AZ BY CY DO GT HN HU LB NI PL SV", "29": "BR EG PS QA UA",
        "30": "JO KW MU YE", "31": "MT SC", "32": "LC", "33": "RU",
    }.items()
    for country in countries.split()
}  # fmt: skip
"""Characters of an IBAN by country: SWIFT's IBAN registry, release 99 (2024)."""


def _ibans(text: str) -> Iterator[tuple[int, int]]:
    for match in _IBAN.finditer(text):
        length = _IBAN_LENGTHS.get(match[0][:2].upper())
        end = length and _end_of(text, match.start(), length)
        if end and _mod_97(text[match.start() : end]):
            yield match.start(), end


def _end_of(text: str, start: int, length: int) -> int | None:
    """Where so many letters and digits end that may stand in groups; `None` if there are fewer, or more."""
    count, at = 0, start
    while at < len(text) and count < length:
        if text[at].isascii() and text[at].isalnum():
            count += 1
        elif text[at] not in " -" or text[at - 1] in " -":
            return None
        at += 1
    return None if count < length or (at < len(text) and text[at].isalnum()) else at


def _mod_97(text: str) -> bool:
    """ISO 7064, MOD 97-10: the country and the check digits at the end, letters as 10 to 35."""
    plain = "".join(char for char in text if char.isalnum())
    return int("".join(str(int(char, 36)) for char in plain[4:] + plain[:4])) % 97 == 1


# --- payment cards --------------------------------------------------------------------------------

_DIGITS: Final = re.compile(r"(?<!\d)\d(?:[ -]?\d){12,}")
_GROUP: Final = re.compile(r"\d+")
_CARD_LENGTHS: Final = range(13, 20)
_CARD_GROUPS: Final = 5


def _cards(text: str) -> Iterator[tuple[int, int]]:
    for match in _DIGITS.finditer(text):
        groups = [(group.start(), group.end()) for group in _GROUP.finditer(text, match.start(), match.end())]
        done = 0
        for first, (start, _) in enumerate(groups):
            end = _card_from(text, groups[first : first + _CARD_GROUPS]) if start >= done else None
            if end is not None:
                yield start, end
                done = end


def _card_from(text: str, groups: list[tuple[int, int]]) -> int | None:
    """Where a card number ends that begins with the first of these groups of digits."""
    if text[groups[0][0]] not in "23456":
        return None
    digits = ""
    longest = None
    for start, end in groups:
        digits += text[start : min(end, start + 20)]
        if len(digits) > _CARD_LENGTHS[-1]:
            break
        if len(digits) in _CARD_LENGTHS and _luhn(digits):
            longest = end
    return longest


def _luhn(digits: str) -> bool:
    """ISO/IEC 7812-1, annex B: each second digit from the right doubled, the digits of all added up."""
    total = 0
    for place, digit in enumerate(map(int, reversed(digits))):
        total += sum(divmod(digit * 2, 10)) if place % 2 else digit
    return total % 10 == 0


# --- social security numbers ----------------------------------------------------------------------

# Areas 000, 666 and 900 to 999, group 00 and serial 0000 are never given out.
_SSN: Final = re.compile(r"(?<![\d-])(?!000|666|9)\d{3}([- ])(?!00)\d{2}\1(?!0000)\d{4}(?![\d-])")


def _ssns(text: str) -> Iterator[tuple[int, int]]:
    return (match.span() for match in _SSN.finditer(text))


# --- IP addresses ---------------------------------------------------------------------------------

_IP: Final = re.compile(
    r"(?<![\w.])\d{1,3}(?:\.\d{1,3}){3}(?!\.?\w)|(?<![\w:.])[0-9A-Fa-f:]{2,39}(?:\.\d{1,3}){0,3}(?![\w:])"
)


def _ips(text: str) -> Iterator[tuple[int, int]]:
    for match in _IP.finditer(text):
        end = match.end() - (match[0].endswith(":") and not match[0].endswith("::"))
        try:
            address = ipaddress.ip_address(text[match.start() : end])
        except ValueError:
            continue
        if not (address.is_loopback or address.is_unspecified):
            yield match.start(), end


# --- telephone numbers ----------------------------------------------------------------------------

_MORE: Final = r"(?:[ .\-/]?\(\d{1,5}\)[ .\-/]?\d+|[ .\-/]\d+)"
_NUMBER: Final = re.compile(
    rf"(?<![\w+.])(?:(?:\+ ?|00)[1-9]\d*|\(0[1-9]\d{{0,4}}\) ?\d+|0[1-9]\d*){_MORE}{{0,6}}"
)
_DATE: Final = re.compile(r"\d{1,2}([./-])\d{1,2}\1\d{2,4}(?!\d)")
_AMERICAN: Final = re.compile(
    r"(?<![\w+.-])(?:1[ .-])?(?:\([2-9]\d\d\) ?|[2-9]\d\d[ .-])[2-9]\d\d[ .-]\d{4}(?![\w-])"
)


def _phones(text: str) -> Iterator[tuple[int, int]]:
    for match in _NUMBER.finditer(text):
        if (end := _end_of_phone(match)) is not None:
            yield match.start(), end


def _american(text: str) -> Iterator[tuple[int, int]]:
    return (match.span() for match in _AMERICAN.finditer(text))


def _end_of_phone(match: re.Match[str]) -> int | None:
    """Where the number ends, without groups that make it longer than numbers are (E.164: 15 digits)."""
    abroad = match[0].startswith(("+", "00"))
    least, most = (8, 17 if match[0].startswith("00") else 15) if abroad else (9, 13)
    count, end = 0, None
    for group in _GROUP.finditer(match.string, match.start(), match.end()):
        count += group.end() - group.start()
        if count > most:
            break
        end = group.end() if count >= least else None
    return None if end is None or (not abroad and _DATE.match(match[0])) else end


_KINDS: Final[tuple[tuple[str, Callable[[str], Iterator[tuple[int, int]]]], ...]] = (
    ("EMAIL", _emails),
    ("IBAN", _ibans),
    ("CREDIT_CARD", _cards),
    ("SSN", _ssns),
    ("IP_ADDRESS", _ips),
    ("PHONE", _phones),
    ("PHONE", _american),
)
"""What finds each kind. Where two fit, the first is meant."""
