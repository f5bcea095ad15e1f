from __future__ import annotations

from faircall.client.address import parse_addresses
from faircall.client.errors import ConnectionFailed, RemoteError
from faircall.client.places import GROW_AGAIN_S, Places

A, B, C = parse_addresses("tcp://a:1, unix:/b,http://c")
REFUSED = ConnectionFailed("refused")


def test_after_the_last_address_comes_the_first() -> None:
    places = Places([A, B, C])
    used = []
    for _ in range(4):
        used.append(places.address)
        places.move_on(places.epoch)
    assert used == [A, B, C, A]
    assert str(places) == "tcp://a:1, unix:/b, http://c:80/rpc"


def test_all_who_were_refused_at_one_address_move_on_once() -> None:
    places = Places([A, B, C])
    epoch = places.epoch
    for _ in range(5):
        places.move_on(epoch)
    assert places.address == B


def test_no_connection_leads_to_the_next_address_but_a_refused_name_does_not() -> None:
    places = Places([A, B])
    places.fail(RemoteError(-32055, "not trusted"), places.epoch, 0.0, move=True)
    assert places.address == A
    places.fail(REFUSED, places.epoch, 0.0, move=False)
    assert places.address == A
    places.fail(REFUSED, places.epoch, 0.0, move=True)
    assert places.address == B


def test_a_failure_is_that_of_its_address_and_its_time() -> None:
    places = Places([A, B])
    places.fail(REFUSED, places.epoch, 5.0, move=True)
    assert places.failure(0.0) is None
    places.move_on(places.epoch)
    assert str(places.failure(5.0)) == "refused"
    assert places.failure(5.1) is None


def test_a_failure_is_raised_anew_for_each_who_asks() -> None:
    places = Places([A])
    places.fail(RemoteError(-32052, "no", {"reason": "r"}), 0, 1.0, move=True)
    first, second = places.failure(1.0), places.failure(1.0)
    assert first is not second
    assert isinstance(first, RemoteError)
    assert (first.code, first.reason) == (-32052, "r")


def test_one_more_connection_is_made_when_all_are_busy_and_there_is_room() -> None:
    places = Places([A])
    assert places.may_add(1, 1, 2, 0.0)
    assert not places.may_add(0, 1, 2, 0.0)
    assert not places.may_add(1, 2, 2, 0.0)


def test_a_pool_that_could_not_grow_stays_as_it_is_for_a_while() -> None:
    places = Places([A])
    places.fail(REFUSED, 0, 5.0, move=False)
    assert not places.may_add(1, 1, 2, 5.0 + GROW_AGAIN_S)
    assert places.may_add(1, 1, 2, 5.1 + GROW_AGAIN_S)
