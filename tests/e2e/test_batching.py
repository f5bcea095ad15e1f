"""Functions that serve many calls at once, over real processes."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest

from ..daemon import SERVICES, Daemon, serving
from ..raw import Raw, request

pytestmark = pytest.mark.slow

DIED = -32053


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with serving(
        tmp_path_factory.mktemp("daemon"),
        SERVICES / "batches.py",
        "--handlers",
        "2",
        "--trust-loopback",
    ) as daemon:
        yield daemon


def test_a_handler_waits_until_there_are_enough(daemon: Daemon) -> None:
    """More than a reader hands over in one pass. The other handler may have been about to claim,
    and take the rest: but not each time."""
    with Raw(daemon.tcp) as raw:

        def sizes() -> dict[int, int]:
            raw.send(*[request("how_many", number, id=number) for number in range(20)])
            answers = [raw.receive() for _ in range(20)]
            return {answer["id"]: answer.get("result", answer) for answer in answers}

        assert dict.fromkeys(range(20), 20) in (sizes() for _ in range(10))


def test_calls_of_several_users_are_served_at_once(daemon: Daemon) -> None:
    """Two handlers may both be woken before the first has claimed, and share them: but not each
    time; and whoever serves a call serves it once, with those that it names."""
    users = [f"user-{number}" for number in range(4)]
    with contextlib.ExitStack() as stack:
        raws = [stack.enter_context(Raw(daemon.tcp)) for _ in users]
        for user, raw in zip(users, raws, strict=True):
            raw.call("faircall.hello", user)

        def served() -> list[list[str]]:
            for raw in raws:
                raw.send(request("whose", 1, id=1))
            found = [raw.receive()["result"] for raw in raws]
            for user, together in zip(users, found, strict=True):
                assert user in together
                assert all(found[users.index(other)] == together for other in together)
            return found

        assert [users] * 4 in (served() for _ in range(10))


@pytest.mark.fault
def test_what_kills_its_handler_takes_the_others_with_it_once(daemon: Daemon) -> None:
    with Raw(daemon.tcp) as raw:
        raw.send(*[request("fragile", number, id=number) for number in (1, -1, 2, 3)])
        answers = [raw.receive() for _ in range(4)]
    by_id = {answer["id"]: answer for answer in answers}
    assert [by_id[number]["result"] for number in (1, 2, 3)] == [1, 2, 3]
    assert by_id[-1]["error"]["code"] == DIED
    rows = daemon.stats()["ports"][0]["methods"]
    failed = next(row["failed"] for row in rows if row["method"] == "fragile")
    assert failed == 4 + 2  # all four, then the one alone twice
