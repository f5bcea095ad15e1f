"""Who overloads a port, explained: from words that the tests store as readers and handlers do."""

from __future__ import annotations

from typing import Any

import pytest

from faircall.scheduling import overload
from faircall.server.admin.explain_user import NoSuchUser, explain_user
from faircall.server.admin.recent import Recent
from faircall.server.admin.suspects import FORGET_NS, Suspects
from faircall.server.admin.user_list import UserList
from faircall.server.admin.users_text import explain_lines
from faircall.server.port import Port
from faircall.shm.columns import Counter
from faircall.shm.top_callers import FIGURES, THROTTLED, names_of

from ..conftest import Load
from .small_port import Traffic, small_port

SECOND_NS = 1_000_000_000


class Scene:
    """A port, and what its reader publishes: (user, context, method, address, calls, busy)."""

    def __init__(self, port: Port) -> None:
        self.port, self.traffic, self.now_ns = port, Traffic(port), port.created_ns
        self.users, self.recent = UserList(port, self.now_ns), Recent(port.shared, self.now_ns)
        self.suspects = Suspects(port, self.users, self.recent)

    def publish(self, *who: tuple[str, str, str, str, float, float], refused: float = 0.0) -> None:
        """All are counted for one second, and charged one for each call."""
        names, rows = self.port.shared.names, []
        for user, context, method, address, calls, busy in who:
            row = self.traffic.user(user)
            self.port.shared.columns.charge(0, row, int(calls), int(calls))
            figures = [calls, calls, busy * 1e9] + [0.0] * (FIGURES - 3)
            figures[3 + THROTTLED] = refused
            number = names.method(method, 0, 0)
            packed = names_of(names.reference(row), number, user.encode(), context, address)
            rows.append((figures, packed))
        self.port.shared.top_callers.publish(0, self.now_ns, 1.0, [0.0] * FIGURES, rows)

    def overload(self, waiting: int = 3) -> None:
        """A second in which both handlers are busy, and calls wait."""
        for number in range(waiting):
            self.traffic.offer(f"method-{number}", "alice", level=3)
        for handler in range(2):
            index = self.port.shared.index("handler", handler)
            self.port.shared.columns.add(index, Counter.BUSY_NS, SECOND_NS)
        self.now_ns += SECOND_NS


