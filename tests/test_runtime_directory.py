from __future__ import annotations

from pathlib import Path

import pytest

from faircall.server.settings.runtime_directory import (
    admin_socket,
    admin_sockets,
    make_private,
    runtime_directory,
)


def test_the_users_runtime_directory_comes_first() -> None:
    assert runtime_directory({"XDG_RUNTIME_DIR": "/run/user/5"}, 5) == Path("/run/user/5/faircall")


def test_root_has_run_and_others_have_a_directory_of_their_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("os.access", lambda path, mode: False)
    assert runtime_directory({}, 0) == Path("/run/faircall")
    assert runtime_directory({"XDG_RUNTIME_DIR": ""}, 1000) == Path("/tmp/faircall-1000")
    monkeypatch.setattr("os.access", lambda path, mode: True)
    assert runtime_directory({}, 1000) == Path("/run/faircall")


def test_sockets_are_named_by_port_or_by_process() -> None:
    assert admin_socket(Path("/r"), 8020, 7) == Path("/r/8020.sock")
    assert admin_socket(Path("/r"), 0, 7) == Path("/r/0-7.sock")


def test_sockets_are_found_by_name(tmp_path: Path) -> None:
    assert admin_sockets(tmp_path / "missing") == []
    for name in ("9.sock", "8020.sock", "8020.sock.lock"):
        (tmp_path / name).touch()
    assert [path.name for path in admin_sockets(tmp_path)] == ["8020.sock", "9.sock"]


def test_a_private_directory_is_made_and_accepted_again(tmp_path: Path) -> None:
    for _ in range(2):
        make_private(tmp_path / "a/b")
    assert (tmp_path / "a/b").stat().st_mode & 0o777 == 0o700


def test_a_directory_that_others_can_enter_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o711)
    with pytest.raises(PermissionError, match="is open to others: chmod 700"):
        make_private(tmp_path)


def test_a_link_to_a_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir(mode=0o700)
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with pytest.raises(PermissionError, match="link is not a directory"):
        make_private(tmp_path / "link")


def test_the_directory_of_another_user_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner = tmp_path.stat().st_uid
    monkeypatch.setattr("os.geteuid", lambda: owner + 1)
    with pytest.raises(PermissionError, match=f"belongs to uid {owner}, not to this daemon"):
        make_private(tmp_path)
