"""Redaction: which values are secrets, in JSON and in texts, and which are not."""

from __future__ import annotations

import base64
import bz2
import gzip
import hashlib
import io
import json
import lzma
import re
import sys
import tarfile
import zipfile
import zlib
from typing import Any
from urllib.parse import quote, unquote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adk_fluent import Agent, RemoteAgent, T
from adk_fluent._redaction import REDACTED, Redactor, safe_url
from adk_fluent.errors import ArgumentError
from adk_fluent.ir.annotations import TransportConfig
from tests.sampling import examples

SECRET_KEYS: list[str] = re.findall(
    r"\S+",
    "accessToken refreshToken dbPassword secretKey secret_key tokens OPENAI_API_KEY x-api-key apiKey APIKey "
    "client-secret accesstoken PGPASSWORD password2 token_value Authorization set-cookie credentials",
)

OTHER_KEYS: list[str] = re.findall(
    r"\S+",
    "max_tokens maxTokens token_count total_tokens prompt_token_count candidatesTokenCount cached_tokens "
    "max_output_tokens author secretary monkey tokenizer key keys cookie_policy session_id tokens_used",
)


def redactor(**environment: str) -> Redactor:
    """A redactor that knows of no other environment."""
    return Redactor(environment=environment)


@pytest.mark.parametrize("key", SECRET_KEYS)
def test_keys_are_matched_by_their_words(key: str) -> None:
    """Keys in camel, snake and kebab case name a secret if they end with the words of one."""
    assert redactor()({key: "abc", "a": [{key: ["abc"]}]}) == {key: REDACTED, "a": [{key: [REDACTED]}]}


@pytest.mark.parametrize("key", OTHER_KEYS)
def test_other_keys_stay(key: str) -> None:
    """Keys that only contain such a word, and counts of tokens, keep their values."""
    assert redactor()({key: "abc"}) == {key: "abc"}


def test_numbers_under_tokens_are_counts() -> None:
    """`tokens: 12` is a count; text, and numbers under other names of secrets, are secrets."""
    redacted = redactor()
    counts: dict[str, Any] = {"tokens": 12, "usage": {"tokens": {"input": 3}}, "access_tokens": [1, 2]}
    assert redacted(counts) == counts
    assert redacted("tokens=12, tokens: 4096") == "tokens=12, tokens: 4096"
    assert redacted({"tokens": "abc", "token": 12, "pin_secret": 1234.5}) == {
        "tokens": REDACTED,
        "token": REDACTED,
        "pin_secret": REDACTED,
    }
    assert redacted({"token": None, "secret": True, "password": ""}) == {
        "token": None,
        "secret": True,
        "password": "",
    }


TEXTS = {
    '{"accessToken": "abc", "n": 1}': '{"accessToken": "[redacted]", "n": 1}',
    'So: {"token": 12345678, "a": 1}.': 'So: {"token": "[redacted]", "a": 1}.',
    '```json\n{"password": "a b"}\n```': '```json\n{"password": "[redacted]"}\n```',
    '{\\"token\\": \\"abc\\"}': '{\\"token\\": \\"[redacted]\\"}',
    "{'password': 'x'}": "{'password': '[redacted]'}",
    "# .env\nOPENAI_API_KEY=sk1\nDEBUG=1": "# .env\nOPENAI_API_KEY=[redacted]\nDEBUG=1",
    "export DB_PASSWORD=a&b;c\nX=1": "export DB_PASSWORD=[redacted]\nX=1",
    "run --password=bar --debug": "run --password=[redacted] --debug",
    "GET https://h/x?api_key=abc&n=1": "GET https://h/x?api_key=[redacted]&n=1",
    "url=https://h/?sig=abc": "url=https://h/?sig=[redacted]",
    "Authorization: Basic dXNlcjpwYXNz\nX: 1": "Authorization: [redacted]\nX: 1",
    "header Basic dXNlcjpwYXNz sent": "header Basic [redacted] sent",
    "Bearer abcdefgh12345": "Bearer [redacted]",
    "Cookie: a=b; c=d": "Cookie: [redacted]",
    "password: hunter2": "password: [redacted]",
    "redis://:pw@h and amqp://u:p@h/v": "redis://[redacted]@h and amqp://[redacted]@h/v",
    "postgresql://u:p@ss@h/db": "postgresql://[redacted]@h/db",
    "sk_live_abcdefghij": REDACTED,
    "hf_abcdefghijklmnopqrst": REDACTED,
    "glpat-abcdefghij1234567890": REDACTED,
    "sk-abcdefghijklmnop1234": REDACTED,
}


