from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from faircall.shm import mutex
from faircall.shm import segment as segment_module
from faircall.shm.layout import HEADER, SHARD, WORD, Geometry, Layout, word_of
from faircall.shm.segment import (
    LayoutMismatch,
    NoRoom,
    Segment,
    SegmentNotReady,
    sweep_stale,
)

from ..fault.kill import start, wait_for
from ..fault.world import SMALL

MIB = 1 << 20


@pytest.fixture
def segment() -> Iterator[Segment]:
    made = Segment.create(SMALL)
    yield made
    os.close(made.fd)


def refuse_room(monkeypatch: pytest.MonkeyPatch, times: int, code: int = errno.ENOSPC) -> None:
    """The next `times` allocations fail."""
    left = [code] * times
    allocate = os.posix_fallocate

    def fallocate(fd: int, offset: int, size: int) -> None:
        if left:
            raise OSError(left.pop(), "injected")
        allocate(fd, offset, size)

    monkeypatch.setattr(os, "posix_fallocate", fallocate)


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_nothing_is_left_in_dev_shm(segment: Segment) -> None:
    assert segment.backing == "/dev/shm"
    assert [name for name in os.listdir("/dev/shm") if f"-{os.getpid()}-" in name] == []
    assert os.fstat(segment.fd).st_nlink == 0


def test_only_its_owner_may_open_it() -> None:
    before = os.umask(0)
    try:
        made = Segment.create(SMALL)
    finally:
        os.umask(before)
    status = os.fstat(made.fd)
    os.close(made.fd)
    assert stat.S_IMODE(status.st_mode) == 0o600
    assert status.st_uid == os.geteuid()


def test_its_pages_are_real(segment: Segment) -> None:
    assert os.fstat(segment.fd).st_blocks * 512 >= segment.layout.total_bytes


def test_its_descriptor_is_not_inherited_by_exec(segment: Segment) -> None:
    assert not os.get_inheritable(segment.fd)


def test_who_attaches_sees_the_same_words(segment: Segment) -> None:
    other = Segment.attach(segment.fd, SMALL)
    last = segment.layout.total_bytes // WORD - 1
    segment.q[last] = 0x0123_4567_89AB_CDEF
    assert other.q[last] == 0x0123_4567_89AB_CDEF


def test_a_fork_shares_the_words(segment: Segment) -> None:
    word = segment.word(segment.layout.shard, SHARD, "held")
    assert wait_for(start(lambda: segment.q.__setitem__(word, 7))) == 0
    assert segment.q[word] == 7


@pytest.mark.parametrize("bit", [0, 31, 63])
def test_a_segment_whose_magic_is_another_is_not_ready(segment: Segment, bit: int) -> None:
    segment.q[word_of(HEADER, "magic")] ^= 1 << bit
    with pytest.raises(SegmentNotReady):
        Segment.attach(segment.fd, SMALL)


def test_an_unfinished_segment_is_not_ready(segment: Segment) -> None:
    segment.q[word_of(HEADER, "magic")] = 0
    with pytest.raises(SegmentNotReady, match="not ready"):
        Segment.attach(segment.fd, SMALL)


@pytest.mark.parametrize("field", ["layout", "bytes"])
@pytest.mark.parametrize("bit", [0, 31, 32, 63])
def test_a_corrupt_header_is_refused(segment: Segment, field: str, bit: int) -> None:
    segment.q[word_of(HEADER, field)] ^= 1 << bit
    with pytest.raises(LayoutMismatch, match="ours="):
        Segment.attach(segment.fd, SMALL)


def test_another_geometry_of_the_same_size_is_refused(segment: Segment) -> None:
    other = replace(SMALL, limiters=3)
    assert Layout(other, "").total_bytes == segment.layout.total_bytes
    with pytest.raises(LayoutMismatch):
        Segment.attach(segment.fd, other)


def test_another_size_is_refused(segment: Segment) -> None:
    with pytest.raises(LayoutMismatch, match="wanted"):
        Segment.attach(segment.fd, Geometry())


def test_another_libc_is_refused(segment: Segment, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mutex, "abi", lambda: "another")
    with pytest.raises(LayoutMismatch):
        Segment.attach(segment.fd, SMALL)


def test_the_boot_word_differs_each_time(segment: Segment) -> None:
    other = Segment.create(SMALL)
    os.close(other.fd)
    assert other.q[word_of(HEADER, "boot")] != segment.q[word_of(HEADER, "boot")]


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.ENOMEM])
def test_a_full_dev_shm_is_replaced_by_a_memfd(code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    refuse_room(monkeypatch, 1, code)
    before = descriptors()
    made = Segment.create(SMALL)
    assert made.backing == "memfd"
    assert os.fstat(made.fd).st_blocks * 512 >= made.layout.total_bytes
    Segment.attach(made.fd, SMALL)
    os.close(made.fd)
    assert descriptors() <= before + 2  # the mappings' own, until they are collected


def test_no_room_anywhere_is_said_in_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    refuse_room(monkeypatch, 2)
    before = descriptors()
    size = Layout(SMALL, mutex.abi()).total_bytes
    with pytest.raises(NoRoom, match=f"no room for a segment of {size} bytes: injected"):
        Segment.create(SMALL)
    assert descriptors() <= before  # others may be collected meanwhile
    assert [name for name in os.listdir("/dev/shm") if f"-{os.getpid()}-" in name] == []


def test_another_failure_is_not_covered_up(monkeypatch: pytest.MonkeyPatch) -> None:
    refuse_room(monkeypatch, 1, errno.EIO)
    before = descriptors()
    with pytest.raises(OSError, match="injected"):
        Segment.create(SMALL)
    assert descriptors() <= before  # others may be collected meanwhile


def test_what_a_dead_creator_left_is_swept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segment_module, "SHM_FOLDER", str(tmp_path))
    dead = start(lambda: None)
    wait_for(dead)
    stale = f"faircall-{os.geteuid()}-{dead}-0123456789abcdef"
    kept = {
        f"faircall-{os.geteuid()}-{os.getpid()}-0123456789abcdef",  # its creator lives
        f"faircall-{os.geteuid() + 1}-{dead}-0123456789abcdef",  # somebody else's
        "something-else",
    }
    for name in (stale, *kept):
        (tmp_path / name).touch()
    assert sweep_stale() == [stale]
    assert set(os.listdir(tmp_path)) == kept


def test_a_record_array_is_a_view_not_a_copy(segment: Segment) -> None:
    shard = segment.records(SHARD, segment.layout.shard, 1)
    segment.q[segment.word(segment.layout.shard, SHARD, "seq")] = 99
    assert shard["seq"][0] == 99