def test_at_rest_nothing_is_read_and_held_calls_wait_for_no_handler(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[int] = []
    monkeypatch.setattr(scene.suspects, "overload", looks.append)

    def seconds(count: int) -> None:
        for _ in range(count):
            scene.now_ns += SECOND_NS
            scene.users.tick(scene.now_ns)
            scene.suspects.tick(scene.now_ns)

    seconds(9)
    assert len(looks) == 9
    seconds(5)
    assert len(looks) == 9
    table = scene.port.shared.table
    table.q[table.held.held_word] = 1
    seconds(2)
    assert len(looks) == 9
    table.q[table.waiting_word] = 1
    seconds(2)
    assert len(looks) == 11


@pytest.fixture
def scene(port: Port) -> Scene:
    return Scene(port)


FLOOD = (
    ("alice", "nightly", "spin", "192.0.2.7", 80.0, 1.5),
    ("alice", "adhoc", "add", "192.0.2.8", 8.0, 0.1),
    ("bob", "", "add", "", 2.0, 0.1),
    ("carol", "web", "add", "", 2.0, 0.1),
)


def test_who_overloads_it_is_named_with_what_it_does(scene: Scene) -> None:
    scene.publish(*FLOOD)
    scene.overload()
    found = scene.suspects.overload(scene.now_ns)
    assert found.is_overloaded
    (alice,) = found.suspects
    assert (alice.user, alice.method, alice.context, alice.address) == (
        "alice",
        "spin",
        "nightly",
        "192.0.2.7",
    )
    assert alice.part == pytest.approx(0.95, abs=0.02)
    assert (alice.waiting, alice.handlers_busy) == (3, 1.6)
    assert "Overloaded by alice (9" in found.sentence
    assert "mostly spin of nightly from 192.0.2.7" in found.sentence


def test_as_long_as_nothing_waits_nobody_overloads_it(scene: Scene) -> None:
    scene.publish(*FLOOD)
    scene.overload(waiting=0)
    found = scene.suspects.overload(scene.now_ns)
    assert (found.is_overloaded, found.suspects, found.since_s) == (False, (), None)
    assert found.sentence.startswith("Nobody overloads it")


def test_a_few_calls_that_take_all_the_time_are_found(scene: Scene) -> None:
    scene.publish(
        ("alice", "", "resize", "", 2.0, 1.9), *((f"u{n}", "", "add", "", 30.0, 0.0) for n in "abc")
    )
    scene.overload()
    suspects = scene.suspects.overload(scene.now_ns).suspects
    assert (suspects[0].user, suspects[0].part) == ("alice", 1.0)


def test_it_is_known_since_when(scene: Scene) -> None:
    scene.publish(*FLOOD)
    scene.overload()
    scene.suspects.tick(scene.now_ns)
    for _ in range(3):
        scene.recent.tick(scene.now_ns)
        scene.publish(*FLOOD)
        scene.overload(waiting=0)
        scene.suspects.tick(scene.now_ns)
    found = scene.suspects.overload(scene.now_ns)
    assert (found.since_s, found.suspects[0].since_s) == (3.0, 3.0)
    scene.now_ns += FORGET_NS * 2
    scene.suspects._seen_ns["old"] = (0, 0)
    scene.publish(*FLOOD)
    columns, reader = scene.port.shared.columns, scene.port.shared.index("reader", 0)
    columns.add(reader, Counter.THROTTLED, 100)  # a limit is what ends an overload
    assert not scene.suspects.overload(scene.now_ns).suspects
    columns.add(reader, Counter.REFUSED_QUEUE_FULL, 1)
    assert scene.suspects.overload(scene.now_ns).suspects
    assert "old" not in scene.suspects._seen_ns


@pytest.mark.parametrize(
    ("busy", "waiting", "refused", "is_over"),
    [
        (1.0, 3, 0.0, True),
        (1.0, 2, 0.0, False),
        (0.6, 20, 0.0, False),
        (0.6, 21, 0.0, True),
        (0.4, 21, 0.0, False),
        (0.0, 0, 0.1, True),
    ],
)
def test_what_an_overload_is(busy: float, waiting: int, refused: float, is_over: bool) -> None:
    assert overload.is_overloaded(busy, waiting, 2, refused) is is_over


def test_equals_are_all_suspects_and_small_ones_never() -> None:
    assert overload.least_part(0.125, 2) <= 0.5
    assert overload.least_part(0.125, 2) > 0.34
    assert overload.least_part(0.125, 1000) == 0.125


# -- explained ------------------------------------------------------------------------------------


def explained(scene: Scene, name: str) -> dict[str, Any]:
    return explain_user(scene.port, scene.users, name, scene.now_ns)


def test_a_user_is_explained_by_what_it_does_and_waits_for(scene: Scene) -> None:
    scene.publish(*FLOOD, refused=2.0)
    scene.overload()
    row = scene.traffic.user("alice")
    scene.port.shared.names.identities.rows["level"][row] = 3
    found = explained(scene, "alice")
    assert [(each["context"], each["share"]) for each in found["contexts"]] == [
        ("nightly", 0.9091),
        ("adhoc", 0.0909),
    ]
    assert [each["method"] for each in found["methods"]] == ["spin", "add"]
    assert [each["address"] for each in found["addresses"]] == ["192.0.2.7", "192.0.2.8"]
    assert found["waits"]["levels"] == [{"level": 3, "waiting": 3}]
    (refused,) = found["refused"]
    assert (refused["reason"], refused["per_s"]) == ("throttled", 4.0)
    text = "\n".join(explain_lines({"ports": [found]}))
    assert "alice is at level 3 of port 0: 9" in text
    assert "3 of its calls wait (3 at level 3)" in text
    assert "decay-scheduler.service-users = ['alice']" in text


def test_a_service_user_is_said_to_be_one(load: Load) -> None:
    with small_port(load, "decay-scheduler.service-users = ['alice']\n") as port:
        scene = Scene(port)
        scene.publish(*FLOOD)
        found = explained(scene, "alice")
    assert found["standing"]["why"].startswith("a service user")
    assert (found["standing"]["share"], found["standing"]["if_idle"]) == (None, None)
    assert found["exempt"] == []


def test_a_newcomer_is_charged_to_another_account(scene: Scene) -> None:
    names = scene.port.shared.names
    row = scene.traffic.user("(newcomers of uid 1)", 5)
    packed = names_of(names.reference(row), names.method("add", 0, 0), b"zoe", "", "")
    figures = [3.0, 3.0] + [0.0] * (FIGURES - 2)
    publish = scene.port.shared.top_callers.publish
    publish(0, scene.now_ns, 1.0, [0.0] * FIGURES, [(figures, packed)])
    found = explained(scene, "zoe")
    assert (found["standing"], found["methods"][0]["method"]) == (None, "add")
    assert "charged to (newcomers of uid 1)" in found["note"]


def test_an_unknown_user_is_told_from_those_that_are_known(scene: Scene) -> None:
    scene.publish(*FLOOD)
    with pytest.raises(NoSuchUser, match=r"no user 'alise' at port 0: .* known is alice"):
        explained(scene, "alise")


def test_what_a_dead_reader_published_is_left_out(scene: Scene) -> None:
    scene.publish(*FLOOD)
    scene.now_ns += 60 * SECOND_NS
    assert explained(scene, "alice")["methods"] == []