@pytest.mark.parametrize("text", TEXTS)
def test_secrets_in_texts_are_redacted(text: str) -> None:
    """Named values, tokens of services, headers and passwords in URLs are redacted in texts."""
    redacted = redactor()
    assert redacted(text) == TEXTS[text]
    assert redacted({"result": [text]}) == {"result": [TEXTS[text]]}


@pytest.mark.parametrize(
    "text",
    [
        "The token: please enter it.",
        "Basic information about bearer instruments",
        "See https://medium.com/@user and ssh://git@host/x",
        "password=None, token: str = None",
        "Your password: required",
        '{"a": 1}  ',
        "[not json",
    ],
)
def test_other_texts_stay(text: str) -> None:
    """Prose, signatures of functions and names of users are no secrets."""
    assert redactor()(text) == text


def test_ordinary_words_are_redacted_under_their_key_alone() -> None:
    """A password such as `user` renames nothing, whether it comes from the environment or from a key."""
    redacted = redactor(DB_PASSWORD="user", A_SECRET="model", B_TOKEN="function_response")
    said = {"role": "user", "model": {"user": 1}, "function_response": {"text": "the user"}}
    assert redacted({"password": "user", **said}) == {"password": REDACTED, **said}


def test_distinctive_values_are_redacted_everywhere() -> None:
    """A value that was once under the key of a secret is one in texts too, and as a number, from then on."""
    redacted = redactor(SHOP_API_KEY="correct-horse-battery")
    assert redacted({"token": "$abc-4711", "pin_secret": 1234567890}) != {}
    assert redacted(["It is $abc-4711.", "x$abc-47112", 1234567890, "correct-horse-battery!"]) == [
        f"It is {REDACTED}.",
        "x$abc-47112",
        REDACTED,
        f"{REDACTED}!",
    ]


def test_keys_hold_no_tokens_of_services() -> None:
    """A token that is itself a key is redacted, and no entry is lost by that."""
    made = redactor()({"sk-abcdefghijklmnop1234": 1, "sk-abcdefghijklmnop5678": 2})
    assert made == {REDACTED: 1, f"{REDACTED} 2": 2}


NOTES = "My notes, für später.\nAPI_KEY=zebra-4711\nand sk-abcdefghijklmnop12\n"
CODECS = ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "latin-1"]


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


@pytest.mark.parametrize("codec", CODECS)
def test_secrets_in_files_are_redacted_in_any_encoding(codec: str) -> None:
    """A text in base64, as a file, in a `data:` URI or in a sentence, loses its secrets and nothing else."""
    data = NOTES.encode(codec)
    kept = NOTES.replace("zebra-4711", REDACTED).replace("sk-abcdefghijklmnop12", REDACTED)
    forms: list[Any] = [
        {"data": _base64(data), "mime_type": "text/plain"},
        {"file_data": {"file_uri": f"data:text/plain;base64,{_base64(data)}"}},
        f"Look: {base64.urlsafe_b64encode(data).decode()}.",
        json.dumps({"note": [_base64(data)]}),
        base64.encodebytes(data * 3).decode(),
    ]
    for form in forms:
        said = json.dumps(redactor()(form))
        (run,) = re.findall(r"[A-Za-z0-9+/_-]{40,}=*", said)
        text = base64.b64decode(run.replace("-", "+").replace("_", "/") + "==").decode(codec)
        assert text.replace("\ufeff", "") in (kept, kept * 3)


INSIDE = {
    "data:text/plain,API_KEY%3Dzebra-4711": "data:text/plain,API_KEY%3D%5Bredacted%5D",
    '{"a": "sk\\u002dabcdefghijklmnop12"}\n{"b": 1}': '{"a": "[redacted]"}\n{"b": 1}',
    r"https:\/\/user:zebra-4711@host": "https://[redacted]@host",
    "at /files/QVBJX0tFWT16ZWJyYS00NzEx": "at /files/QVBJX0tFWT1bcmVkYWN0ZWRd",
    "UVZCSlgwdEZXVDE2WldKeVlTMDBOekV4": "UVZCSlgwdEZXVDFiY21Wa1lXTjBaV1Jk",
    "?q=the%20key%20is%20sk-abcdefghijklmnop12": "?q=the key is [redacted]",
    "/a?to=https%3A%2F%2Fb%2F%3Ftoken%3Dzebra-4711 100%": "/a?to=https://b/?token=[redacted] 100%",
    "API_KEY%25253Dzebra-4711 in 3%25": "API_KEY=[redacted] in 3%25",
    "/a%20b?api_key=zebra-4711": "/a%20b?api_key=[redacted]",
    "{&quot;api_key&quot;: &quot;zebra-4711&quot;}": "{&quot;api_key&quot;: &quot;[redacted]&quot;}",
    "password=zebra&#45;4711": "password=[redacted]",
    "&#115;&#x6B;-abcdefghijklmnop12": "[redacted]",
}


