"""Methods that a reader answers by itself: `rpc.ping`, `faircall.hello`, `rpc.cancel`,
`faircall.explain`.

They are not queued and not charged, so they do constant work.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import orjson
from msgspec import Raw

from ...shm.columns import Counter
from ...workers import errors
from ...workers.envelope import Request, error_answer, result_answer
from ...workers.errors import error_object
from .authentication import Authentication
from .callers import ClaimRefused
from .connection import Connection, Who
from .explanation import Explanation

Cancel = Callable[[Connection, bytes], bool]

OVER_HTTP = "over HTTP, X-Faircall-User names the user, Authorization brings the token"

_decode_list = msgspec.json.Decoder(list[Raw]).decode
_decode_object = msgspec.json.Decoder(dict[str, Raw]).decode
_decode_texts = msgspec.json.Decoder(dict[str, str]).decode
_decode_string = msgspec.json.Decoder(str).decode
_ID_STARTS = b'"-0123456789'


class BadParams(Exception):
    """The parameters do not fit; the message names them."""


class Builtins:
    """`cancel(connection, id)` withdraws the call with that raw id; False if there is none."""

    def __init__(
        self,
        authentication: Authentication,
        cancel: Cancel,
        explanation: Explanation,
        counts: memoryview,
    ) -> None:
        self._authentication, self._cancel, self._counts = authentication, cancel, counts
        self._explanation = explanation
        self.methods: dict[str, Callable[[Connection, Who, bytes, int], Any]] = {
            "rpc.ping": lambda connection, who, params, now_ns: "pong",
            "faircall.hello": self._hello,
            "faircall.explain": self._explain,
            "rpc.cancel": self._withdraw,
        }

    def answer(self, connection: Connection, who: Who, request: Request, now_ns: int) -> bytes:
        """The complete answer; nothing is sent for a notification."""
        id_ = request.id or b"null"
        try:
            result = self.methods[request.method](connection, who, request.params, now_ns)
        except ClaimRefused as error:
            self._counts[Counter.CLAIMS_REFUSED] += 1
            return error_answer(id_, error_object(errors.UNAUTHENTICATED, str(error)))
        except BadParams as error:
            text = f"Invalid params: {request.method} {error}"
            return error_answer(id_, error_object(errors.INVALID_PARAMS, text))
        return result_answer(id_, orjson.dumps(result))

    def _hello(
        self, connection: Connection, who: Who, params: bytes, now_ns: int
    ) -> dict[str, object]:
        if connection.wire.framing == "http":
            raise BadParams(f"is for streams: {OVER_HTTP}")
        said = _claims(params)
        name = self._authentication.greet(connection, said.get("user"), said.get("token"), now_ns)
        return {"user": name, "server": "faircall"}

    def _explain(
        self, connection: Connection, who: Who, params: bytes, now_ns: int
    ) -> dict[str, Any]:
        if params not in (b"", b"[]", b"{}"):
            raise BadParams("takes no parameters: it is about who calls")
        return self._explanation.of(who, now_ns)

    def _withdraw(self, connection: Connection, who: Who, params: bytes, now_ns: int) -> bool:
        """The id is compared as it was written: 1, 1.0 and "1" are three ids."""
        wanted = _one(params, "id")
        if wanted[0] not in _ID_STARTS:
            raise BadParams("takes the id of a call: a string or a number")
        return self._cancel(connection, wanted)


def _claims(params: bytes) -> dict[str, str]:
    """What hello says: user, token, or both; the only positional parameter is the user."""
    try:
        if params[:1] == b"{":
            said = _decode_texts(params)
        else:
            said = {"user": _decode_string(_one(params, "user"))}
    except msgspec.DecodeError:
        said = {}
    if not said or not said.keys() <= {"user", "token"}:
        raise BadParams('takes {"user": NAME}, {"token": TOKEN} or both')
    return said


def _one(params: bytes, name: str) -> bytes:
    """The JSON of the parameter `name`, or of the only positional one."""
    try:
        if params[:1] == b"{":
            named = _decode_object(params)
            found = [named[name]] if set(named) == {name} else []
        else:
            found = _decode_list(params or b"[]")
    except msgspec.DecodeError:
        found = []
    if len(found) != 1:
        raise BadParams(f"takes one parameter, {name}")
    return bytes(found[0])
