"""`AgentDirectory`, `DirectoryServer`, `RemoteAgent.from_card`: found by ability, and believed with care."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import httpx
import pytest

from adk_fluent import Agent, RemoteAgent
from adk_fluent.a2a import AgentDirectory, AuthConfig, DirectoryServer, FoundAgent, book
from adk_fluent.a2a.book import Book
from adk_fluent.a2a.protocol import cards
from adk_fluent.a2a.protocol.connections import PublicOnly
from adk_fluent.errors import ArgumentError, DirectoryError, RemoteError
from adk_fluent.serve import A2AServer
from adk_fluent.testing import mock_backend
from tests.limits import LIMIT, in_thread
from tests.remote.others import listening

pytestmark = pytest.mark.newest


BOMB = gzip.compress(gzip.compress(bytes(5_000_000)))


def card(name: str, *skills: str, url: str = "") -> dict[str, Any]:
    """The card of an agent."""
    found: list[dict[str, Any]] = [{"id": skill, "name": skill, "tags": []} for skill in skills]
    return {"name": name, "url": url or f"https://{name}.example/a2a", "skills": found}


async def test_an_agent_is_found_by_what_it_can_do_and_called() -> None:
    """What a server tells of itself is registered, discovered, made an agent, and answers."""
    pay = Agent("pay").describe("Pays.")
    async with A2AServer(pay, backend=mock_backend({"pay": "Paid."})) as server, DirectoryServer() as hosted:
        directory = AgentDirectory(hosted.url)
        told = pay.to_agent_card(endpoint=server.url, skills=["process_refund"])
        await directory.register(told, server=server)
        (found,) = await directory.discover(capabilities=["Process_Refund"])
        assert (found.name, found.url) == ("pay", server.url)
        far = RemoteAgent.from_card(found)
        assert (await far.run("hi", backend=mock_backend(remotes="real"))).text == "Paid."


async def test_all_capabilities_and_tags_must_be_there() -> None:
    """Of several, each counts; agents come by name."""
    async with DirectoryServer(verify=False) as hosted:
        directory = AgentDirectory(hosted.url)
        await directory.register(card("b", "pay"), capabilities=["refund"], tags=["money", "eu"])
        await directory.register(card("a", "pay"), tags=["money"])

        async def names(**asked: list[str]) -> list[str]:
            return [agent.name for agent in await directory.discover(**asked)]

        assert await names() == ["a", "b"]
        assert await names(capabilities=["pay", "refund"]) == ["b"]
        assert await names(tags=["money"]) == ["a", "b"]
        assert await names(capabilities=["pay"], tags=["eu"]) == ["b"]
        assert await names(capabilities=["fly"]) == []


def test_agents_expire_unless_they_say_that_they_are_there() -> None:
    """A heartbeat keeps one as long again; what has expired is neither found nor kept alive."""
    now = [0.0]
    known = Book(":memory:", 10.0, lambda: now[0])
    id = known.register(known.entry({"card": card("pay")}, "ann"), "ann")
    short = known.register(known.entry({"card": card("short"), "seconds": 3}, "ann"), "ann")
    now[0] = 6.0
    assert known.heartbeat(id, "ann")
    assert not known.heartbeat(short, "ann")
    assert [each["id"] for each in known.find([], [])[0]] == [id]
    now[0] = 15.9
    assert len(known.find([], [])[0]) == 1
    now[0] = 16.0
    assert known.find([], []) == ([], None)
    known.close()


async def test_a_directory_survives_a_restart(tmp_path: Path) -> None:
    """What was registered is in the file; registering again replaces, and removing forgets."""
    async with DirectoryServer(tmp_path / "agents.db", verify=False) as hosted:
        id = await AgentDirectory(hosted.url).register(card("pay", "old"))
    async with DirectoryServer(tmp_path / "agents.db", verify=False) as hosted:
        directory = AgentDirectory(hosted.url)
        assert await directory.register(card("pay", "new")) == id
        assert [agent.capabilities for agent in await directory.discover()] == [("new",)]
        await directory.heartbeat(id)
        await directory.remove(id)
        assert await directory.discover() == []
        with pytest.raises(DirectoryError, match=r"HTTP 404: it is not known; register it again"):
            await directory.heartbeat(id)


async def test_a_directory_asks_for_credentials() -> None:
    """Without the token nothing is found and nothing registered."""
    async with DirectoryServer(auth=AuthConfig(token="t"), verify=False) as hosted:
        await AgentDirectory(hosted.url, auth=AuthConfig(token="t")).register(card("pay"))
        with pytest.raises(DirectoryError, match="HTTP 401: not authenticated"):
            await AgentDirectory(hosted.url).discover()


def named(headers: Mapping[str, str]) -> str | None:
    """The user whom a request names."""
    return headers.get("x-api-key")


def of(user: str, hosted: DirectoryServer) -> AgentDirectory:
    """A directory as a user asks it."""
    return AgentDirectory(hosted.url, auth=AuthConfig("api_key", user))


async def test_an_entry_belongs_to_the_user_who_registered_it(tmp_path: Path) -> None:
    """Nobody else replaces it, keeps it alive or removes it, not after a restart either; its user can."""
    store = tmp_path / "agents.db"
    async with DirectoryServer(store, auth=named, verify=False) as hosted:
        id = await of("ann", hosted).register(card("pay", "refund"))
    async with DirectoryServer(store, auth=named, verify=False) as hosted:
        ann, bob = of("ann", hosted), of("bob", hosted)
        for attempt in (bob.register(card("pay", "steal")), bob.heartbeat(id), bob.remove(id)):
            with pytest.raises(DirectoryError, match="HTTP 403: it belongs to another user"):
                await attempt
        assert [agent.capabilities for agent in await bob.discover()] == [("refund",)]
        await ann.heartbeat(id)
        await ann.register(card("pay", "pay_back"))
        assert [agent.capabilities for agent in await bob.discover()] == [("pay_back",)]
        await ann.remove(id)
        await bob.register(card("pay", "mine"))


async def test_an_agent_is_listed_when_its_user_controls_its_url() -> None:
    """A server shows the token of its own user; another user's registration of the same URL is refused."""
    pay = Agent("pay")
    async with (
        A2AServer(pay, auth=AuthConfig(token="t"), backend=mock_backend({"pay": "Paid."})) as server,
        DirectoryServer(auth=named) as hosted,
    ):
        told = pay.to_agent_card(endpoint=server.url)
        with pytest.raises(DirectoryError, match=r"HTTP 403: it is not proven .* Serve the text \w+ at http"):
            await of("bob", hosted).register(told)
        id = await of("ann", hosted).register(told, server=server)
        await of("ann", hosted).remove(id)
        with pytest.raises(DirectoryError, match="it is not proven that you control its URL"):
            await of("bob", hosted).register(told)
        assert await of("bob", hosted).discover() == []


