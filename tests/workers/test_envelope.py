"""Messages in, requests out: the letter of JSON-RPC 2.0, and hostile bytes."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from faircall.workers.envelope import (
    Decoded,
    Invalid,
    Meta,
    Request,
    batch_answer,
    decode,
    error_answer,
    result_answer,
)
from faircall.workers.errors import INVALID_REQUEST, PARSE_ERROR, error_object


def message(params: str = '["x"]', id: str = "1", more: str = "") -> bytes:
    return f'{{"jsonrpc":"2.0","method":"echo","params":{params},"id":{id}{more}}}'.encode()


def one(text: bytes, **limits: int) -> Request | Invalid:
    decoded = decode(text, **limits)
    assert not decoded.batch
    (item,) = decoded.items
    return item


def request(text: bytes, **limits: int) -> Request:
    item = one(text, **limits)
    assert isinstance(item, Request), item
    return item


def code_and_id(item: Request | Invalid) -> tuple[int, bytes]:
    assert isinstance(item, Invalid), item
    return json.loads(item.error)["code"], item.id


def reason(item: Request | Invalid) -> str:
    assert isinstance(item, Invalid), item
    found = json.loads(item.error)["data"]["reason"]
    assert isinstance(found, str)
    return found


# -- what is right ---------------------------------------------------------------------------------


def test_a_request_keeps_params_and_id_as_they_were_written() -> None:
    assert request(message('[ "x" ,1.0]', '"a\\u0062"')) == Request(
        "echo", b'[ "x" ,1.0]', b'"a\\u0062"'
    )


IDS = ["0", "-7", '""', '"abc"', "null", "9007199254740993", "18446744073709551616", "1" + "0" * 30]
ODD_IDS = ["1.0", "1.5", "1e2", '"ключ-🦊"', '"\\ud83e\\udd8a"', "1e400"]


@pytest.mark.parametrize("id", IDS + ODD_IDS)
def test_an_id_is_echoed_byte_for_byte(id: str) -> None:
    assert request(message(id=id)).id == id.encode()


def test_an_absent_id_is_a_notification_and_null_is_not() -> None:
    assert request(b'{"jsonrpc":"2.0","method":"a"}') == Request("a", b"", None)
    assert request(b'{"jsonrpc":"2.0","method":"a","id":null}') == Request("a", b"", b"null")


@pytest.mark.parametrize(
    ("params", "kept"), [("[]", b"[]"), ("{}", b"{}"), ('{"a":[]}', b'{"a":[]}'), ("null", b"")]
)
def test_params_are_an_array_an_object_or_null_for_none(params: str, kept: bytes) -> None:
    assert request(message(params)).params == kept


def test_members_may_be_escaped_repeated_unknown_and_in_any_order() -> None:
    text = b'{"id":1,"params":{"id":9},"meth\\u006fd":"b","x":{"id":7},"jsonrpc":"2.0","id":2}'
    assert request(text) == Request("b", b'{"id":9}', b"2")
    assert request(b' \t{ "jsonrpc" : "2.\\u0030" , "method" : "a" } \r\n').method == "a"


def test_method_names_are_decoded() -> None:
    text = '{"jsonrpc":"2.0","method":"мето\\u0434\\n","id":1}'.encode()
    assert request(text).method == "метод\n"
    assert request(b'{"jsonrpc":"2.0","method":"","id":1}').method == ""


def test_meta_carries_deadline_context_attempt_and_trace() -> None:
    more = ',"meta":{"timeout_ms":1500,"caller_context":"job 7","attempt":2,"traceparent":"00-a"}'
    assert request(message(more=more)).meta == Meta(1500, "job 7", 2, "00-a")
    assert request(message(more=',"meta":{"timeout_ms":0.5,"x":[]}')).meta == Meta(timeout_ms=0.5)


@pytest.mark.parametrize("foreign", ["null", "[]", '"x"', "7"])
def test_a_meta_that_is_no_object_is_somebody_elses(foreign: str) -> None:
    assert request(message(more=f',"meta":{foreign}')).meta is None


# -- what is wrong ---------------------------------------------------------------------------------


@pytest.mark.parametrize("id", ["true", "false", "{}", "[]", "[1]"])
def test_an_id_of_another_type_is_refused_with_id_null(id: str) -> None:
    assert code_and_id(one(message(id=id))) == (INVALID_REQUEST, b"null")


INVALID_BUT_WITH_ID = {
    "version missing": b'{"method":"a","id":7}',
    "version number": b'{"jsonrpc":2.0,"method":"a","id":7}',
    "version other": b'{"jsonrpc":"2","method":"a","id":7}',
    "version null": b'{"jsonrpc":null,"method":"a","id":7}',
    "version huge": b'{"jsonrpc":1%s,"method":"a","id":7}' % (b"0" * 5000),
    "version infinite": b'{"jsonrpc":1e999,"method":"a","id":7}',
    "method missing": b'{"jsonrpc":"2.0","id":7}',
    "method number": b'{"jsonrpc":"2.0","method":1,"id":7}',
    "method null": b'{"jsonrpc":"2.0","method":null,"id":7}',
    "params string": b'{"jsonrpc":"2.0","method":"a","params":"x","id":7}',
    "params true": b'{"jsonrpc":"2.0","method":"a","params":true,"id":7}',
    "params number": b'{"jsonrpc":"2.0","method":"a","params":0,"id":7}',
    "a response": b'{"jsonrpc":"2.0","result":1,"id":7}',
    "meta member": b'{"jsonrpc":"2.0","method":"a","meta":{"timeout_ms":"1"},"id":7}',
    "meta negative": b'{"jsonrpc":"2.0","method":"a","meta":{"timeout_ms":-1},"id":7}',
}


@pytest.mark.parametrize("text", INVALID_BUT_WITH_ID.values(), ids=INVALID_BUT_WITH_ID.keys())
def test_an_invalid_request_echoes_the_id_that_could_be_read(text: bytes) -> None:
    assert code_and_id(one(text)) == (INVALID_REQUEST, b"7")


@pytest.mark.parametrize("text", [b'"x"', b"1", b"null", b"true", b"{}", b'{"foo":"boo"}'])
def test_what_is_json_but_no_request_is_refused_with_id_null(text: bytes) -> None:
    assert code_and_id(one(text)) == (INVALID_REQUEST, b"null")


def test_a_wrong_meta_names_its_member() -> None:
    item = one(message(more=',"meta":{"attempt":"x"}'))
    assert isinstance(item, Invalid)
    assert "meta.attempt" in json.loads(item.error)["message"]


NOT_JSON = {
    "empty": b"",
    "blank": b"  \n",
    "truncated": b'{"jsonrpc":"2.0","method":"echo"',
    "unquoted": b'{"jsonrpc": "2.0", "method": "foobar, "params": "bar", "baz]',
    "wrong member before garbage": b'{"jsonrpc":"1", x',
    "two values": message() + message(),
    "garbage behind a scalar": b"1 x",
    "trailing comma": message('["x",]'),
    "comment": b'{"jsonrpc":"2.0",/*c*/"method":"echo"}',
    "single quotes": b"{'jsonrpc':'2.0'}",
    "NaN": message("[NaN]"),
    "infinity": message("[-Infinity]"),
    "leading zero": message("[01]"),
    "plus": message("[+1]"),
    "bare fraction": message("[.5]"),
    "hexadecimal": message("[0x10]"),
    "True": message("[True]"),
    "bad escape": message('["\\q"]'),
    "control character": message('["a\nb"]'),
    "high surrogate": message('["\\ud800"]'),
    "low surrogate": message('["\\udc00\\ud800"]'),
    "surrogate in the id": message(id='"\\ud800"'),
    "byte order mark": b"\xef\xbb\xbf" + message(),
    "NUL": message() + b"\0",
    "not a number": message(id="NaN"),
    "infinite": message(id="-Infinity"),
    "batch": b'[{"jsonrpc":"2.0","method":"a","id":1},{"jsonrpc"]',
    "deep": b"[" * 60_000,
    "deep inside": message("[" * 60_000 + "]" * 60_000),
}


@pytest.mark.parametrize("text", NOT_JSON.values(), ids=NOT_JSON.keys())
def test_what_is_no_json_is_one_parse_error_with_id_null(text: bytes) -> None:
    assert code_and_id(one(text)) == (PARSE_ERROR, b"null")


@pytest.mark.parametrize(
    "bad", [b"\xff\xfe", b"\xc0\xaf", b"\xed\xa0\x80", b"\xe2\x82", b"\xf5\x80\x80\x80"]
)
@pytest.mark.parametrize("place", [b'{"params":["%s"]}', b'{"%s":1}', b'[{"method":"%s"}]', b"%s"])
def test_invalid_utf8_is_a_parse_error_wherever_it_stands(bad: bytes, place: bytes) -> None:
    assert code_and_id(one(place % bad)) == (PARSE_ERROR, b"null")


# -- limits ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("open_", "close"), [("[", "]"), ('{"a":', "}")])
def test_the_depth_limit_counts_the_requests_own_object(open_: str, close: str) -> None:
    def params(depth: int) -> str:
        return "[" + open_ * (depth - 2) + "1" + close * (depth - 2) + "]"

    assert isinstance(one(message(params(50)), max_depth=50), Request)
    item = one(message(params(51)), max_depth=50)
    assert code_and_id(item) == (INVALID_REQUEST, b"null")
    assert reason(item) == "too_deep"


def test_brackets_inside_strings_and_side_by_side_do_not_count_as_depth() -> None:
    assert isinstance(one(message('["' + "[" * 500 + '\\"{"]'), max_depth=5), Request)
    assert isinstance(one(message("[" + "[]," * 500 + "[]]"), max_depth=5), Request)


def test_a_deep_item_does_not_poison_its_batch() -> None:
    deep = message("[" * 20 + "]" * 20, "1")
    items = decode(b"[" + deep + b"," + message(id="2") + b"]", max_depth=10).items
    assert code_and_id(items[0]) == (INVALID_REQUEST, b"null")
    assert items[1] == Request("echo", b'["x"]', b"2")


@pytest.mark.parametrize("id", ['"' + "k" * 30 + '"', "9" * 32])
def test_the_id_limit_counts_the_id_as_written(id: str) -> None:
    assert request(message(id=id), max_id_bytes=32).id == id.encode()
    item = one(message(id=id), max_id_bytes=31)
    assert code_and_id(item) == (INVALID_REQUEST, b"null")
    assert reason(item) == "id_too_long"


def test_an_id_of_five_thousand_digits_is_refused_and_not_converted() -> None:
    assert code_and_id(one(message(id="9" * 5000))) == (INVALID_REQUEST, b"null")


def test_a_batch_beyond_the_limit_is_one_error_however_long_it_is() -> None:
    assert len(decode(b"[1,1,1]", max_batch=3).items) == 3
    for text in (b"[1,1,1,1]", b"[" + b"[]," * 1_000_000 + b"1]"):
        item = one(text, max_batch=3)
        assert code_and_id(item) == (INVALID_REQUEST, b"null")
        assert reason(item) == "batch_too_large"


# -- batches ---------------------------------------------------------------------------------------


def test_an_empty_batch_is_one_error_and_no_array() -> None:
    assert code_and_id(one(b" [ ] ")) == (INVALID_REQUEST, b"null")


def test_bad_items_do_not_poison_the_others_and_order_is_kept() -> None:
    decoded = decode(
        b"[" + b",".join([message(id="1"), b"1", b"null", b"[]", b'"a"', message(id="2")]) + b"]"
    )
    assert decoded.batch
    assert [getattr(item, "id", None) for item in decoded.items] == [
        b"1", b"null", b"null", b"null", b"null", b"2",
    ]  # fmt: skip
    assert [isinstance(item, Request) for item in decoded.items] == [True, *[False] * 4, True]


def test_a_batch_inside_a_batch_is_an_invalid_request() -> None:
    decoded = decode(b"[[" + message() + b"]]")
    assert decoded.batch
    assert [code_and_id(item) for item in decoded.items] == [(INVALID_REQUEST, b"null")]


# -- answers ---------------------------------------------------------------------------------------


def test_answers_are_the_members_of_the_specification_and_nothing_else() -> None:
    assert result_answer(b"1", b"null") == b'{"jsonrpc":"2.0","id":1,"result":null}'
    error = error_object(PARSE_ERROR)
    assert error_answer(b"null", error) == b'{"jsonrpc":"2.0","id":null,"error":' + error + b"}"
    assert batch_answer([b"1", b"2"]) == b"[1,2]"


# -- anything --------------------------------------------------------------------------------------

_json = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=8,
)
_members = st.sampled_from(["jsonrpc", "method", "params", "id", "meta", "x"])


@given(st.binary(max_size=60) | st.text(max_size=60).map(lambda text: text.encode()))
def test_any_bytes_decode_to_something(data: bytes) -> None:
    assert isinstance(decode(data), Decoded)


@given(st.dictionaries(_members, _json | st.just("2.0"), max_size=6))
def test_any_object_is_judged_as_the_specification_judges_it(members: dict[str, Any]) -> None:
    item = one(json.dumps(members).encode())
    id_ = members.get("id")
    if isinstance(item, Request):
        assert members["jsonrpc"] == "2.0"
        assert item.method == members["method"]
        assert (item.id is None) == ("id" not in members)
        assert json.loads(item.params or b"null") == members.get("params")
        assert item.id is None or json.loads(item.id) == id_
    else:
        is_id = id_ is None or (isinstance(id_, str | int | float) and not isinstance(id_, bool))
        fits = (
            members.get("jsonrpc") == "2.0"
            and isinstance(members.get("method"), str)
            and isinstance(members.get("params"), list | dict | None)
            and not isinstance(members.get("meta"), dict)
            and is_id
            and len(json.dumps(id_)) <= 256
        )
        assert not fits
        assert item.id == b"null" or json.loads(item.id) == id_


@given(st.binary(max_size=8), st.integers(0, 200))
def test_a_request_damaged_anywhere_is_a_request_or_an_error(damage: bytes, at: int) -> None:
    text = message('{"a":["é",1.5,null]}', '"id"', ',"meta":{"timeout_ms":1}')
    at = min(at, len(text))
    decoded = decode(text[:at] + damage + text[at + len(damage) :])
    assert all(isinstance(item, Request | Invalid) for item in decoded.items)