@pytest.mark.parametrize("text", INSIDE)
def test_secrets_in_other_forms_are_redacted(text: str) -> None:
    """Escapes of JSON, URLs and HTML, and base64 in a path or in base64, hide nothing."""
    assert redactor()(text) == INSIDE[text]
    assert redactor()(INSIDE[text]) == INSIDE[text]


@pytest.mark.parametrize("text", ["\\" + "u005c" * 9_000, "%" + "25" * 9_000, "&" + "amp;" * 9_000])
def test_escapes_in_escapes_end(text: str) -> None:
    """A text that escapes its escapes thousands of times is read a few levels deep, without an error."""
    assert redactor()(text) == text


@pytest.mark.parametrize("codec", ["ascii", "utf-16-le"])
def test_a_file_that_is_no_text_is_left_out_if_it_holds_a_secret(codec: str) -> None:
    """Text in a picture cannot be changed: then the file says that it was redacted. Other pictures stay."""
    noise = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 2
    picture = {"data": _base64(noise), "mime_type": "image/png"}
    small = _base64(b"\x89PNG\r\n\x1a\n\0\0\0\r" + "API_KEY=zebra-4711\n".encode(codec) + b"\0\xff")
    assert redactor()({**picture, "data": small}) == {**picture, "data": _base64(REDACTED.encode())}
    secret = _base64(noise + "Comment: API_KEY=zebra-4711\n".encode(codec) + noise)
    assert redactor()(picture) == picture
    assert redactor()({**picture, "data": secret}) == {**picture, "data": _base64(REDACTED.encode())}


def _deflated(data: bytes) -> bytes:
    made = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return made.compress(data) + made.flush()


def _archive(kind: str, data: bytes) -> bytes:
    made = io.BytesIO()
    if kind == "zip":
        with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("word/document.xml", data)
        return made.getvalue()
    mode = "w:gz" if kind == "tar.gz" else "w"
    with tarfile.open(fileobj=made, mode=mode) as archive:
        entry = tarfile.TarInfo("notes.txt")
        entry.size = len(data)
        archive.addfile(entry, io.BytesIO(data))
    return made.getvalue()


SECRET = b"API_KEY=zebra-4711"
COMPRESSED = {
    "gzip": gzip.compress(SECRET),
    "zlib": zlib.compress(SECRET),
    "deflate": _deflated(SECRET),
    "bz2": bz2.compress(SECRET),
    "xz": lzma.compress(SECRET),
    "lzma": lzma.compress(SECRET, lzma.FORMAT_ALONE),
    "zip": _archive("zip", SECRET),
    "a ZIP file after a program": b"\x7fELF\0\1" * 99 + _archive("zip", SECRET),
    "tar": _archive("tar", SECRET),
    "tar.gz": _archive("tar.gz", SECRET),
    "PDF": b"%PDF-1.4\n1 0 obj <</Filter /ASCIIHexDecode>> stream " + SECRET.hex().encode(),
    "PNG": b"\x89PNG\r\n\x1a\n" + b"\0\1" * 99 + b"\0\0\0\x1czTXtComment\0\0" + zlib.compress(SECRET),
}


@pytest.mark.parametrize("kind", COMPRESSED)
def test_what_is_compressed_is_left_out(kind: str) -> None:
    """A note with size and hash stands for a compressed file, and for one in base64 or hex in a text."""
    data = COMPRESSED[kind]
    note = rf"\[left out: [\w/.-]+, {len(data)} bytes, sha256 {hashlib.sha256(data).hexdigest()}\]"
    forms: list[Any] = [
        {"data": _base64(data), "mime_type": "application/octet-stream"},
        {"data": _base64(data), "mime_type": "image/png"},  # a wrong type hides nothing
        {"data": _base64(data), "mime_type": "text/plain"},
        f"data:application/x-thing;base64,{_base64(data)}",
        f"Look: {_base64(data)}.",
        f"Look: {data.hex()}.",
        json.dumps({"note": [base64.urlsafe_b64encode(data).decode()]}),
        base64.encodebytes(data).decode(),
    ]
    for form in forms:
        said = json.dumps(redactor()(form))
        run = max(re.findall(r"[A-Za-z0-9+/_-]{40,}=*", said), key=len)
        is_hex = re.fullmatch("[0-9a-f]+", run) is not None
        held = (
            bytes.fromhex(run) if is_hex else base64.b64decode(run.replace("-", "+").replace("_", "/") + "==")
        )
        assert re.fullmatch(note, held.decode())
        assert redactor()(json.loads(said)) == json.loads(said)
    quoted = redactor()(f"data:application/x-thing,{quote(data)}")
    assert re.fullmatch(note, unquote(quoted.partition(",")[2]))


