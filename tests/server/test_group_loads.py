"""Groups of handlers, one of them overloaded beside an idle one: what is said, and who is named."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from faircall.server.admin.group_loads import group_loads
from faircall.server.admin.overload_text import sentence
from faircall.server.admin.suspects import Overload
from faircall.server.port import Port
from faircall.shm.columns import Counter
from faircall.shm.layout import GROUP_SHIFT

from ..conftest import Load
from .small_port import small_port
from .test_alarms import Scene as AlarmScene
from .test_suspects import SECOND_NS, Scene

GROUPS = '[handlers.gpu]\ncount = 1\nmethods = ["vision.*"]\ncapacity = 32\n'
GPU = 1 << GROUP_SHIFT  # level 0 of the second group


@pytest.fixture
def port(load: Load) -> Iterator[Port]:
    with small_port(load, GROUPS) as port:
        yield port


def jam(scene: Scene) -> Overload:
    """The only handler of the group is busy for a second, for ann, while bob has the others."""
    busy = ("bob", "web", "add", "", 400.0, 0.5), ("ann", "etl", "vision.see", "", 4.0, 1.0)
    scene.publish(*busy, ("cleo", "", "vision.see", "", 1.0, 0.0))
    for number in range(3):
        scene.traffic.offer(f"vision.{number}", "ann", level=GPU)
    handler = scene.port.shared.geometry.handlers_of(1).start
    index = scene.port.shared.index("handler", handler)
    scene.port.shared.columns.add(index, Counter.BUSY_NS, SECOND_NS)
    scene.now_ns += SECOND_NS
    return scene.suspects.overload(scene.now_ns)


def test_a_jammed_group_is_an_overload_though_most_handlers_are_idle(port: Port) -> None:
    found = jam(Scene(port))
    assert found.is_overloaded
    assert found.busy < 0.5
    default, gpu = found.groups
    assert (default.group, default.is_overloaded, default.waiting) == ("default", False, 0)
    assert (gpu.group, gpu.is_overloaded, gpu.waiting, gpu.busy) == ("gpu", True, 3, 1.0)
    assert (gpu.methods, gpu.handlers, gpu.capacity) == (("vision.*",), 1, 32)


def test_who_is_named_does_it_in_that_group(port: Port) -> None:
    """bob has nearly all calls, and all the cost where costs are calls; but not of the gpu's."""
    found = jam(Scene(port))
    assert [(each.user, each.method) for each in found.suspects] == [("ann", "vision.see")]
    assert found.sentence == (
        "Group gpu is overloaded by ann (100%, mostly vision.see of etl): handlers of gpu"
        " 100% busy, 3 calls wait; beside it, handlers of default 0% busy, 0 calls wait."
    )


def test_each_group_is_told_while_nobody_overloads_any(port: Port) -> None:
    found = Scene(port).suspects.overload(port.created_ns + SECOND_NS)
    assert found.sentence == (
        "Nobody overloads it: handlers of default 0% busy, 0 calls wait;"
        " handlers of gpu 0% busy, 0 calls wait."
    )


def test_refused_calls_are_of_the_group_of_their_method(port: Port) -> None:
    scene = Scene(port)
    scene.publish(("ann", "", "vision.see", "", 9.0, 0.0), refused=5.0)
    refused = [load.refused_per_s for load in scene.suspects.overload(scene.now_ns).groups]
    assert refused == [0.0, 0.0], "a limit does that"


def test_a_port_without_groups_tells_none(load: Load) -> None:
    with small_port(load) as port:
        assert group_loads(port, [0.0] * port.shared.geometry.handlers, []) == ()
    assert (
        sentence(False, 0.1, 2, 0.0, []) == "Nobody overloads it: handlers 10% busy, 2 calls wait."
    )


def test_the_alarm_of_a_group_names_it_and_who_waits_there(port: Port) -> None:
    """Of all calls those of the gpu are few; who waits for it waits for long."""
    scene = AlarmScene(port)
    for number in range(3):
        scene.traffic.offer(f"vision.{number}", "ann", level=GPU)
    for _ in range(4):
        scene.publish(
            ("bob", "", "add", "", 500, 0.2),
            ("ann", "etl-1", "vision.see", "192.0.2.7", 1, 0.2),
            ("cleo", "", "vision.see", "", 1, 0.01),
        )
        scene.look()
    alarms = {alarm["rule"]: alarm for alarm in scene.alarms.active(scene.now_ns)}
    assert set(alarms) == {"wait", "share"}
    for alarm in alarms.values():
        assert (alarm["group"], alarm["user"], alarm["job"]) == ("gpu", "ann", "etl-1")
        assert alarm["text"].startswith("port 0, group gpu: ")


def test_calls_are_refused_by_the_group_that_was_found_full(port: Port) -> None:
    scene, shared = AlarmScene(port), port.shared
    overflowed = shared.segment.words(
        shared.segment.layout.overflowed, shared.geometry.ring_numbers
    )
    for _ in range(5):
        overflowed[GPU] += 10
        scene.refuse(10)
        scene.look()
    (alarm,) = scene.alarms.active(scene.now_ns)
    assert (alarm["rule"], alarm["group"]) == ("refusals", "gpu")