async def test_every_url_of_a_card_must_be_proven() -> None:
    """A card that names somebody else's URL beside the registrant's own is not listed."""
    pay = Agent("pay")
    async with (
        A2AServer(pay, backend=mock_backend({"pay": "Paid."})) as server,
        A2AServer(Agent("other"), backend=mock_backend({})) as other,
        DirectoryServer() as hosted,
    ):
        interfaces = [{"url": each.url, "protocolBinding": "JSONRPC"} for each in (server, other)]
        directory = AgentDirectory(hosted.url)
        with pytest.raises(DirectoryError, match="it is not proven that you control its URL"):
            await directory.register({"name": "pay", "supportedInterfaces": interfaces}, server=server)
        assert await directory.discover() == []


async def test_a_public_directory_asks_no_private_address() -> None:
    """Who registers cannot have it send requests into its own network, nor unencrypted ones."""
    heard: list[str] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        heard.append(scope["path"])

    async with listening(lambda port: app) as url:
        wrong = {
            url: "not public",
            url.replace("http:", "https:"): "not public",
            "http://x.example": "not https",
        }
        for place, said in wrong.items():
            async with DirectoryServer(allow_private=False) as hosted:
                with pytest.raises(DirectoryError, match=f"you control its URL: .*{said}"):
                    await AgentDirectory(hosted.url).register(card("pay", url=place))
    assert heard == []


async def test_the_token_of_a_url_is_found_in_no_other_answer() -> None:
    """A page that is not the token proves nothing: neither a redirect, nor a longer text."""
    for status, headers in ((200, {}), (302, {"location": "/token"}), (404, {})):
        async with listening(serving(status, b"x" * 5_000, headers)) as url, DirectoryServer() as hosted:
            with pytest.raises(DirectoryError, match="it is not proven that you control its URL"):
                await AgentDirectory(hosted.url).register(card("pay", url=url))