OPAQUE = bytes(range(128, 256)) * 2


@pytest.mark.parametrize("kind", ["image/png", "audio/pcm;rate=16000", "video/mp4"])
def test_pictures_and_sounds_stay(kind: str) -> None:
    """Pictures, sounds and videos are kept, since they hold no text; so are files without a type."""
    for held in (
        {"data": _base64(b"\0\1" + OPAQUE), "mime_type": kind},
        {"signature": _base64(b"\0\1" + OPAQUE)},
    ):
        assert redactor()(held) == held


@pytest.mark.parametrize("kind", ["application/x-brotli", "application/octet-stream", "application/pdf"])
def test_other_files_that_are_no_text_are_left_out(kind: str) -> None:
    """A file that cannot be read, such as an encrypted one, is left out, and a note says its type."""
    made = redactor()({"data": _base64(b"\0\1" + OPAQUE), "mime_type": kind})
    assert base64.b64decode(made["data"]).decode().startswith(f"[left out: {kind}, 258 bytes, sha256 ")


IDS = ["adk-3f2b9c1e-1111-4222-8333-444455556666", "0123456789abcdef0123456789abcdef", "internationalization"]


@pytest.mark.parametrize("text", [*IDS, "parallel_2.sequence_3", _base64(b"only words"), "/usr/lib/py3/x"])
def test_what_only_looks_like_base64_stays(text: str) -> None:
    """Ids, names, paths, and base64 without a secret are left as they are."""
    assert redactor()(text) == text
    assert redactor()({"data": text, "mime_type": "text/plain"})["data"] == text


def test_the_work_grows_with_the_text_alone() -> None:
    """Four times as many secrets in a text four times as long take four times the work."""

    def work(count: int) -> int:
        names = [f"tok-{number:06d}-abc" for number in range(count)]
        value = {"items": [{"token": name} for name in names], "text": " ".join(names)}
        redacted = redactor()
        calls = 0

        def note(frame: object, event: str, argument: object) -> None:
            nonlocal calls
            calls += 1

        sys.setprofile(note)
        try:
            made = redacted(value)
        finally:
            sys.setprofile(None)
        assert "tok-" not in json.dumps(made)
        return calls

    assert work(1200) < 5 * work(300)


def _said(text: str) -> str:
    return f"token{text}password={text}"


@settings(max_examples=examples(200), deadline=None)
@given(st.text(alphabet='ab=:"{}[]/@?&\\ \n-_1', max_size=60).map(_said))
def test_redacting_again_changes_nothing(text: str) -> None:
    """Redacting a text twice gives the same text, and JSON stays JSON."""
    redacted = redactor()
    once = redacted({"a": text, "b": json.dumps({"password": text})})
    assert redactor()(once) == once
    assert json.loads(once["b"]) == {"password": REDACTED if text else ""}


def test_addresses_are_told_without_passwords() -> None:
    """A message has scheme, host, port and path of a URL; the scheme alone if a password may be in them."""
    for url, told in {
        "redis://u:pw@host:6379/0?password=pw": "redis://host:6379/0",
        "redis://:p/w@host:6379/0": "redis://...",
        "redis://:p#w@host": "redis://...",
        "http://u:pw@[::1]:80/a": "http://[::1]:80/a",
        "redis://:pw@host:port": "redis://...",
        "rediss://[bad": "rediss://...",
        "memory": "memory",
    }.items():
        assert safe_url(url) == told


def test_reprs_of_values_in_an_expression_have_no_passwords() -> None:
    """A URL or a header that a boundary or a tool holds is shown without its secret."""
    held: list[Any] = [
        TransportConfig(type="queue", endpoint="redis://ann:hunter22@host:6379/queue"),
        T.mcp("https://ann:hunter22@host/mcp?api_key=hunter22"),
        RemoteAgent("r", endpoint="https://ann:hunter22@host/a2a?api_key=hunter22").node,
    ]
    for each in held:
        assert "hunter22" not in repr(each), each
    told = Agent("a").tools(held[1]).explain()
    assert "mcp(https://host/mcp)" in str(told)
    assert "hunter22" not in str(told)
    with pytest.raises(ArgumentError) as caught:
        RemoteAgent("r", endpoint="ftp://ann:hunter22@host/")
    assert "hunter22" not in str(caught.value)
