"""What a port's segment and queue are made of."""

from __future__ import annotations

from pathlib import Path

import pytest

from faircall.server.config_ipc import MOST_LEVELS
from faircall.server.port import UNLIMITED, Port, geometry_of, open_ports, pages_of, policy_of
from faircall.server.supervisor.failures import CannotStart
from faircall.shm.layout import LARGE_PAGE, SLOT, SMALL_PAGE, Layout, word_of
from faircall.shm.offers import ACCEPTED
from faircall.shm.shared import Shared
from faircall.shm.table import CallTable

from ..conftest import Load
from .supervised import SMALL

FIFO = '[ipc.8020]\ncallqueue.impl = "LinkedBlockingQueue"\ncallqueue.total-capacity = 100\n'


def test_by_default_the_queue_is_fair_and_in_turn(load: Load) -> None:
    settings = load()
    policy = policy_of(settings, settings.ports[8020])
    assert policy.weights == (8, 4, 2, 1)
    assert policy.capacities == (1024, 1024, 1024, 1024)
    assert policy.in_turn
    assert policy.max_principal == 1024
    assert policy.claim_ahead_ns == 200_000
    assert policy.held_share == 500


def test_the_share_of_held_calls_is_that_of_every_queue(load: Load) -> None:
    text = "[throttle]\nmax-held-share = 0.25\n"
    for queue in (text, text + FIFO):
        settings = load(queue)
        assert policy_of(settings, settings.ports[8020]).held_share == 250


def test_the_remainder_of_the_capacity_is_level_0s(load: Load) -> None:
    settings = load(
        "[ipc.8020]\ncallqueue.total-capacity = 103\ncallqueue.capacity.weights = [4, 3, 2, 1]\n"
    )
    policy = policy_of(settings, settings.ports[8020])
    assert policy.capacities == (43, 30, 20, 10)


def test_fifo_is_one_level_in_order_of_arrival(load: Load) -> None:
    settings = load(FIFO)
    policy = policy_of(settings, settings.ports[8020])
    assert (policy.weights, policy.capacities, policy.in_turn) == ((1,), (100,), False)
    assert policy.max_principal == UNLIMITED


def test_by_hadoops_rules_one_caller_may_fill_the_queue(load: Load) -> None:
    settings = load('[ipc.8020]\ncallqueue.impl = "FairCallQueue"\n')
    assert policy_of(settings, settings.ports[8020]).max_principal == UNLIMITED


@pytest.mark.parametrize(
    ("text", "from_cursor"),
    [("", False), ('callqueue.scan = "top"', False), ('callqueue.scan = "cursor"', True)],
)
def test_a_draw_of_an_empty_level_goes_on_at_the_top_or_at_the_cursor(
    load: Load, text: str, from_cursor: bool
) -> None:
    settings = load(f"[ipc.8020]\n{text}\n")
    assert policy_of(settings, settings.ports[8020]).scan_from_cursor is from_cursor


@pytest.mark.parametrize(("capacity", "slots"), [(4, 256), (247, 256), (248, 512), (4096, 8192)])
def test_a_reader_has_slots_for_all_that_wait_and_all_that_run(
    load: Load, capacity: int, slots: int
) -> None:
    settings = load(f"[handlers]\ncount = 8\n[ipc.8020]\ncallqueue.total-capacity = {capacity}\n")
    assert geometry_of(settings, settings.ports[8020]).slots == slots


def test_one_more_caller_has_the_next_turn_however_much_another_has_waiting(load: Load) -> None:
    settings = load(
        "[ipc.8020]\nscheduler.priority.levels = 1\n"
        "faircallqueue.multiplexer.weights = [1]\ncallqueue.max-principal-share = 1.0\n"
    )
    ipc = settings.ports[8020]
    shared = Shared(geometry_of(settings, ipc), policy_of(settings, ipc))
    table, verdicts, most = shared.table, [ACCEPTED], 3000
    for name, slots in (("heavy", range(most)), ("light", range(most, most + 25))):
        row = shared.names.identity(name, 0)
        for slot in slots:
            table.words[slot, word_of(SLOT, "principal")] = shared.names.reference(row)
    table.enqueue([(slot, 0) for slot in range(most)], [ACCEPTED] * most)
    for light in range(most, most + 25):
        for _ in range(100):
            assert claimed(table) < most
        table.enqueue([(light, 0)], verdicts)
        assert verdicts == [ACCEPTED]
        assert light in (claimed(table), claimed(table))
    shared.doorbells.close()


def claimed(table: CallTable) -> int:
    """The slot that is served next; -1 if nothing waits."""
    out = [-1]
    table.claim(0, 0, out, [0])
    return out[0]


