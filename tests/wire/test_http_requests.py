from __future__ import annotations

from collections.abc import Callable

import pytest

from faircall.server.wire.connection import Wire
from faircall.server.wire.events import Close, Event, Health, HttpMeta, Message, Send
from faircall.server.wire.limits import WireLimits

Drain = Callable[[Wire], list[Event]]
BODY = b'{"jsonrpc":"2.0","method":"m","id":1}'


def request(
    *headers: bytes,
    line: bytes = b"POST /rpc HTTP/1.1",
    host: bytes | None = b"localhost",
    type_: bytes | None = b"application/json",
    body: bytes | None = BODY,
) -> bytes:
    lines = [line, *headers]
    if host is not None:
        lines.append(b"Host: " + host)
    if type_ is not None:
        lines.append(b"Content-Type: " + type_)
    if body is not None:
        lines.append(b"Content-Length: %d" % len(body))
    return b"\r\n".join(lines) + b"\r\n\r\n" + (body or b"")


def ask(sent: bytes, limits: WireLimits | None = None) -> tuple[Event | None, Wire]:
    wire = Wire(limits or WireLimits())
    wire.receive(sent)
    return wire.next_event(), wire


def status_of(event: Event | None) -> int:
    assert isinstance(event, Send)
    return int(event.data.split(b" ", 2)[1])


@pytest.mark.parametrize("target", [b"/", b"/rpc", b"/rpc?user=bob", b"http://localhost:80/rpc"])
def test_a_post_is_a_message(target: bytes) -> None:
    event, wire = ask(request(line=b"POST %b HTTP/1.1" % target))
    assert event == Message(1, BODY, HttpMeta())
    assert wire.framing == "http"
    assert not wire.mid_message


def test_headers_say_who_calls_and_how_long() -> None:
    event, _ = ask(
        request(
            b"X-Faircall-User:  j\xc3\xb6rg ",
            b"x-request-timeout-ms: 1500",
            b"X-Faircall-Context: job-7",
            b"Traceparent: 00-ab-cd-01",
            b"Authorization: Bearer t0k",
        )
    )
    assert isinstance(event, Message)
    assert event.http == HttpMeta(
        "jörg", 1500, "job-7", "00-ab-cd-01", "Bearer t0k", names_somebody=True
    )


def test_what_proxies_append_is_one_list_and_never_refused() -> None:
    event, _ = ask(request(b"X-Forwarded-For: \xff, 192.0.2.7", b"x-forwarded-for: 10.0.0.2"))
    assert isinstance(event, Message)
    assert event.http == HttpMeta(forwarded="\xff, 192.0.2.7,10.0.0.2", names_somebody=True)


def test_who_sends_no_proof_is_told_which_one_would_do() -> None:
    event, wire = ask(request())
    assert isinstance(event, Message)
    answer = wire.answer(event.exchange, b"{}", 401)
    assert answer.startswith(b"HTTP/1.1 401 Unauthorized\r\n")
    assert b"\r\nWWW-Authenticate: Bearer\r\n" in answer


@pytest.mark.parametrize(
    "header", [b"X-Request-Timeout-Ms: 1.5", b"X-Request-Timeout-Ms: -1", b"X-Faircall-User: \xff"]
)
def test_headers_that_say_nothing_are_refused(header: bytes) -> None:
    event, wire = ask(request(header))
    assert status_of(event) == 400
    assert not wire.wants_close


@pytest.mark.parametrize(
    "name",
    [b"X-Faircall-User", b"Authorization", b"Content-Type", b"Host", b"Transfer-Encoding"],
)
def test_a_header_that_counts_may_stand_there_once(name: bytes) -> None:
    event, wire = ask(request(name + b": a", name + b": a"))
    assert status_of(event) == 400
    assert wire.next_event() == Close()


def test_a_call_is_answered_with_a_length_and_a_notification_with_none() -> None:
    _, wire = ask(request() + request())
    wire.next_event()
    assert wire.answer(1, b"{}") == (
        b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"
    )
    assert wire.answer(2, None) == b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"


@pytest.mark.parametrize(("status", "phrase"), [(429, b"Too Many Requests"), (503, b"Service Un")])
def test_overload_may_have_a_status_of_its_own(status: int, phrase: bytes) -> None:
    _, wire = ask(request())
    assert wire.answer(1, b"{}", status).startswith(b"HTTP/1.1 %d %b" % (status, phrase))


