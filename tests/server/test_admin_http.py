"""The HTTP listener of operators: what is a request, who may ask, and what bounds a client."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from faircall.server.acceptor.listeners import close_all, open_listeners
from faircall.server.admin import http_listener
from faircall.server.admin.http_access import Access, Place
from faircall.server.admin.http_listener import HttpListener
from faircall.server.admin.http_routes import Routes
from faircall.server.admin.http_wire import (
    MAX_BODY_BYTES,
    MAX_HEAD_BYTES,
    HttpAnswer,
    HttpRequest,
    HttpWire,
)
from faircall.server.reader.pair_file import PairFile
from faircall.server.settings.bind_address import parse_bind_address
from faircall.server.wire.http_reply import Reply

LOOPBACK, UNIX, NETWORK = Place(is_loopback=True), Place(is_unix=True), Place()


def get(path: str = "/metrics", *lines: str, method: str = "GET", body: bytes = b"") -> bytes:
    head = [f"{method} {path} HTTP/1.1", "Host: 127.0.0.1:9464", *lines]
    return "\r\n".join([*head, "", ""]).encode() + body


def read(*pieces: bytes) -> HttpRequest:
    wire = HttpWire()
    for piece in pieces:
        assert wire.next_request() is None
        wire.receive(piece)
    request = wire.next_request()
    assert request is not None
    assert not wire.mid_request
    return request


# -- what is a request -------------------------------------------------------------------------


def test_a_request_is_read_wherever_it_is_cut() -> None:
    whole = get("/a?b=c", "Content-Length: 2", method="POST", body=b"{}")
    for at in range(1, len(whole)):
        request = read(whole[:at], whole[at:])
        assert (request.method, request.path, request.query) == ("POST", "/a", "b=c")
        assert (request.body, request.authority) == (b"{}", b"127.0.0.1:9464")


def test_requests_of_one_connection_are_read_one_by_one() -> None:
    wire = HttpWire()
    wire.receive(get("/a") + get("/b", "Connection: close"))
    for path, closing in (("/a", False), ("/b", True)):
        request = wire.next_request()
        assert request is not None
        assert request.path == path
        wire.answer(request, HttpAnswer())
        assert wire.closing is closing


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"GET  / HTTP/1.1\r\nHost: x\r\n\r\n", 400),
        (b"GET / HTTP/1.1\nHost: x\n\n", 400),
        (b"GET / HTTP/1.1\r\n\r\n", 400),
        (b"GET / HTTP/2.0\r\nHost: x\r\n\r\n", 505),
        (get("/", "X: " + "a" * MAX_HEAD_BYTES), 431),
        (get("/", f"Content-Length: {MAX_BODY_BYTES + 1}", method="POST"), 413),
        (get("/", "Content-Length: 1", "Transfer-Encoding: chunked", method="POST"), 400),
        (get("/", "Content-Length: 1", "Expect: 100-continue", method="POST"), 417),
        (get("/", "Transfer-Encoding: chunked", method="POST", body=b"fffff\r\n"), 413),
    ],
)
def test_what_is_no_request_is_refused_and_ends_the_connection(sent: bytes, status: int) -> None:
    wire = HttpWire()
    wire.receive(sent)
    with pytest.raises(Reply) as refused:
        wire.next_request()
    assert refused.value.status == status
    assert wire.refuse(None, refused.value).startswith(f"HTTP/1.1 {status} ".encode())
    assert wire.closing


def test_a_head_that_never_ends_is_refused_before_it_is_long() -> None:
    wire = HttpWire()

    def feed() -> None:
        for _ in range(MAX_HEAD_BYTES // 9 + 1):
            wire.receive(b"X: aaaa\r\n")
            wire.next_request()

    with pytest.raises(Reply) as refused:
        feed()
    assert refused.value.status == 431


def test_every_answer_keeps_pages_and_caches_off() -> None:
    wire = HttpWire()
    wire.receive(get(method="HEAD"))
    answer = wire.answer(wire.next_request(), HttpAnswer(body=b"12345"))
    head, _, body = answer.partition(b"\r\n\r\n")
    assert body == b""
    for line in (
        b"Content-Length: 5",
        b"default-src 'none'",
        b"frame-ancestors 'none'",
        b"X-Content-Type-Options: nosniff",
        b"Cache-Control: no-store",
    ):
        assert line in head
    assert b"Access-Control" not in head


# -- who may ask -------------------------------------------------------------------------------


@pytest.fixture
def access(tmp_path: Path) -> Access:
    file = tmp_path / "tokens"
    file.touch(0o600)
    file.write_text("s3cret prometheus\n")
    return Access(["localhost"], PairFile(str(file), secret=True))


def status_of(access: Access, request: bytes, place: Place) -> int:
    try:
        access.check(read(request), place)
    except Reply as reply:
        return reply.status
    return 200


TOKEN, JSON_BODY = "Authorization: Bearer s3cret", "Content-Type: application/json"


@pytest.mark.parametrize(
    ("lines", "place", "status"),
    [
        ([], LOOPBACK, 200),
        ([], UNIX, 200),
        ([], NETWORK, 401),
        ([TOKEN], NETWORK, 200),
        (["Authorization: bearer  s3cret"], NETWORK, 200),
        (["Authorization: Bearer wrong"], NETWORK, 401),
        (["Authorization: Basic s3cret"], NETWORK, 401),
        (["Origin: http://127.0.0.1:9464"], LOOPBACK, 200),
        (["Origin: http://evil.example"], LOOPBACK, 403),
        (["Origin: null"], UNIX, 403),
    ],
)
def test_reading_needs_a_token_from_afar(
    access: Access, lines: list[str], place: Place, status: int
) -> None:
    assert status_of(access, get("/metrics", *lines), place) == status


@pytest.mark.parametrize(
    ("lines", "place", "status"),
    [
        ([JSON_BODY], LOOPBACK, 401),
        ([JSON_BODY, TOKEN], LOOPBACK, 200),
        ([TOKEN], LOOPBACK, 415),
        (["Content-Type: text/plain", TOKEN], NETWORK, 415),
        ([JSON_BODY], UNIX, 200),
        ([JSON_BODY, TOKEN, "Origin: https://evil.example"], NETWORK, 403),
    ],
)
def test_changing_something_needs_a_token_and_json_on_loopback_too(
    access: Access, lines: list[str], place: Place, status: int
) -> None:
    request = get("/do", "Content-Length: 2", *lines, method="POST", body=b"{}")
    assert status_of(access, request, place) == status


@pytest.mark.parametrize(
    ("host", "status"),
    [("localhost:1", 200), ("[::1]", 200), ("10.1.2.3", 200), ("evil.example", 421), ("a b", 400)],
)
def test_a_name_that_somebody_elses_dns_points_here_is_refused(
    access: Access, host: str, status: int
) -> None:
    request = get("/metrics").replace(b"127.0.0.1:9464", host.encode())
    assert status_of(access, request, LOOPBACK) == status
    assert status_of(access, request, UNIX) == 200  # no browser comes that way
    assert status_of(access, request.replace(b"/metrics", b"/livez"), NETWORK) == 200


def test_without_a_file_of_tokens_none_is_right() -> None:
    assert status_of(Access(["localhost"]), get("/metrics", TOKEN), NETWORK) == 401


# -- connections -------------------------------------------------------------------------------


def slow(request: HttpRequest) -> Awaitable[HttpAnswer]:
    async def later() -> HttpAnswer:
        await asyncio.sleep(0)
        return HttpAnswer(body=b"later")

    return later()


def broken(request: HttpRequest) -> HttpAnswer:
    raise ZeroDivisionError


ROUTES: Routes = {
    ("GET", "/metrics"): lambda request: HttpAnswer(body=b"numbers"),
    ("POST", "/do"): slow,
    ("GET", "/broken"): broken,
    ("GET", "/large"): lambda request: HttpAnswer(body=bytes(4 << 20)),
}
Client = Callable[[str], Awaitable[None]]


def serving(folder: Path, client: Callable[[Path], Awaitable[None]]) -> None:
    """Run `client` beside a listener at the Unix socket that it is given."""
    path = folder / "http.sock"
    listeners = open_listeners([parse_bind_address(f"unix:{path}")], 8)

    async def main() -> None:
        http = HttpListener(listeners, ROUTES, Access(["localhost"]))
        await http.serve()
        try:
            await asyncio.wait_for(client(path), 30)
        finally:
            http.close()

    try:
        asyncio.run(main())
    finally:
        close_all(listeners)
    assert os.listdir(folder) == []


async def ask(path: Path, *requests: bytes) -> bytes:
    reader, writer = await asyncio.open_unix_connection(str(path))
    writer.write(b"".join(requests))
    try:
        writer.write_eof()
        return await reader.read()
    except ConnectionError:  # closed before it was read
        return b""
    finally:
        writer.transport.abort()


def statuses(answer: bytes) -> list[int]:
    return [int(piece[:3]) for piece in answer.split(b"HTTP/1.1 ")[1:]]


def test_requests_are_answered_in_order_on_one_connection(tmp_path: Path) -> None:
    post = get("/do", JSON_BODY, "Content-Length: 2", method="POST", body=b"{}")

    async def client(path: Path) -> None:
        answer = await ask(
            path,
            get(),
            post,
            get("/nothing"),
            get("/do"),
            get("/metrics", JSON_BODY, "Content-Length: 0", method="POST"),
            get("/broken"),
            get(method="HEAD"),
        )
        assert statuses(answer) == [200, 200, 404, 405, 405, 500, 200]
        assert answer.index(b"numbers") < answer.index(b"later")
        assert b"Allow: POST\r\n" in answer
        assert b"Allow: GET, HEAD\r\n" in answer
        assert answer.endswith(b"\r\n\r\n")

    serving(tmp_path, client)


def test_more_connections_than_allowed_are_closed_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_listener, "MAX_CONNECTIONS", 2)

    async def client(path: Path) -> None:
        open_ones = [await asyncio.open_unix_connection(str(path)) for _ in range(2)]
        for reader, writer in open_ones:
            writer.write(get())
            assert (await reader.read(12)).startswith(b"HTTP/1.1 200")
        assert await ask(path) == b""
        for _, writer in open_ones:
            writer.close()

    serving(tmp_path, client)


def test_who_is_too_slow_is_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_listener, "IDLE_S", 0.01)
    monkeypatch.setattr(http_listener, "REQUEST_S", 0.01)

    async def client(path: Path) -> None:
        for begun in (b"", b"GET /metrics HTTP/1.1\r\n", get("/do", "Content-Length: 9")):
            reader, writer = await asyncio.open_unix_connection(str(path))
            writer.write(begun)
            assert await reader.read() == b""
            writer.close()

    serving(tmp_path, client)


def test_who_takes_no_answers_is_cut_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However much is left to be sent: it is dropped, and another may come."""
    monkeypatch.setattr(http_listener, "MAX_CONNECTIONS", 1)
    monkeypatch.setattr(http_listener, "REQUEST_S", 0.05)

    async def client(path: Path) -> None:
        for last in (b"", get("/large", "Connection: close")):
            _, writer = await asyncio.open_unix_connection(str(path), limit=1)
            writer.write(get("/large") + last)
            while not (answer := await ask(path, get())):
                await asyncio.sleep(0.001)
            assert statuses(answer) == [200]
            writer.transport.abort()

    serving(tmp_path, client)


def test_a_listener_on_loopback_knows_that_it_is_one() -> None:
    for address, place in (("127.0.0.1", LOOPBACK), ("0.0.0.0", NETWORK)):
        (listener,) = open_listeners([parse_bind_address(f"tcp://{address}:0")], 1)
        try:
            assert http_listener._place_of(listener) == place
            assert listener.socket.family == socket.AF_INET
        finally:
            listener.close()
