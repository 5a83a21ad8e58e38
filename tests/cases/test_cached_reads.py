"""Reads that are looked for in the cache first, between real clients and a server that says what HTTP caches go by (RFC 9111)."""

from __future__ import annotations

import itertools
import shutil
import subprocess
from collections.abc import Callable, Iterator
from typing import ClassVar, NamedTuple

import httpx
import pytest
import requests

from tests.support.behaviours import hang_up, head, stall
from tests.support.sidecar import Sidecar
from tests.support.upstream import Exchange, Upstream
from tests.support.waiting import eventually

_numbers = itertools.count(1)

Fields = dict[str, str]


class Got(NamedTuple):
    """What a client has got. Names of fields are in lower case."""

    status: int
    fields: Fields
    body: bytes

    @property
    def hit(self) -> bool:
        """Whether it came from the cache."""
        return self.fields.get("cache-status", "").startswith("waterclock; hit")


Client = Callable[[Sidecar, str, str, Fields], Got]


def by_curl(sidecar: Sidecar, method: str, url: str, fields: Fields) -> Got:
    """With the command."""
    if shutil.which("curl") is None:
        pytest.skip("needs curl")
    stated = [word for name, value in fields.items() for word in ("-H", f"{name}: {value}")]
    command = ["curl", "-s", "-S", "-i", "-m", "10", "-x", sidecar.proxy_url, "-X", method, *stated, url]
    told = subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout
    first, _, body = told.partition(b"\r\n\r\n")
    status, *lines = first.decode("latin-1").split("\r\n")
    pairs = (line.partition(": ") for line in lines)
    return Got(int(status.split()[1]), {name.lower(): value for name, _, value in pairs}, body)


def by_requests(sidecar: Sidecar, method: str, url: str, fields: Fields) -> Got:
    """With requests, which names codings that it understands."""
    with requests.Session() as session:
        session.trust_env = False
        answer = session.request(method, url, headers=fields, proxies={"http": sidecar.proxy_url}, timeout=10)
        return Got(
            answer.status_code,
            {name.lower(): value for name, value in answer.headers.items()},
            answer.content,
        )


def by_httpx(sidecar: Sidecar, method: str, url: str, fields: Fields) -> Got:
    """With httpx."""
    with httpx.Client(proxy=sidecar.proxy_url, trust_env=False, timeout=10) as client:
        answer = client.request(method, url, headers=fields)
        return Got(answer.status_code, dict(answer.headers), answer.content)


PAST = {"Cache-Control": "max-age=50", "Age": "100"}
"""What is stale when it comes."""
CLIENTS = {"curl": by_curl, "requests": by_requests, "httpx": by_httpx}


class Library:
    """A server with a page at each path, which counts its printings, and says of it what the path's first word stands for."""

    SAYS: ClassVar[dict[str, Fields]] = {
        "fresh": {"Cache-Control": "max-age=600", "ETag": '"1"'},
        "brief": {"Cache-Control": "max-age=1"},
        "old": {"Cache-Control": "max-age=600", "Age": "100"},
        "expires": {"Expires": "Mon, 02 Nov 2026 08:10:00 GMT", "Date": "Mon, 02 Nov 2026 08:00:00 GMT"},
        "expired": {"Expires": "Mon, 02 Nov 2026 08:00:00 GMT", "Date": "Mon, 02 Nov 2026 08:00:00 GMT"},
        "spoken": {"Cache-Control": "max-age=600", "Vary": "Accept-Language, X-Shelf"},
        "any": {"Cache-Control": "max-age=600", "Vary": "*"},
        "never": {"Cache-Control": "no-store"},
        "asked": {"Cache-Control": "no-cache", "ETag": '"1"'},
        "private": {"Cache-Control": "private, max-age=600"},
        "late": PAST,
        "past": PAST,
        "strict": PAST | {"Cache-Control": "max-age=50, must-revalidate"},
        "lasting": PAST | {"Cache-Control": "max-age=50, stale-if-error=600"},
        "silent": {},
    }

    def __init__(self) -> None:
        self.printed = 0
        self.failing = False

    async def behave(self, exchange: Exchange) -> None:
        """Answer one request."""
        await exchange.read_all()
        request = exchange.request
        if self.failing:
            await exchange.send(head(503, [("Content-Length", "4")]) + b"shut")
            return
        if request.method not in ("GET", "HEAD"):
            await exchange.send(head(204))
            return
        said = self.SAYS[request.target.split("/")[1]]
        if "ETag" in said and request.get("if-none-match") == said["ETag"]:
            await exchange.send(head(304, [*said.items()]))
            return
        self.printed += 1
        body = f"printing {self.printed}".encode()
        own = {
            "Content-Length": str(len(body)),
            "Content-Type": "text/plain",
            "Set-Cookie": f"n={self.printed}",
        }
        await exchange.send(head(200, [*(said | own).items()]) + (body if request.method == "GET" else b""))


