"""What handlers answer, and what is said for them when they cannot."""

from __future__ import annotations

from faircall.shm.columns import Counter

from .reader_client import batch, call, reasons
from .reader_world import World


def test_answers_are_collected_a_part_at_a_time(world: World) -> None:
    world.reader._answers._collected = [0, 0]
    client = world.connect()
    client.send(b"".join(call("echo", id=id_) for id_ in range(5)))
    world.read()
    while world.handle():
        pass
    assert [world.read() for _ in range(4)] == [2, 2, 1, 0]
    assert len(client.answers()) == 5


def test_a_dead_handler_is_told_of_and_counted(world: World) -> None:
    client = world.connect()
    client.send(batch(call("end", id=1), call("echo", id=2)) + call("echo", id=3))
    world.run()
    answers = {each["id"]: each for line in client.answers() for each in _list(line)}
    assert reasons([answers[1]]) == [(1, "handler_died")]
    assert "result" in answers[2]
    assert "result" in answers[3]
    assert world.count(Counter.DIED) == 1
    world.verify()


def _list(answer: object) -> list[dict[str, object]]:
    return answer if isinstance(answer, list) else [answer]  # type: ignore[list-item]


def test_no_room_for_an_answer_is_an_answer(world: World) -> None:
    client = world.connect()
    client.send(call("big", [700_000], 1) + call("big", [10], 2))
    world.run()
    assert sorted(reasons(client.answers())) == [(1, "no_room_for_answer"), (2, "ok")]
    world.verify()


def test_an_exception_of_the_service_is_an_answer(world: World) -> None:
    client = world.connect()
    client.send(call("fail", ["why"], 1))
    world.run()
    error = client.answers()[0]["error"]
    assert (error["code"], error["message"]) == (-32000, "RuntimeError: why")
