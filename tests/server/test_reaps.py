"""What the supervisor asks of a janitor, and when it loses patience."""

from __future__ import annotations

import pytest

from faircall.server.janitor.reaps import (
    REFRESH,
    REFRESH_NS,
    SILENCE_NS,
    Reaps,
    answer,
    order_of,
    parse_answer,
    refresh_of,
)

SECOND = 1_000_000_000


class Janitor:
    """Takes orders while it is `alive`."""

    def __init__(self) -> None:
        self.alive = True
        self.orders: list[bytes] = []

    def send(self, message: bytes) -> bool:
        if self.alive:
            self.orders.append(message)
        return self.alive


def test_an_order_is_given_once() -> None:
    reaps, janitor = Reaps(), Janitor()
    reaps.add(("handler", 3))
    reaps.send(janitor.send, 1)
    reaps.send(janitor.send, 2)
    assert janitor.orders == [b"reap handler 3"]


def test_an_order_that_could_not_be_given_is_given_later() -> None:
    reaps, janitor = Reaps(), Janitor()
    reaps.add(("reader", 0))
    janitor.alive = False
    reaps.send(janitor.send, 1)
    assert not reaps.silent(10 * SECOND)
    janitor.alive = True
    reaps.send(janitor.send, 10 * SECOND)
    assert janitor.orders == [b"reap reader 0"]


def test_a_successor_gets_every_order_that_was_not_answered() -> None:
    reaps, janitor = Reaps(), Janitor()
    for place in (("handler", 0), ("handler", 1), ("acceptor", 0)):
        reaps.add(place)
    reaps.send(janitor.send, 1)
    assert reaps.answered(("handler", 1))
    reaps.janitor_died(silent=False)
    successor = Janitor()
    reaps.send(successor.send, 2)
    assert successor.orders == [b"reap handler 0", b"reap acceptor 0"]


def test_an_answer_counts_once() -> None:
    reaps = Reaps()
    reaps.add(("handler", 0))
    assert reaps.answered(("handler", 0))
    assert not reaps.answered(("handler", 0))


def test_silence_is_an_order_unanswered_for_too_long() -> None:
    reaps, janitor = Reaps(), Janitor()
    assert not reaps.silent(SECOND)
    reaps.add(("handler", 0))
    reaps.send(janitor.send, SECOND)
    assert not reaps.silent(SECOND + SILENCE_NS)
    assert reaps.silent(SECOND + SILENCE_NS + 1)
    reaps.forgive(2 * SECOND)
    assert not reaps.silent(2 * SECOND + SILENCE_NS)


def test_each_silent_janitor_gives_its_successor_more_time_until_one_answers() -> None:
    reaps, janitor = Reaps(), Janitor()
    reaps.add(("handler", 0))
    patience = []
    for _ in range(7):
        reaps.send(janitor.send, SECOND)
        patience.append(next(s for s in range(1, 99) if reaps.silent(SECOND + s * SECOND + 1)))
        reaps.janitor_died(silent=True)
    assert patience == [1, 2, 4, 8, 16, 16, 16]
    reaps.answered(("handler", 0))
    reaps.add(("handler", 0))
    reaps.send(janitor.send, SECOND)
    assert reaps.silent(SECOND + SILENCE_NS + 1)


def test_orders_and_answers_are_read_as_they_are_written() -> None:
    assert order_of(b"reap handler 12") == ("handler", 12)
    said = answer(("handler", 12), {"died": 1, "requeued": 0})
    assert parse_answer(said) == (("handler", 12), {"died": 1, "requeued": 0})


@pytest.mark.parametrize("message", [b"", b"reap", b"reap handler", b"sow handler 1", b"reap h x"])
def test_what_is_no_order_is_refused(message: bytes) -> None:
    with pytest.raises(ValueError, match=r"order|unpack|invalid literal"):
        order_of(message)


# -- settings ------------------------------------------------------------------------------------


def test_settings_are_an_order_like_others() -> None:
    reaps, janitor = Reaps(), Janitor()
    reaps.refresh(1, b"a b\n c")
    reaps.send(janitor.send, SECOND)
    assert [refresh_of(order) for order in janitor.orders] == [(1, b"a b\n c")]
    assert not reaps.silent(SECOND + REFRESH_NS)
    assert reaps.silent(SECOND + REFRESH_NS + 1)
    assert reaps.answered((REFRESH, 1))
    assert not reaps.silent(99 * SECOND)
    assert refresh_of(b"reap handler 1") is None


def test_of_settings_only_the_last_count() -> None:
    reaps, janitor = Reaps(), Janitor()
    reaps.refresh(1, b"old")
    reaps.send(janitor.send, 1)
    reaps.refresh(2, b"new")
    reaps.send(janitor.send, 1)
    assert [refresh_of(order) for order in janitor.orders] == [(1, b"old"), (2, b"new")]
    assert not reaps.answered((REFRESH, 1))
    assert reaps.answered((REFRESH, 2))


def test_a_successor_is_forked_with_settings_and_is_not_asked_again() -> None:
    reaps, successor = Reaps(), Janitor()
    reaps.add(("handler", 0))
    reaps.refresh(3, b"settings")
    reaps.janitor_died(silent=False)
    reaps.janitor_died(silent=False)  # the successor, before it was ready
    reaps.refresh(4, b"later")  # after the fork of the next
    assert reaps.inherited() == 3
    assert reaps.inherited() == 0
    reaps.send(successor.send, 1)
    assert successor.orders == [b"reap handler 0", b"refresh 4 later"]
