from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from faircall.server.wire.connection import Wire
from faircall.server.wire.events import Event, HttpMeta, Message, Send
from faircall.server.wire.limits import WireLimits

Drain = Callable[[Wire], list[Event]]
HEAD = b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
CALL = HEAD + b"Content-Length: 2\r\n\r\n{}"
REFUSED = CALL.replace(b"POST / ", b"POST /nope ")


def payloads(stream: bytes) -> list[bytes]:
    """The bodies of the answers in a stream of them."""
    bodies = []
    while stream:
        head, _, rest = stream.partition(b"\r\n\r\n")
        length = int(head.rsplit(b"Content-Length: ")[1].split(b"\r\n")[0])
        bodies.append(rest[:length])
        stream = rest[length:]
    return bodies


@given(order=st.permutations(range(1, 9)))
def test_answers_leave_in_the_order_of_their_requests(drain: Drain, order: list[int]) -> None:
    wire = Wire(WireLimits())
    wire.receive(CALL * 8)
    assert [event.exchange for event in drain(wire) if isinstance(event, Message)] == [*range(1, 9)]
    sent = b""
    for answered, exchange in enumerate(order, 1):
        sent += wire.answer(exchange, b"%d" % exchange)
        on_the_wire = len(payloads(sent))
        assert payloads(sent) == [b"%d" % number for number in range(1, on_the_wire + 1)]
        assert on_the_wire == next(n for n in range(9) if n + 1 not in order[:answered])
        assert wire.in_flight == 8 - on_the_wire
    assert wire.held == 0


def test_a_refusal_waits_its_turn(drain: Drain) -> None:
    wire = Wire(WireLimits())
    wire.receive(CALL + REFUSED + CALL)
    first, refusal, last = drain(wire)
    assert (first, last) == (Message(1, b"{}", HttpMeta()), Message(3, b"{}", HttpMeta()))
    assert refusal == Send(b"")
    assert wire.answer(3, b"3") == b""
    assert wire.held > 0
    bodies = payloads(wire.answer(1, b"1"))
    assert (bodies[0], bodies[2]) == (b"1", b"3")
    assert b"/rpc" in bodies[1]


@pytest.mark.parametrize("exchange", [0, 1, 3, 7])
def test_only_an_exchange_that_waits_can_be_answered(drain: Drain, exchange: int) -> None:
    wire = Wire(WireLimits())
    wire.receive(CALL * 3)
    drain(wire)
    wire.answer(1, b"1")
    wire.answer(3, b"3")
    with pytest.raises(ValueError, match=f"exchange {exchange} is not waiting"):
        wire.answer(exchange, b"again")