class Reader(NamedTuple):
    """A client, the sidecar that is its proxy, and the library behind that."""

    client: Client
    sidecar: Sidecar
    library: Library
    server: Upstream

    def page(self, word: str) -> str:
        """A page that nobody has asked for yet."""
        return self.server.url(f"/{word}/{next(_numbers)}")

    def get(self, page: str, method: str = "GET", **fields: str) -> Got:
        """Ask for it."""
        return self.client(
            self.sidecar, method, page, {name.replace("_", "-"): value for name, value in fields.items()}
        )


@pytest.fixture(scope="module")
def standing() -> Iterator[tuple[Sidecar, Library, Upstream]]:
    """One sidecar for all tests: what it keeps it keeps for five minutes, and of two shelves for an hour when all else fails."""
    library = Library()
    reads = {"host": "127.0.0.1", "methods": ["GET", "HEAD"]}
    first = {"first": True, "ttl": "5m"}
    policy = {
        "routes": [
            {"name": word, "match": reads | {"path": f"/{word}/*"}, "cache": first | {"stale_if_error": "1h"}}
            for word in ("late", "strict")
        ]
        + [{"name": "library", "match": reads, "cache": first}]
    }
    with Upstream(library.behave) as server, Sidecar(policy) as sidecar:
        yield sidecar, library, server


@pytest.fixture(params=CLIENTS)
def reader(request: pytest.FixtureRequest, standing: tuple[Sidecar, Library, Upstream]) -> Iterator[Reader]:
    """Each of the clients."""
    before = len(standing[0].faults)
    yield Reader(CLIENTS[request.param], *standing)
    assert not standing[0].faults[before:]


# -- kept ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("word", "age", "ttl"),
    [("fresh", 0, 600), ("old", 100, 500), ("expires", 0, 600), ("private", 0, 600), ("silent", 0, 300)],
)
def test_a_fresh_answer_is_given_again_with_its_age(reader: Reader, word: str, age: int, ttl: int) -> None:
    """Without what was meant for the first who got it."""
    page = reader.page(word)
    first = reader.get(page)
    assert first.fields["cache-status"] == "waterclock; fwd=miss"
    assert "set-cookie" in first.fields
    again = reader.get(page)
    assert (again.status, again.body, again.fields.get("etag")) == (200, first.body, first.fields.get("etag"))
    assert age <= int(again.fields["age"]) < age + 60
    assert again.fields["cache-status"].startswith("waterclock; hit; ttl=")
    assert ttl - 60 < int(again.fields["cache-status"].rpartition("=")[2]) <= ttl
    assert not {"set-cookie", "budget-degraded"} & set(again.fields)
    assert reader.sidecar.record(again.fields["budget-record"])["cache"] == "hit"


@pytest.mark.parametrize("word", ["never", "asked", "any", "expired"])
def test_what_may_not_be_given_again_is_asked_for_each_time(reader: Reader, word: str) -> None:
    page = reader.page(word)
    first, again = reader.get(page), reader.get(page)
    assert (again.hit, again.body != first.body) == (False, True)


def test_what_has_become_stale_is_asked_for(reader: Reader) -> None:
    page = reader.page("brief")
    first = reader.get(page)
    second = eventually(lambda: None if (got := reader.get(page)).hit else got)
    assert second.body != first.body


def test_variants_are_kept_apart_and_the_same_one_is_found(reader: Reader) -> None:
    page = reader.page("spoken")
    kinds = [("de", "a"), ("en", "a"), ("de", "b")]
    first = {kind: reader.get(page, Accept_Language=kind[0], X_Shelf=kind[1]).body for kind in kinds}
    assert len(set(first.values())) == 3
    last = reader.get(page, Accept_Language="de", X_Shelf="b")
    assert (last.hit, last.body) == (True, first[kinds[-1]])
    assert not reader.get(page, Accept_Language="fr").hit


def test_each_caller_and_each_query_has_answers_of_its_own(reader: Reader) -> None:
    page = reader.page("fresh")
    alice = reader.get(page, Authorization="Bearer alice")
    bob = reader.get(page, Authorization="Bearer bob")
    other = reader.get(f"{page}?q=1", Authorization="Bearer alice")
    assert len({alice.body, bob.body, other.body}) == 3
    assert reader.get(page, Authorization="Bearer alice").body == alice.body


# -- what a request says of its own wishes --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "wish", [{"Cache_Control": "no-cache"}, {"Cache_Control": "max-age=0"}, {"Pragma": "no-cache"}]
)
def test_who_wants_it_anew_gets_it_anew_and_so_do_those_after(reader: Reader, wish: Fields) -> None:
    page = reader.page("fresh")
    first, anew, after = reader.get(page), reader.get(page, **wish), reader.get(page)
    assert anew.fields["cache-status"] == "waterclock; fwd=request"
    assert (anew.body != first.body, after.hit, after.body) == (True, True, anew.body)