async def test_one_user_cannot_fill_a_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Above a limit a user must remove an agent first; others are not concerned."""
    monkeypatch.setattr(book, "PER_USER", 2)
    async with DirectoryServer(auth=named, verify=False) as hosted:
        ann = of("ann", hosted)
        first = await ann.register(card("a"))
        await ann.register(card("b"))
        with pytest.raises(DirectoryError, match="HTTP 429: one user may have 2 agents registered"):
            await ann.register(card("c"))
        await ann.register(card("b", "again"))
        await of("bob", hosted).register(card("c"))
        await ann.remove(first)
        await ann.register(card("d"))


async def test_words_that_cannot_be_sent_on_hide_no_agent() -> None:
    """Half a character among the tags of one agent would break the answer with all of them: it is refused."""
    async with DirectoryServer(verify=False) as hosted, httpx.AsyncClient(timeout=LIMIT) as client:
        await AgentDirectory(hosted.url).register(card("good"))
        wrong = json.dumps({"card": card("bad"), "tags": ["\ud800"]}).encode()
        assert (await client.post(f"{hosted.url}agents", content=wrong)).status_code == 422
        assert [agent.name for agent in await AgentDirectory(hosted.url).discover()] == ["good"]


async def test_what_is_no_card_is_refused() -> None:
    """By the directory and before it is asked, in one line."""
    async with DirectoryServer(verify=False) as hosted:
        directory = AgentDirectory(hosted.url)
        with pytest.raises(ArgumentError, match=r"it names no URL for calls\. It takes what"):
            await directory.register({"name": "x"})
        with pytest.raises(DirectoryError, match="seconds: it is a number from 0 to 86400"):
            await directory.register(card("x"), seconds=1e9)
        with pytest.raises(ArgumentError, match="3 is no agent card"):
            await directory.register(3)
        with pytest.raises(DirectoryError, match="HTTP 413"):
            await directory.register(card("x" * 1_000_000))
    with pytest.raises(DirectoryError, match=r"The directory at http://127\.0\.0\.1:1: cannot be reached"):
        await AgentDirectory("http://127.0.0.1:1").discover()
    with pytest.raises(ArgumentError, match="is not https"):
        AgentDirectory("http://directory.example")


async def test_one_word_is_no_list_of_its_letters() -> None:
    """A word where a list is meant finds nothing, and no skill is called by a letter: it is refused."""
    directory = AgentDirectory("https://directory.example")
    with pytest.raises(ArgumentError, match=r"discover\(capabilities=\) takes a list .* write \['pay'\]"):
        await directory.discover("pay")
    with pytest.raises(ArgumentError, match=r"register\(tags=\) takes a list of words"):
        await directory.register(card("x"), tags="money")
    with pytest.raises(ArgumentError, match=r"RemoteAgent 'x': capabilities= takes a list of words"):
        RemoteAgent("x", endpoint="https://x.example", capabilities="pay")
    with pytest.raises(ArgumentError, match=r"to_agent_card\(skills=\) takes a list of words"):
        Agent("x").to_agent_card(endpoint="https://x.example", skills="pay")


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ('{"url": "https://x.example", "name": NaN}', "values that JSON has not"),
        ('{"url": "https://x.example", "name": "\\ud800"}', "values that JSON has not"),
        ('{"url": "https://x.example", "name": ' + "[" * 60 + "]" * 60 + "}", "more than 50 deep"),
        ('{"url": "https://x.example", "skills": 5}', "its skills is no list of objects"),
        ('{"url": "https://x.example", "skills": [{"id": "a", "tags": 5}]}', "tags of a skill are no list"),
        ('{"url": "https://x.example", "supportedInterfaces": 5}', "supportedInterfaces is no list"),
        ('{"url": "javascript:alert(1)"}', "is no http or https URL"),
        ('{"url": "https://x.example:99999"}', "is no http or https URL"),
        ('{"url": "https://[::1"}', "is no http or https URL"),
    ],
)
async def test_one_hostile_card_hides_no_other(wrong: str, said: str) -> None:
    """It is refused by the directory, left out by who asks one that took it, and by who is given it."""
    async with DirectoryServer(verify=False) as hosted, httpx.AsyncClient(timeout=LIMIT) as client:
        directory = AgentDirectory(hosted.url)
        await directory.register(card("good"))
        refused = await client.post(f"{hosted.url}agents", content=f'{{"card": {wrong}}}')
        assert refused.status_code == 422
        assert said in refused.json()["error"] or "the body is no JSON: " in refused.json()["error"]
        assert [agent.name for agent in await directory.discover()] == ["good"]
    body = f'{{"agents": [{{"card": {wrong}}}, {{"card": {json.dumps(card("good"))}}}]}}'
    async with listening(serving(200, body.encode())) as url:
        assert [agent.name for agent in await AgentDirectory(url).discover()] == ["good"]
    async with listening(serving(200, wrong.encode())) as url:
        with pytest.raises(RemoteError, match="what it gives as its card is none: .*" + said):
            await RemoteAgent("far", endpoint=url).run("hi", backend=mock_backend(remotes="real"))
    with pytest.raises(ArgumentError, match=r"from_card\(\): the card .* is none: .*" + said):
        RemoteAgent.from_card(json.loads(wrong))


async def test_a_long_list_comes_in_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """More agents than one answer holds are all found, in order; one without an end is given up."""
    monkeypatch.setattr(book, "PAGE", 2_000)
    async with DirectoryServer(verify=False) as hosted:
        directory = AgentDirectory(hosted.url)
        names = [f"a{index:02}" for index in range(40)]
        for name in reversed(names):
            await directory.register(card(name, "pay"))
        assert [agent.name for agent in await directory.discover(["pay"])] == names
    async with listening(serving(200, b'{"agents": [], "next": "again"}')) as url:
        with pytest.raises(DirectoryError, match="gives more than 100 pages of agents; ask for capabilities"):
            await AgentDirectory(url).discover()


async def test_a_directory_starts_again_and_in_any_thread(tmp_path: Path) -> None:
    """Stopped and started, it knows what it knew; another thread may serve it."""
    for store in (None, tmp_path / "agents.db"):
        hosted = DirectoryServer(store, verify=False)
        async with hosted:
            await AgentDirectory(hosted.url).register(card("pay"))
        async with hosted:
            assert [agent.name for agent in await AgentDirectory(hosted.url).discover()] == ["pay"]

        def elsewhere(app: DirectoryServer = hosted) -> int:
            async def ask() -> int:
                async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app)) as client:
                    return (await client.get("http://directory/agents")).status_code

            return asyncio.run(ask())

        assert await in_thread(elsewhere) == 200


def test_a_directory_says_what_it_cannot_use(tmp_path: Path) -> None:
    """A store that is none, a time that is none, a password that is none: one line each."""
    (tmp_path / "text.db").write_text("no database " * 100)
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"store": tmp_path / "no" / "agents.db"}, "cannot be used: unable to open database file"),
        ({"store": tmp_path / "text.db"}, "cannot be used: file is not a database"),
        ({"store": "postgresql+asyncpg://x/y"}, "takes an SQLite file, not the URL of a database"),
        ({"seconds": "5"}, "is a number from 0 to 86400"),
        ({"auth": "secret"}, "takes an AuthConfig or a function, not str"),
        ({"auth": AuthConfig()}, "its token is empty, so nobody could get in"),
    ]
    for options, said in wrong:
        with pytest.raises(ArgumentError, match=said):
            DirectoryServer(**options)


async def test_what_is_no_directory_is_told() -> None:
    """Another server's answer, an error that is not JSON, and an id that is no word of a path."""
    async with listening(serving(200, b"<html>")) as url:
        with pytest.raises(DirectoryError, match="what it gives is not JSON; is it a directory"):
            await AgentDirectory(url).discover()
    async with listening(serving(502, b"<html>")) as url:
        with pytest.raises(DirectoryError, match="HTTP 502: no reason given"):
            await AgentDirectory(url).discover()
    async with listening(serving(200, b"{}", {"content-encoding": "gzip"})) as url:
        with pytest.raises(DirectoryError, match="answers as gzip, and was asked for no compression"):
            await AgentDirectory(url).discover()
    async with DirectoryServer(verify=False) as hosted:
        with pytest.raises(DirectoryError, match="HTTP 404: it is not known; register it again"):
            await AgentDirectory(hosted.url).heartbeat("a?b")
    with pytest.raises(ArgumentError, match="takes an http or https URL, not None"):
        AgentDirectory(cast(Any, None))


