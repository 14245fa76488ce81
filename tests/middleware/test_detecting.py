"""Which personal data is found, which is not, and that long texts take no longer than they are long."""

from __future__ import annotations

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adk_fluent.middleware.detecting import find_personal_data


def found(text: str) -> list[tuple[str, str]]:
    """Each piece of personal data with its kind."""
    return [(kind, text[start:end]) for start, end, kind in find_personal_data(text)]


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("EMAIL", "ann.o'neil+shop@mail.example.co.uk"),
        ("EMAIL", "jörg@müller.example"),
        ("IBAN", "DE89 3704 0044 0532 0130 00"),
        ("IBAN", "GB82WEST12345698765432"),
        ("IBAN", "no93 8601 1117 947"),
        ("CREDIT_CARD", "4111 1111 1111 1111"),
        ("CREDIT_CARD", "3782-822463-10005"),
        ("CREDIT_CARD", "5555555555554444"),
        ("SSN", "078-05-1120"),
        ("SSN", "536 90 4399"),
        ("IP_ADDRESS", "203.0.113.7"),
        ("IP_ADDRESS", "2001:db8::ff00:42:8329"),
        ("PHONE", "+49 30 1234567"),
        ("PHONE", "0044 20 7946 0958"),
        ("PHONE", "(555) 234-5678"),
        ("PHONE", "555-234-5678"),
        ("PHONE", "0171/1234567"),
    ],
)
@pytest.mark.parametrize("around", ["{}", "Write to {}, please.", "id 12 {} 2024", "<{}>", "x: {};", "({})"])
def test_what_is_found(kind: str, text: str, around: str) -> None:
    """Each kind is found, whole and by its name, whatever stands around it."""
    pieces = [piece for known, piece in found(around.format(text)) if known == kind]
    assert [piece.removesuffix(" 2024") for piece in pieces] == [text]


@pytest.mark.parametrize(
    "text",
    [
        "DE89370400440532013001",
        "4111 1111 1111 1112",
        "0000 0000 0000 0000",
        "666-05-1120",
        "123-00-1120",
        "256.1.1.1",
        "127.0.0.1 and ::1",
        "std::vector",
        "at 12:30:45 on 2024-01-15",
        "01.02.2024 12",
        "order 1234567 of 42 items",
        "a @ b, @decorator, user@localhost",
        "3.14159265358979",
        "Pi is 3",
        "",
    ],
)
def test_what_is_not_found(text: str) -> None:
    """Wrong checksums, numbers that are never given out, dates, versions and plain numbers are left alone."""
    assert found(text) == []


def test_several_kinds_in_one_text() -> None:
    """All are found, in order; where two shapes fit, the checksum decides."""
    text = "ann@example.org paid 4111111111111111 from 203.0.113.7 to DE89370400440532013000."
    assert [kind for kind, _ in found(text)] == ["EMAIL", "CREDIT_CARD", "IP_ADDRESS", "IBAN"]


def test_a_card_between_other_numbers() -> None:
    """Digits before and after a card number do not hide it."""
    assert found("12 4111 1111 1111 1111 05/27 123")[0] == ("CREDIT_CARD", "4111 1111 1111 1111")


digits = st.text("0123456789", min_size=11, max_size=17)


def with_luhn(number: str) -> str:
    """The number with the digit that makes it pass, computed from the definition."""
    for last in "0123456789":
        doubled = [int(d) * (2 if i % 2 else 1) for i, d in enumerate(reversed(number + last))]
        if sum(d - 9 if d > 9 else d for d in doubled) % 10 == 0:
            return number + last
    raise AssertionError


@given(st.sampled_from("3456"), digits, st.data())
def test_every_card_number_and_no_slip(first: str, rest: str, data: st.DataObject) -> None:
    """A number that passes Luhn is found; with any one digit wrong it is none."""
    number = with_luhn(first + rest)
    assert ("CREDIT_CARD", number) in found(f"card: {number}")
    place = data.draw(st.integers(1, len(number) - 1))
    other = data.draw(st.sampled_from([d for d in string.digits if d != number[place]]))
    wrong = number[:place] + other + number[place + 1 :]
    assert "CREDIT_CARD" not in [kind for kind, _ in found(f"card: {wrong}")]


@given(st.text("0123456789", min_size=18, max_size=18), st.integers(4, 21), st.data())
def test_every_iban_and_no_slip(account: str, place: int, data: st.DataObject) -> None:
    """A German IBAN with right check digits is found; with any one digit wrong it is none."""
    check = 98 - int(f"{account}131400") % 97
    iban = f"DE{check:02}{account}"
    assert ("IBAN", iban) in found(f"to {iban}.")
    other = data.draw(st.sampled_from([d for d in string.digits if d != iban[place]]))
    wrong = iban[:place] + other + iban[place + 1 :]
    assert "IBAN" not in [kind for kind, _ in found(f"to {wrong}.")]


@given(st.text(max_size=300))
def test_spans_lie_in_the_text_and_apart(text: str) -> None:
    """What is found lies in the text, in order, and nothing twice."""
    at = 0
    for start, end, _ in find_personal_data(text):
        assert at <= start < end <= len(text)
        at = end


HOSTILE = (
    "a", "1", "a.", "1 ", "1-", "a@", "@a.", "a@b.", "+1 ", "(1", "::", "a:", "1.", "DE00 ", "0", "0 ", "[A_",
    "4111 ", "DE89 3704 ", "078-05-", "+", "a-", "é", "1.1.1.", "0.0.0.0 ", "f:", "00 0", "4" * 20 + " ",
)  # fmt: skip


@pytest.mark.parametrize("piece", HOSTILE)
@pytest.mark.newest
def test_hostile_texts_take_no_longer(piece: str) -> None:
    """300,000 characters made to be searched again and again are searched once: else this would not end."""
    text = piece * (300_000 // len(piece))
    assert all(0 <= start < end <= len(text) for start, end, _ in find_personal_data(text))