def test_who_wants_nothing_kept_leaves_nothing(reader: Reader) -> None:
    page = reader.page("fresh")
    assert "cache-status" not in reader.get(page, Cache_Control="no-store").fields
    assert not reader.get(page).hit
    assert reader.get(page).hit


def test_a_condition_is_the_servers_to_judge_and_harms_nothing(reader: Reader) -> None:
    """Its 304 goes to who asked for it, and to nobody else."""
    page = reader.page("fresh")
    first = reader.get(page)
    unchanged = reader.get(page, If_None_Match='"1"')
    assert (unchanged.status, unchanged.body, unchanged.fields["etag"]) == (304, b"", '"1"')
    after = reader.get(page)
    assert (after.hit, after.status, after.body) == (True, 200, first.body)


def test_a_part_is_the_servers_to_give(reader: Reader) -> None:
    page = reader.page("fresh")
    first = reader.get(page)
    assert not reader.get(page, Range="bytes=0-1").hit
    assert reader.get(page).body == first.body


def test_what_is_asked_of_a_head_changes_nothing(standing: tuple[Sidecar, Library, Upstream]) -> None:
    reader = Reader(by_httpx, *standing)
    page = reader.page("fresh")
    assert not reader.get(page, "HEAD").hit
    assert not reader.get(page).hit
    assert not reader.get(page, "HEAD").hit
    assert reader.get(page).hit


# -- changed ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["PUT", "POST", "DELETE", "PATCH"])
def test_a_write_that_succeeds_makes_what_was_kept_untrue(reader: Reader, method: str) -> None:
    """For every caller; and of no other page."""
    page, other = reader.page("fresh"), reader.page("fresh")
    callers = ("Bearer alice", "Bearer bob")
    for each in (page, other):
        for caller in callers:
            reader.get(each, Authorization=caller)
    assert reader.get(page, method, Authorization=callers[0]).status == 204
    assert [reader.get(page, Authorization=caller).hit for caller in callers] == [False, False]
    assert [reader.get(other, Authorization=caller).hit for caller in callers] == [True, True]


def test_a_write_that_fails_does_not(reader: Reader) -> None:
    page = reader.page("fresh")
    reader.get(page)
    reader.library.failing = True
    try:
        assert reader.get(page, "PUT").status == 503
    finally:
        reader.library.failing = False
    assert reader.get(page).hit


# -- in place of an error ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("word", ["late", "lasting"])
def test_what_is_stale_serves_where_the_server_fails_or_is_gone(reader: Reader, word: str) -> None:
    """Where the route says so, or the answer itself did; and says that it is not what was asked for."""
    page = reader.page(word)
    first, second = reader.get(page), reader.get(page)
    assert (second.hit, second.body != first.body) == (False, True)
    reader.library.failing = True
    try:
        found = reader.get(page)
    finally:
        reader.library.failing = False
    assert (found.status, found.body) == (200, second.body)
    assert found.fields["cache-status"].endswith("; detail=stale")
    assert found.fields["budget-degraded"] == "level=1; rung=cached; reason=failed"
    record = reader.sidecar.record(found.fields["budget-record"])
    assert (record["cache"], record["rung"], record["outcome"]) == ("stale", "cached", "completed")
    assert not reader.get(page).hit


@pytest.mark.parametrize("word", ["strict", "past"])
def test_what_must_not_serve_stale_does_not(reader: Reader, word: str) -> None:
    page = reader.page(word)
    reader.get(page)
    reader.library.failing = True
    try:
        found = reader.get(page)
    finally:
        reader.library.failing = False
    assert (found.status, found.body, "budget-degraded" in found.fields) == (503, b"shut", False)


def test_a_server_that_is_gone_or_says_nothing_is_served_for_too() -> None:
    """Whatever is fresh is given at once; what is stale when the connection is refused, or the time is over."""
    library = Library()
    reads = {"host": "127.0.0.1", "methods": ["GET"]}
    route = {
        "name": "library",
        "match": reads,
        "cap": "500ms",
        "cache": {"first": True, "stale_if_error": "1h"},
    }
    with Upstream(library.behave) as server, Sidecar({"routes": [route]}) as sidecar:
        reader = Reader(by_httpx, sidecar, library, server)
        fresh, late = reader.page("fresh"), reader.page("late")
        first = {page: reader.get(page) for page in (fresh, late)}
        server.then(stall())
        slow = reader.get(late)
        assert slow.body == first[late].body
        assert slow.fields["budget-degraded"] == "level=1; rung=cached; reason=slow"
        server.stop_listening()
        server.then(hang_up())
        assert reader.get(fresh).body == first[fresh].body
        gone = reader.get(late)
        assert gone.body == first[late].body
        assert gone.fields["budget-degraded"] == "level=1; rung=cached; reason=failed"
        assert reader.get(reader.page("late")).status == 502
