"""How many express handlers a port has: given, or by default."""

from __future__ import annotations

import pytest

from faircall.server.groups import groups_of, handlers_of
from faircall.server.port import geometry_of, policy_of
from faircall.shm.shared import Shared

from .conftest import Load

CORE_SITE = """<configuration><property>
<name>ipc.8020.callqueue.impl</name><value>org.apache.hadoop.ipc.FairCallQueue</value>
</property></configuration>"""


@pytest.mark.parametrize(
    ("text", "express", "why"),
    [
        ("", 1, "default: beside as many handlers as processors"),
        (
            "[handlers]\ncount = 4\n",
            0,
            "default: handlers.count is given: no process more than that",
        ),
        ("[handlers]\ncount = 4\nexpress = 2\n", 2, "faircall.toml"),
        ("[handlers]\nexpress = 0\n", 0, "faircall.toml"),
    ],
)
def test_who_says_how_many_handlers_has_no_more(
    load: Load, text: str, express: int, why: str
) -> None:
    settings = load(text)
    assert settings.handlers.express == express
    assert settings.origins["handlers.express"].startswith(why)


def test_the_environment_says_how_many_handlers_as_well(load: Load) -> None:
    assert load(environ={"FAIRCALL_HANDLERS_COUNT": "4"}).handlers.express == 0


def test_express_handlers_have_places_behind_the_others_and_one_to_spare(load: Load) -> None:
    settings = load(
        "[handlers]\ncount = 2\nexpress = 1\n"
        '[handlers.gpu]\nmethods = ["a"]\ncount = 1\n'
        '[handlers.io]\nmethods = ["b"]\ncount = 1\nexpress = 2\n'
    )
    port = settings.ports[8020]
    geometry = geometry_of(settings, port)
    assert (geometry.group_handlers, geometry.group_express) == ((5, 2, 5), (2, 0, 3))
    assert [group.express for group in groups_of(settings)] == [1, 0, 2]
    assert handlers_of(settings) == 4
    shared = Shared(geometry, policy_of(settings, port), spares=1)
    assert (shared.working, shared.express) == (4, 3)
    spare = [number for number in range(12) if shared.is_spare(number)]
    assert spare == [2, 4, 6, 8, 11]
    seats = [shared.seat_of(number) for number in range(12) if number not in spare]
    assert seats == [0, 1, 2, 0, 0, 1, 2]


def test_none_need_no_place(load: Load) -> None:
    settings = load("[handlers]\ncount = 2\n")
    geometry = geometry_of(settings, settings.ports[8020])
    assert (geometry.handlers, geometry.group_express) == (3, ())


def test_what_is_short_is_a_part_of_the_policy(load: Load) -> None:
    settings = load("[handlers]\nexpress-below-us = 2500\n")
    assert policy_of(settings, settings.ports[8020]).short_ns == 2_500_000


def test_with_hadoops_settings_there_are_none(load: Load) -> None:
    settings = load(CORE_SITE, name="core-site.xml")
    assert (settings.handlers.count, settings.handlers.express) == (8, 0)
