"""The cases of jsonrpc_conformance.json that are about messages, as one handler answers them.

What is about framing is tested with the wire; what needs several processes or much memory is left
to run_conformance.py.
"""

from __future__ import annotations

import base64
import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from faircall.workers.invoke import run_message
from faircall.workers.load import load_service

Case = dict[str, Any]

TESTS = Path(__file__).parents[1]
CASES: list[Case] = json.loads((TESTS / "wire" / "jsonrpc_conformance.json").read_text())["cases"]
GROUPS = {"spec-example", "id", "request", "batch", "json"}
NEEDS_MORE = {"batch.slow-fast", "json.16MiB", "json.64MiB"}
CHOSEN = [case for case in CASES if case["group"] in GROUPS and case["id"] not in NEEDS_MORE]

service = load_service(str(TESTS / "services" / "conformance.py"))


def body_of(case: Case) -> bytes:
    if "body_b64" in case:
        return base64.b64decode(case["body_b64"])
    if "body_gz_b64" in case:
        return gzip.decompress(base64.b64decode(case["body_gz_b64"]))
    if "gen" not in case:
        body: str = case["body"]
        return body.encode()
    made = case["gen"]
    numbers = range(made["count"])
    units = (made["unit"] % i if made.get("numbered") else made["unit"] for i in numbers)
    middle = made.get("sep", "").join(units)
    return f"{made['prefix']}{middle}{made['suffix']}".encode()


def same(found: Any, expected: Any) -> bool:
    """Equal, and true is not 1."""
    if isinstance(found, bool) or isinstance(expected, bool):
        return found is expected
    return bool(found == expected)


def fits(expected: Case, answer: Any) -> bool:
    """Whether an answer (None for none) is what a case expects; the list explains the words."""
    if "any_of" in expected:
        return any(fits(one, answer) for one in expected["any_of"])
    if "none" in expected:
        return answer is None
    if "batch" in expected:
        return isinstance(answer, list) and fit_as_a_set(expected["batch"], answer)
    if "stream" in expected or not isinstance(answer, dict):
        return False
    assert answer["jsonrpc"] == "2.0"
    assert ("result" in answer) != ("error" in answer)
    if "id" in expected and not same(answer["id"], expected["id"]):
        return False
    if "any_result" in expected:
        return True
    if "result" in expected:
        return "result" in answer and same(answer["result"], expected["result"])
    return "error" in answer and error_fits(expected, answer["error"])


def error_fits(expected: Case, error: Case) -> bool:
    assert type(error["code"]) is int
    if "app_error" in expected:
        return expected["app_error"] in error["message"]
    codes = expected["error"] if isinstance(expected["error"], list) else [expected["error"]]
    return error["code"] in codes


def fit_as_a_set(expected: list[Case], answers: list[Any]) -> bool:
    left = list(answers)
    for one in expected:
        found = next((answer for answer in left if fits(one, answer)), None)
        if found is None:
            return False
        left.remove(found)
    return not left


@pytest.mark.parametrize("case", CHOSEN, ids=[case["id"] for case in CHOSEN])
def test_a_message_is_answered_as_the_list_expects(case: Case) -> None:
    answer = run_message(service, body_of(case))
    assert fits(case["expect"], None if answer is None else json.loads(answer)), answer


def test_the_list_has_the_groups_that_are_chosen_here() -> None:
    assert {case["group"] for case in CHOSEN} == GROUPS
    assert len(CHOSEN) > 90