@pytest.mark.parametrize(
    ("line", "header", "closes", "connection"),
    [
        (b"POST / HTTP/1.1", b"X: y", False, None),
        (b"POST / HTTP/1.1", b"Connection: close", True, b"close"),
        (b"POST / HTTP/1.1", b"Connection: TE, Close", True, b"close"),
        (b"POST / HTTP/1.1", b"Connection: close\r\nConnection: TE", True, b"close"),
        (b"POST / HTTP/1.1", b"Connection: upgrade\r\nUpgrade: h2c", False, None),
        (b"POST / HTTP/1.0", b"X: y", True, b"close"),
        (b"POST / HTTP/1.0", b"Connection: TE", True, b"close"),
        (b"POST / HTTP/1.0", b"Connection: Keep-Alive", False, b"keep-alive"),
    ],
)
def test_the_connection_lasts_as_long_as_both_say(
    line: bytes, header: bytes, closes: bool, connection: bytes | None
) -> None:
    _, wire = ask(request(header, line=line) + request())
    answer = wire.answer(1, b"{}")
    assert (b"Connection: %b\r\n" % (connection or b"") in answer) is (connection is not None)
    assert wire.wants_close is closes
    assert isinstance(wire.next_event(), Close if closes else Message)


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (request(line=b"POST /nope HTTP/1.1"), 404),
        (request(line=b"POST * HTTP/1.1"), 404),
        (request(line=b"PUT /rpc HTTP/1.1"), 405),
        (request(line=b"GET / HTTP/1.1"), 405),
        (request(line=b"POST /livez HTTP/1.1"), 405),
        (request(type_=b"text/plain"), 415),
        (request(type_=b"application/json; charset=utf-16"), 415),
        (request(b"Content-Encoding: gzip"), 415),
        (request(body=None), 411),
        (request(host=b"attacker.example"), 421),
        (request(host=b""), 421),
        (request(line=b"POST http://attacker.example/rpc HTTP/1.1"), 421),
        (request(b"Origin: https://attacker.example"), 403),
        (request(b"Origin: null"), 403),
    ],
)
def test_what_is_no_call_is_refused_and_the_connection_goes_on(sent: bytes, status: int) -> None:
    event, wire = ask(sent + request())
    assert status_of(event) == status
    assert wire.next_event() == Message(2, BODY, HttpMeta())


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (request(host=None), 400),
        (request(host=b"local host"), 400),
        (request(line=b"POST  /rpc HTTP/1.1"), 400),
        (request(line=b"POST /rpc  HTTP/1.1"), 400),
        (request(line=b"POST /rpc HTTP/1.1 "), 400),
        (request(line=b"POST /rpc RTSP/1.0"), 400),
        (request(line=b"POST /rpc"), 400),
        (request(line=b"POST /rpc HTTP/0.9"), 505),
        (request(line=b"PRI * HTTP/2.0"), 505),
        (request(b"X: a\r\n folded"), 400),
        (request(b"X: a\rb"), 400),
        (request(b"X: a\nb: c"), 400),
        (request(b"Transfer-Encoding: chunked"), 400),
        (request(b"Transfer-Encoding: gzip, chunked", body=None), 501),
        (request(b"Transfer-Encoding: chunked", line=b"POST / HTTP/1.0", body=None), 400),
        (request(b"Content-Length: 3"), 400),
        (request(b"Expect: magic"), 417),
        (request(b"Content-Length: 99999999999", body=None), 413),
        (request(b"X: " + b"y" * 40000), 431),
        (request(line=b"POST /" + b"y" * 40000), 414),
        (b"post / HTTP/1.1\r\nHost: localhost\r\n\r\n", 400),
    ],
)
def test_what_leaves_doubt_about_its_bounds_ends_the_connection(sent: bytes, status: int) -> None:
    event, wire = ask(sent + request())
    assert status_of(event) == status
    assert isinstance(event, Send)
    assert b"Connection: close\r\n" in event.data
    assert wire.next_event() == Close()
    assert wire.wants_close


def test_a_head_of_the_limit_is_read_and_a_longer_one_refused_at_the_limit() -> None:
    head = request(body=b"")
    assert isinstance(ask(head, WireLimits(max_header_bytes=len(head)))[0], Message)
    limits = WireLimits(max_header_bytes=len(head) - 1)
    assert status_of(ask(head[:-1], limits)[0]) == 431
    assert ask(head[:-2], limits)[0] is None