# --- cards that are not to be believed ------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("https://10.0.0.7/", "is not a public address"),
        ("https://169.254.169.254/latest", "is not a public address"),
        ("http://127.0.0.1:1/", "is not a public address"),
        ("https://[fd00::1]/", "is not a public address"),
        ("https://[::ffff:10.0.0.7]/", "is not a public address"),
        ("https://[::ffff:100.64.0.1]/", "is not a public address"),
        ("https://[::127.0.0.1]/", "is not a public address"),
        ("https://[64:ff9b::7f00:1]/", "is not a public address"),
        ("https://[2002:a00:7::1]/", "is not a public address"),
        ("https://[fec0::1]/", "is not a public address"),
        ("https://192.0.0.192/", "is not a public address"),
        ("https://224.0.0.1/", "is not a public address"),
        ("http://pay.example/", "is not https"),
        ("file:///etc/passwd", "is no http or https URL"),
    ],
)
def test_a_card_cannot_send_calls_anywhere(url: str, said: str) -> None:
    """A private address, an unencrypted one, and what is no web address are refused by name."""
    with pytest.raises(ArgumentError, match=said) as error:
        RemoteAgent.from_card(card("pay", url=url))
    assert "\n" not in str(error.value)


async def test_a_card_of_a_directory_that_names_a_private_address_is_refused() -> None:
    """No directory elsewhere may send calls here, nor one on this machine into the network behind it."""
    async with DirectoryServer(verify=False) as hosted:
        directory = AgentDirectory(hosted.url)
        await directory.register(card("inner", url="https://10.0.0.7/"))
        await directory.register(card("outer", url="http://127.0.0.1:9/"))
        inner, outer = await directory.discover()
    with pytest.raises(ArgumentError, match=r"https://10\.0\.0\.7/ is not a public address"):
        RemoteAgent.from_card(inner)
    assert RemoteAgent.from_card(outer).node.endpoint == "http://127.0.0.1:9/"
    elsewhere = FoundAgent(outer.card, is_near=False)
    with pytest.raises(ArgumentError, match=r"http://127\.0\.0\.1:9/ is not a public address"):
        RemoteAgent.from_card(elsewhere)