@pytest.mark.parametrize("levels", [1, 4, 14])
def test_there_is_room_for_as_many_levels_as_can_be_configured(load: Load, levels: int) -> None:
    settings = load(f"[ipc.8020]\nscheduler.priority.levels = {levels}\n")
    assert geometry_of(settings, settings.ports[8020]).levels == MOST_LEVELS


def test_the_default_segment_fits_dev_shm_of_a_container(load: Load) -> None:
    settings = load(flags={"handlers.count": (4, "--handlers")})
    layout = Layout(geometry_of(settings, settings.ports[8020]), "any")
    assert layout.total_bytes <= 64 << 20


MIB = 1 << 20


@pytest.mark.parametrize("payload", [MIB, 52 * MIB, 1 << 30])
@pytest.mark.parametrize("longest", [1 << 10, MIB // 2])
def test_the_payload_is_what_was_configured(payload: int, longest: int) -> None:
    small, large = pages_of(payload, longest)
    used = small * SMALL_PAGE + large * LARGE_PAGE
    assert payload - LARGE_PAGE - SMALL_PAGE < used <= payload


def test_by_default_a_bit_more_than_a_third_are_small_pages() -> None:
    assert pages_of(52 * MIB, 16 * MIB) == (5120, 512)


def test_the_longest_request_and_answer_fit_at_a_time_where_that_leaves_room_for_others() -> None:
    small, large = pages_of(40 * MIB, 16 * MIB)
    assert large * LARGE_PAGE >= 32 * MIB
    assert small * SMALL_PAGE >= 5 * MIB
    assert pages_of(32 * MIB, 16 * MIB)[0] * SMALL_PAGE == 4 * MIB


def test_a_segment_that_the_layout_cannot_hold_is_refused(load: Load) -> None:
    settings = load(
        '[server]\nbind = ["tcp://127.0.0.1:0"]\nreaders = 256\n'
        "[ipc.0]\ncallqueue.total-capacity = 1048576\n"
    )
    with pytest.raises(CannotStart, match=r"port 0: readers x slots must be under 2\^24"):
        open_ports(settings)


def test_each_section_is_a_port_of_its_own(load: Load, tmp_path: Path) -> None:
    places = f'"tcp://127.0.0.1:0", "unix:{tmp_path}/a#1", "unix:{tmp_path}/b#1"'
    ports = open_ports(load(SMALL.replace('"tcp://127.0.0.1:0"', places)))
    try:
        assert [port.number for port in ports] == [0, 1]
        assert ports[1].addresses() == [f"unix:{tmp_path}/a", f"unix:{tmp_path}/b"]
        assert ports[0].shared.segment.fd != ports[1].shared.segment.fd
    finally:
        for port in ports:
            port.close()


def test_the_start_up_line_says_what_is_active_and_why(load: Load) -> None:
    settings = load(SMALL)
    port = Port(settings, settings.ports[0])
    said = port.describe()
    port.close()
    assert said | {"segment_mib": 0, "memory": "", "readers_from": "", "handlers_from": ""} == {
        "port": 0,
        "queue": "FairCallQueue",
        "scheduler": "DecayRpcScheduler",
        "levels": 4,
        "weights": (8, 4, 2, 1),
        "capacity": (16, 16, 16, 16),
        "in_turn": True,
        "backoff": True,
        "readers": 1,
        "readers_from": "",
        "handlers": 2,
        "handlers_from": "",
        "segment_mib": 0,
        "memory": "",
    }
    assert "faircall.toml" in said["handlers_from"]
    assert port.remarks() == []


@pytest.mark.parametrize(
    ("text", "shares"),
    [
        ("", (0, 0)),
        ("decay-scheduler.service-users = ['hdfs']", (500, 0)),
        ("decay-scheduler.service-users = ['hdfs']\ncallqueue.impl = 'FairCallQueue'", (0, 0)),
        ("history-scheduler.service-users = ['hdfs']", (0, 0)),
        (
            "scheduler.impl = 'HistoryRpcScheduler'\nhistory-scheduler.service-users = ['hdfs']\n"
            "scheduler.service-users.max-share = 0.25",
            (250, 0),
        ),
        ("scheduler.reserved.methods = ['beat']", (0, 100)),
        ("scheduler.reserved.users = ['ops']\nscheduler.reserved.max-share = 0.0001", (0, 1)),
        ("scheduler.reserved.max-share = 0.3", (0, 0)),
    ],
)
def test_lanes_are_there_for_those_who_are_named(
    load: Load, text: str, shares: tuple[int, int]
) -> None:
    settings = load("[ipc.8020]\n" + text)
    assert policy_of(settings, settings.ports[8020]).lane_shares == shares
