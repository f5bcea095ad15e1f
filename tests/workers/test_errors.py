"""Error codes, error objects and the exceptions that become them."""

from __future__ import annotations

import json
import pickle
from typing import Any

import pytest

from faircall.workers import errors
from faircall.workers.errors import ERRORS, RpcError, error_object


def test_every_code_constant_has_its_defaults_and_no_others_have() -> None:
    constants = {
        value for name, value in vars(errors).items() if name.isupper() and type(value) is int
    }
    assert constants == set(ERRORS)


def test_only_what_may_be_asked_again_without_harm_is_retriable_by_default() -> None:
    retriable = {code for code, kind in ERRORS.items() if kind.retriable}
    assert retriable == {errors.LIMIT_EXCEEDED, errors.SHUTTING_DOWN, errors.STANDBY}


@pytest.mark.parametrize("code", ERRORS)
def test_an_error_object_is_complete_without_any_argument(code: int) -> None:
    kind = ERRORS[code]
    assert json.loads(error_object(code)) == {
        "code": code,
        "message": kind.message,
        "data": {"reason": kind.reason, "retriable": kind.retriable},
    }


def test_arguments_replace_defaults_and_further_data_stand_beside_them() -> None:
    text = error_object(
        errors.LIMIT_EXCEEDED,
        "full",
        reason="queue_full",
        retriable=False,
        retry_after_ms=12,
        level=3,
    )
    assert json.loads(text) == {
        "code": -32005,
        "message": "full",
        "data": {"reason": "queue_full", "retriable": False, "retry_after_ms": 12, "level": 3},
    }


def test_a_message_that_is_no_valid_unicode_is_still_sent() -> None:
    found = json.loads(error_object(errors.APPLICATION_ERROR, "no file \udcff", names=["\ud800"]))
    assert found["message"] == "no file ?"
    assert found["data"]["names"] == ["?"]


def test_an_unlisted_code_is_an_error_that_is_not_retriable() -> None:
    assert json.loads(error_object(17)) == {
        "code": 17,
        "message": "Error",
        "data": {"reason": "error", "retriable": False},
    }


@pytest.mark.parametrize(
    ("data", "sent"),
    [
        (None, {"reason": "limit_exceeded", "retriable": True}),
        ({"row": 3}, {"reason": "limit_exceeded", "retriable": True, "row": 3}),
        ({"retriable": False}, {"reason": "limit_exceeded", "retriable": False}),
        ([1, 2], [1, 2]),
        (0, 0),
    ],
)
def test_the_data_of_an_rpc_error_keep_what_the_method_said(data: Any, sent: Any) -> None:
    assert RpcError(errors.LIMIT_EXCEEDED, "x", data).wire_data == sent


def test_an_rpc_error_survives_pickling_and_says_its_code() -> None:
    error = pickle.loads(pickle.dumps(RpcError(-32001, "no such row", {"row": 3})))
    assert (error.code, error.message, error.data) == (-32001, "no such row", {"row": 3})
    assert str(error) == "no such row (-32001)"
    late = pickle.loads(pickle.dumps(errors.DeadlineExceeded("too late")))
    assert (type(late), late.message) == (errors.DeadlineExceeded, "too late")


@pytest.mark.parametrize("code", [True, "17", 1.5, 2**53])
def test_a_code_that_is_no_json_integer_is_refused_where_it_is_raised(code: Any) -> None:
    with pytest.raises(TypeError, match="code"):
        RpcError(code)
