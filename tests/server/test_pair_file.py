"""Files of tokens and of groups."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from faircall.server.reader.pair_file import LOOK_NS, SETTLED_NS, FileUnusable, PairFile


class Clock:
    def __init__(self) -> None:
        self.now_ns = 0

    def __call__(self) -> int:
        return self.now_ns

    def pass_a_look(self) -> None:
        self.now_ns += LOOK_NS


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "tokens"
    write(path, "# of the laboratory\n\n t0k-anna\tanna  # since May\nt0k-bert bert\n")
    return path


def write(path: Path, text: str, mode: int = 0o600) -> None:
    """A new file in its place, as careful editors do it."""
    aside = path.with_suffix(".new")
    aside.write_text(text)
    aside.chmod(mode)
    aside.replace(path)


@pytest.mark.parametrize("secret", [True, False])
def test_the_second_word_is_found_by_the_first(path: Path, secret: bool) -> None:
    file = PairFile(str(path), secret=secret)
    assert file.find("t0k-anna") == "anna"
    assert file.find("t0k-bert") == "bert"
    for wrong in ("", "t0k", "t0k-anna ", "T0K-ANNA", "anna", "#", "\ud800"):
        assert file.find(wrong) is None


def test_a_secret_is_not_kept(path: Path) -> None:
    file = PairFile(str(path), secret=True)
    assert not any(b"t0k" in key for key in file._pairs)
    other = PairFile(str(path), secret=True)
    assert file._pairs.keys().isdisjoint(other._pairs)  # nor can digests be made beforehand


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o601])
def test_a_secret_is_for_its_owner_alone(path: Path, mode: int) -> None:
    path.chmod(mode)
    with pytest.raises(FileUnusable, match=f"{path} has mode {mode:04o}: .* chmod 600"):
        PairFile(str(path), secret=True)
    assert PairFile(str(path)).find("t0k-anna") == "anna"  # groups are no secret


@pytest.mark.skipif(os.geteuid() != 0, reason="needs to give a file away")
def test_a_secret_of_another_user_is_none(path: Path) -> None:
    os.chown(path, 4711, -1)
    with pytest.raises(FileUnusable, match="belongs to uid 4711"):
        PairFile(str(path), secret=True)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("a b\nalone\n", ":2: needs two words"),
        ("a b c\n", ":1: needs two words"),
        ("a b\n\na c\n", ":3: its first word stands there before"),
    ],
)
def test_a_line_that_cannot_be_meant_is_named(path: Path, text: str, complaint: str) -> None:
    write(path, text)
    with pytest.raises(FileUnusable, match=complaint):
        PairFile(str(path), secret=True)


def test_what_is_no_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileUnusable, match="none cannot be read: No such file"):
        PairFile(str(tmp_path / "none"))
    with pytest.raises(FileUnusable):
        PairFile(str(tmp_path))
    (tmp_path / "binary").write_bytes(b"\xff\xfe a")
    with pytest.raises(FileUnusable, match="is not UTF-8"):
        PairFile(str(tmp_path / "binary"))


def test_a_change_counts_from_the_next_look(path: Path, clock: Clock) -> None:
    file = PairFile(str(path), secret=True, clock=clock)
    write(path, "t0k-carl carl\n")
    assert file.find("t0k-anna") == "anna"  # not yet
    clock.pass_a_look()
    assert file.find("t0k-anna") is None
    assert file.find("t0k-carl") == "carl"


def test_a_change_that_is_wrong_is_logged_once_and_changes_nothing(
    path: Path, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    file = PairFile(str(path), secret=True, clock=clock)
    with caplog.at_level(logging.WARNING, "faircall.reader"):
        changes: list[Callable[[], None]] = [lambda: write(path, "alone\n"), path.unlink]
        for change in changes:
            caplog.clear()
            change()
            for _ in range(3):
                clock.pass_a_look()
                assert file.find("t0k-anna") == "anna"
            assert len(caplog.records) == 1
    write(path, "t0k-dora dora\n")
    clock.pass_a_look()
    assert file.find("t0k-dora") == "dora"
    assert file.find("t0k-anna") is None


def test_a_file_that_is_being_written_in_place_is_left_alone(path: Path, clock: Clock) -> None:
    """Half a line would be another user."""
    file = PairFile(str(path), secret=True, clock=clock)
    path.write_text("t0k-anna anna\nt0k-annabella anna")  # ...bella
    clock.pass_a_look()
    assert file.find("t0k-annabella") is None
    assert file.find("t0k-bert") == "bert"
    path.write_text("t0k-annabella annabella\n")
    long_ago_ns = path.stat().st_mtime_ns - SETTLED_NS
    os.utime(path, ns=(long_ago_ns, long_ago_ns))
    clock.pass_a_look()
    assert file.find("t0k-annabella") == "annabella"
    assert file.find("t0k-bert") is None