def test_lines_after_http_are_no_messages() -> None:
    event, wire = ask(request() + BODY + b"\n")
    assert event == Message(1, BODY, HttpMeta())
    wire.answer(1, None)
    assert status_of(wire.next_event()) == 400
    assert wire.next_event() == Close()


def test_an_allowed_method_is_named() -> None:
    event, _ = ask(request(line=b"DELETE /rpc HTTP/1.1"))
    assert isinstance(event, Send)
    assert b"\r\nAllow: POST\r\n" in event.data


@pytest.mark.parametrize(
    "host",
    [b"localhost", b"LOCALHOST.:1", b"app.localhost", b"127.0.0.1:9999", b"10.1.2.3", b"[::1]:80"],
)
def test_names_of_this_machine_and_addresses_are_served(host: bytes) -> None:
    event, _ = ask(request(host=host))
    assert isinstance(event, Message)


def test_other_names_are_served_once_allowed() -> None:
    limits = WireLimits(allowed_hosts=("rpc.example.org", "*.lan"))
    for host, served in ((b"rpc.example.org", True), (b"a.b.lan", True), (b"lan", False)):
        event, _ = ask(request(host=host), limits)
        assert isinstance(event, Message) is served
    event, _ = ask(request(host=b"/run/x.sock"), WireLimits().for_unix_socket())
    assert isinstance(event, Message)


def test_a_form_is_a_call_only_without_an_origin() -> None:
    form = b"application/x-www-form-urlencoded"
    ours = b"Origin: http://localhost"
    assert isinstance(ask(request(type_=form))[0], Message)
    assert isinstance(ask(request(type_=None))[0], Message)
    assert isinstance(ask(request(ours))[0], Message)
    assert status_of(ask(request(ours, type_=form))[0]) == 415
    assert status_of(ask(request(ours, type_=None))[0]) == 415


def test_an_allowed_web_page_may_ask_call_and_read() -> None:
    limits = WireLimits(allowed_origins=("https://app.example",))
    origin = b"Origin: https://app.example"
    asked = b"Access-Control-Request-Method: POST"
    line = b"OPTIONS /rpc HTTP/1.1"
    event, wire = ask(
        request(origin, asked, line=line, type_=None, body=None) + request(origin), limits
    )
    assert status_of(event) == 200
    assert isinstance(event, Send)
    assert b"Access-Control-Allow-Origin: https://app.example\r\n" in event.data
    assert b"Access-Control-Allow-Methods: POST\r\n" in event.data
    assert isinstance(wire.next_event(), Message)
    assert b"Access-Control-Allow-Origin: https://app.example\r\n" in wire.answer(2, b"{}")


def test_a_preflight_without_an_allowed_page_gives_nothing_away() -> None:
    asked = b"Access-Control-Request-Method: POST"
    line = b"OPTIONS /rpc HTTP/1.1"
    for origin, status in ((b"Origin: https://app.example", 403), (b"X: y", 405)):
        event, _ = ask(request(origin, asked, line=line, body=b""))
        assert status_of(event) == status
        assert isinstance(event, Send)
        assert b"access-control" not in event.data.lower()


@pytest.mark.parametrize("kind", ["livez", "readyz"])
def test_probes_are_asked_whatever_their_host(kind: str) -> None:
    line = b"GET /%b HTTP/1.1" % kind.encode()
    event, wire = ask(request(line=line, host=b"pod-7.internal", type_=None, body=None))
    assert isinstance(event, Health)
    assert event.kind == kind
    answer = wire.health_answer(event.exchange, kind == "livez", "fine")
    assert answer.startswith(b"HTTP/1.1 200 OK" if kind == "livez" else b"HTTP/1.1 503 Service")
    assert answer.endswith(b"Content-Length: 5\r\n\r\nfine\n")


def test_the_answer_to_head_has_no_body() -> None:
    sent = b"HEAD /livez HTTP/1.1\r\nHost: x\r\n\r\n" + request(line=b"HEAD /rpc HTTP/1.1")
    event, wire = ask(sent)
    assert isinstance(event, Health)
    assert wire.health_answer(1, True, "fine").endswith(b"Content-Length: 5\r\n\r\n")
    refusal = wire.next_event()
    assert status_of(refusal) == 405
    assert isinstance(refusal, Send)
    assert refusal.data.endswith(b"\r\n\r\n")
