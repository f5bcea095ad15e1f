from __future__ import annotations

import errno
import pickle
import socket
from pathlib import Path

import pytest

from faircall.client import Busy, DeadlineExceeded, RemoteError, RpcClientError
from faircall.client.errors import connection_failed, local_deadline, remote_error

WHERE = ("add", "tcp://h:1")


def test_an_error_object_becomes_the_exception_of_its_code() -> None:
    kinds = {code: type(remote_error(code, "m", None, *WHERE)) for code in (-32005, -32050, 7)}
    assert kinds == {-32005: Busy, -32050: DeadlineExceeded, 7: RemoteError}


def test_the_members_of_data_are_properties() -> None:
    data = {"reason": "queue_full", "retriable": True, "retry_after_ms": 40}
    error = remote_error(-32005, "limit exceeded", data, *WHERE)
    assert (error.reason, error.retriable, error.retry_after_ms) == ("queue_full", True, 40)
    assert not error.denies_retry
    assert remote_error(-32005, "m", {"retriable": False}, *WHERE).denies_retry
    assert str(error) == (
        "add at tcp://h:1: limit exceeded (-32005, queue_full); try again in 40 ms"
    )


@pytest.mark.parametrize("data", [None, "text", 7, [], {}, {"reason": 1, "retry_after_ms": True}])
def test_data_of_any_other_shape_has_no_such_members(data: object) -> None:
    error = remote_error(-32000, "ValueError: no", data, *WHERE)
    assert (error.reason, error.retriable, error.retry_after_ms) == (None, False, None)
    assert not error.denies_retry
    assert error.data == data
    assert str(error) == "add at tcp://h:1: ValueError: no (-32000)"


def test_a_message_says_what_may_be_done() -> None:
    assert "faircall stats" in str(RemoteError(-32601, "Method not found"))
    assert "longer timeout" in str(local_deadline(*WHERE, 0.25))
    late = remote_error(-32050, "Deadline exceeded", {"method_timeout_s": 1.0}, *WHERE)
    assert str(late).endswith("(-32050); give the method a longer timeout, or the server less work")
    assert "no answer within 0.25 s" in str(local_deadline(*WHERE, 0.25))


def test_a_deadline_is_a_time_out_and_every_error_is_one_of_the_client() -> None:
    error = local_deadline(*WHERE, 1)
    assert isinstance(error, TimeoutError)
    assert isinstance(error, RpcClientError)
    assert (error.code, error.reason, error.retriable) == (-32050, "local", False)


@pytest.mark.parametrize("code", [-32005, -32050, 7])
def test_a_remote_error_survives_pickling(code: int) -> None:
    error = remote_error(code, "m", {"reason": "r"}, *WHERE)
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is type(error)
    assert (str(copy), copy.data, copy.method) == (str(error), error.data, "add")


PLACELESS = FileNotFoundError(errno.ENOENT, "No such file or directory")


def test_a_folder_that_does_not_exist_is_named(tmp_path: Path) -> None:
    for scheme in ("unix", "http+unix"):
        there = str(connection_failed(f"{scheme}:{tmp_path}/x.sock", PLACELESS, 2.0))
        assert "No such file or directory; is the server running" in there
        missing = str(connection_failed(f"{scheme}:{tmp_path}/no/x.sock", PLACELESS, 2.0))
        assert missing.endswith(f": the folder {tmp_path}/no does not exist; check the path")


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (TimeoutError("timed out"), "no connection within 2 s; is the host up"),
        (socket.gaierror(-2, "Name or service not known"), "not known; check the host name"),
        (OSError(errno.EACCES, "Permission denied"), "may this user open the socket?"),
        (OSError(errno.ECONNREFUSED, "Connection refused"), "refused; is the server running"),
        (OSError("AF_UNIX path too long"), "AF_UNIX path too long"),
    ],
)
def test_a_failed_connection_names_the_address_and_what_to_look_at(
    error: OSError, text: str
) -> None:
    message = str(connection_failed("tcp://h:1", error, 2.0))
    assert message.startswith("cannot connect to tcp://h:1: ")
    assert text in message