async def test_a_name_that_leads_to_a_private_address_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a card's host name stands for is looked up before the call."""

    async def private(*asked: Any, **options: Any) -> Any:
        return [(2, 1, 6, "", ("192.168.0.1", 443))]

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", private)
    far = RemoteAgent.from_card(card("pay"))
    with pytest.raises(RemoteError, match=r"an address that is not public\. If it is meant"):
        await far.run("hi", backend=mock_backend(remotes="real"))


def resolving(monkeypatch: pytest.MonkeyPatch, *addresses: str) -> list[str]:
    """Have a name lead to these addresses, to one at each look-up; the names that were looked up."""
    loop, left, asked = asyncio.get_running_loop(), list(addresses), list[str]()

    async def look_up(host: str, port: int, **options: Any) -> Any:
        asked.append(host)
        return [(2, 1, 6, "", (left.pop(0) if len(left) > 1 else left[0], port))]

    monkeypatch.setattr(loop, "getaddrinfo", look_up)
    return asked


async def test_a_name_that_leads_elsewhere_once_it_is_checked_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A host that is public when it is looked up, and this machine when it is called, is not called."""
    heard: list[str] = []
    async with listening(noting(heard)) as url:
        asked = resolving(monkeypatch, "93.184.216.34", "127.0.0.1")
        port = url.rpartition(":")[2]
        made = RemoteAgent.from_card(card("pay", url=f"http://pay.example:{port}/"), allow_http=True)
        with pytest.raises(RemoteError, match=r"an address that is not public\. If it is meant"):
            await made.run("hi", backend=mock_backend(remotes="real"))
    assert asked == ["pay.example"] * 2
    assert heard == []


async def test_the_address_that_was_checked_is_the_one_that_is_called(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each request looks its host up once and goes to what was found, under the name."""
    heard: list[str] = []
    async with listening(noting(heard)) as url:
        asked = resolving(monkeypatch, "127.0.0.1")
        monkeypatch.setattr(cards, "is_private", _nothing)  # this machine stands for a public one
        port = url.rpartition(":")[2]
        made = RemoteAgent.from_card(card("pay", url=f"http://pay.example:{port}/"), allow_http=True)
        with pytest.raises(RemoteError, match="there is no agent card"):
            await made.run("hi", backend=mock_backend(remotes="real"))
    assert heard == [f"pay.example:{port}"] * 2
    assert asked == ["pay.example"] * 3  # once before the first request, and once for each


async def test_a_certificate_must_be_that_of_the_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is sent to an address says the name, to the server and where its certificate is checked."""
    seen: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        if request.url.host == "2606:2800:21f::1":
            raise httpx.ConnectError("nobody listens")
        return httpx.Response(200)

    async def look_up(*asked: Any, **options: Any) -> Any:
        return [(10, 1, 6, "", ("2606:2800:21f::1", 443, 0, 0)), (2, 1, 6, "", ("93.184.216.34", 443))]

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", look_up)
    transport = PublicOnly(httpx.MockTransport(answer))
    async with httpx.AsyncClient(transport=transport) as client:
        await client.get("https://pay.example/card")
    assert [request.url.host for request in seen] == ["2606:2800:21f::1", "93.184.216.34"]
    sent = seen[-1]
    assert sent.headers["host"] == "pay.example"
    assert sent.extensions["sni_hostname"] == "pay.example"


def test_what_is_meant_can_be_said() -> None:
    """A private address is taken where the caller says so, and its name becomes an identifier."""
    made = RemoteAgent.from_card(card("Pay now!", url="http://10.0.0.7/"), allow_private=True, timeout=3)
    assert (made.node.name, made.node.endpoint, made.node.timeout_seconds) == (
        "Pay_now",
        "http://10.0.0.7/",
        3,
    )
    assert not made.node.public_only
    assert RemoteAgent.from_card(card("pay")).node.public_only


def noting(heard: list[str]) -> Any:
    """A server that knows nothing, and notes under which name it is asked."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            heard.append(dict(scope["headers"])[b"host"].decode())
            await send({"type": "http.response.start", "status": 404, "headers": []})
            await send({"type": "http.response.body", "body": b""})

    def make(port: int) -> Any:
        return app

    return make


def _nothing(host: str) -> bool:
    return False


def serving(status: int, body: bytes, headers: dict[str, str] | None = None) -> Any:
    """A server that always answers the same."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        raw = [(name.encode(), value.encode()) for name, value in (headers or {}).items()]
        await send({"type": "http.response.start", "status": status, "headers": raw})
        await send({"type": "http.response.body", "body": body})

    def make(port: int) -> Any:
        return app

    return make


@pytest.mark.parametrize(
    ("status", "body", "headers", "said"),
    [
        (200, b"x" * (cards.LARGEST + 1), {}, "is larger than 256 KiB"),
        (200, b"no json", {}, "is none: it is no JSON object"),
        (200, b"[" * 100_000, {}, "is none: it is no JSON object"),
        (200, BOMB, {"content-encoding": "gzip, gzip"}, "answers as gzip, gzip, and was asked for no comp"),
        (200, json.dumps({"name": "x", "url": "https://evil.example/"}).encode(), {}, "another origin than"),
        (
            302,
            b"",
            {"location": "https://evil.example/card"},
            "at https://evil.example/card, another origin",
        ),
        (302, b"", {"location": "/again"}, "is redirected more than 3 times"),
        (404, b"", {}, "there is no agent card at"),
        (500, b"", {}, "did not give its card: HTTP 500"),
    ],
    ids=[
        "large",
        "no json",
        "deep",
        "bomb",
        "other origin",
        "redirect away",
        "redirect for ever",
        "missing",
        "error",
    ],
)
async def test_a_wrong_card_is_a_failure_that_says_so(
    status: int, body: bytes, headers: dict[str, str], said: str
) -> None:
    """Each in one line; the fallback runs."""
    async with listening(serving(status, body, headers)) as url:
        with pytest.raises(RemoteError, match=said) as error:
            await RemoteAgent("far", endpoint=url).run("hi", backend=mock_backend(remotes="real"))
        assert "\n" not in str(error.value)
        near = RemoteAgent("far", endpoint=url, fallback=Agent("near"))
        assert (
            await near.run("hi", backend=mock_backend({"near": "By hand."}, remotes="real"))
        ).text == "By hand."
