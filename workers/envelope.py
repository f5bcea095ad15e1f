"""The envelope of JSON-RPC 2.0: message bytes in, requests out, answers back to bytes.

Only the envelope is decoded here: one msgspec decode leaves "params" and "id" as raw JSON, so
that an id is echoed byte for byte and the caller's arguments are parsed once, by the
handler.  What msgspec does not look at inside raw JSON is UTF-8, which is why the whole message is
checked once before.

Choices where the specification is silent or loose:
* "params": null is read as no params (some clients always write the member);
* of a repeated member the last counts, unknown members are ignored;
* "meta" counts only as an object; a known member of the wrong type in it is an invalid request;
* an invalid request echoes its id when that could be read, otherwise null;
* nesting beyond `max_depth` and ids beyond `max_id_bytes` are invalid requests, whatever their
  content;
* a byte order mark is a parse error, as RFC 8259 forbids senders to add one.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

import msgspec
from msgspec import DecodeError, Raw, Struct, ValidationError

from ..shm.states import META_LENGTH
from .errors import INVALID_REQUEST, PARSE_ERROR, error_object
from .nesting import has_more_items_than, is_deeper_than

MAX_BATCH: Final = 1000
MAX_DEPTH: Final = 200
MAX_ID_BYTES: Final = 256
MAX_CHAIN: Final = 32  # calls that wait for one another

_NULL: Final = b"null"
_BATCH_STARTS: Final = (b"[", b" ", b"\t", b"\r", b"\n")
_ID_STARTS: Final = frozenset(b'"-0123456789n')


class Meta(Struct, frozen=True, gc=False):
    """The "meta" member that faircall adds to a request; None where the caller left one out.

    `chain`: the servers that wait for this call, as a function of theirs made it, the outermost
    first; `for_user`: for whom that is, which counts if the peer is trusted and is ignored if not.
    """

    timeout_ms: Annotated[float, msgspec.Meta(ge=0, le=1e12)] | None = None
    caller_context: str | None = None
    attempt: Annotated[int, msgspec.Meta(ge=0, le=1_000_000)] | None = None
    traceparent: str | None = None
    chain: Annotated[tuple[str, ...], msgspec.Meta(max_length=MAX_CHAIN)] = ()
    for_user: str | None = None


class CarriedMeta(Meta, frozen=True, gc=False):
    """What a reader puts in front of the params; a caller cannot say it.

    `user`: the caller's name, where the row that its call is accounted to bears another one.
    """

    user: str | None = None


class Request(Struct, frozen=True, gc=False):
    """One valid call: `params` is raw JSON (b"" = none), `id` raw JSON (None = a notification)."""

    method: str
    params: bytes
    id: bytes | None
    meta: Meta | None = None


class Invalid(Struct, frozen=True, gc=False):
    """What is answered with an error: `error` is the JSON of the error object, `id` raw JSON."""

    error: bytes
    id: bytes = _NULL


class Decoded(Struct, frozen=True):
    """One message: its items in order, and whether the answers go into an array."""

    items: list[Request | Invalid]
    batch: bool


class _Envelope(Struct, gc=False):
    """Decodes what is right in one pass; what does not fit is looked at again by `_diagnose`."""

    jsonrpc: Literal["2.0"]
    method: str
    params: Raw = Raw()
    id: Raw = Raw()
    meta: Meta | None = None


class _Members(Struct, gc=False):
    """The same members without any demand on their types."""

    jsonrpc: Raw = Raw()
    method: Raw = Raw()
    params: Raw = Raw()
    id: Raw = Raw()
    meta: Raw = Raw()


_decode_envelope = msgspec.json.Decoder(_Envelope).decode
_decode_members = msgspec.json.Decoder(_Members).decode
_decode_meta = msgspec.json.Decoder(Meta).decode
_decode_carried = msgspec.json.Decoder(CarriedMeta).decode
_decode_list = msgspec.json.Decoder(list[Raw]).decode
_decode_string = msgspec.json.Decoder(str).decode
_check_syntax = msgspec.json.Decoder(Raw).decode


class _Refused(Exception):
    """Carries the `Invalid` that an item becomes."""

    def __init__(self, invalid: Invalid) -> None:
        self.invalid = invalid


def decode(
    message: bytes,
    *,
    max_batch: int = MAX_BATCH,
    max_depth: int = MAX_DEPTH,
    max_id_bytes: int = MAX_ID_BYTES,
) -> Decoded:
    """The requests of one message.  Never raises: what is wrong comes back as `Invalid`.

    `max_depth` counts the levels of one request, its own object included; `max_id_bytes` counts the
    id as written, quotes included.
    """
    try:
        if not message.isascii():
            message.decode()
        if message.startswith(_BATCH_STARTS) and message.lstrip()[:1] == b"[":
            return _decode_batch(message, max_batch, max_depth, max_id_bytes)
        return Decoded([_decode_item(message, max_depth, max_id_bytes)], batch=False)
    except UnicodeDecodeError as error:
        return _one_error(PARSE_ERROR, f"Parse error: invalid UTF-8 (byte {error.start})")
    except DecodeError as error:
        return _one_error(PARSE_ERROR, f"Parse error: {error}")
    except RecursionError:
        return _one_error(PARSE_ERROR, "Parse error: nested too deeply", "too_deep")


def _one_error(code: int, message: str, reason: str | None = None) -> Decoded:
    return Decoded([Invalid(error_object(code, message, reason=reason))], batch=False)


def _decode_batch(message: bytes, max_batch: int, max_depth: int, max_id_bytes: int) -> Decoded:
    if has_more_items_than(message, max_batch):
        text = f"Invalid Request: a batch has at most {max_batch} items"
        return _one_error(INVALID_REQUEST, text, "batch_too_large")
    raws = _decode_list(message)
    if not raws:
        return _one_error(INVALID_REQUEST, "Invalid Request: empty batch")
    return Decoded([_decode_item(bytes(raw), max_depth, max_id_bytes) for raw in raws], batch=True)


def _decode_item(text: bytes, max_depth: int, max_id_bytes: int) -> Request | Invalid:
    """One request object.  DecodeError and RecursionError (the text is not JSON) pass through."""
    try:
        found = _decode_envelope(text)
        meta = found.meta
    except ValidationError:
        return _diagnose(text, max_depth, max_id_bytes)
    params, id_ = bytes(found.params), bytes(found.id)
    if (
        (params and params[0] not in b"[{")
        or (id_ and (id_[0] not in _ID_STARTS or len(id_) > max_id_bytes))
        or (len(text) > max_depth and is_deeper_than(text, max_depth))
    ):
        return _diagnose(text, max_depth, max_id_bytes)
    return Request(found.method, params, id_ or None, meta)


def _diagnose(text: bytes, max_depth: int, max_id_bytes: int) -> Request | Invalid:
    """The slow way: says what is wrong, or accepts what `_Envelope` is too strict for."""
    _check_syntax(text)
    try:
        members = _decode_members(text)
    except ValidationError:
        return _invalid("a request is an object")
    if is_deeper_than(text, max_depth):
        return _invalid(f"nested more than {max_depth} levels deep", reason="too_deep")
    try:
        id_ = _checked_id(bytes(members.id), max_id_bytes)
        return _checked_request(members, id_)
    except _Refused as refused:
        return refused.invalid


def _checked_id(id_: bytes, max_id_bytes: int) -> bytes | None:
    if not id_:
        return None
    if id_[0] not in _ID_STARTS:
        raise _Refused(_invalid("id must be a string, a number or null"))
    if len(id_) > max_id_bytes:
        raise _Refused(_invalid(f"id is longer than {max_id_bytes} bytes", reason="id_too_long"))
    return id_


def _checked_request(members: _Members, id_: bytes | None) -> Request:
    if _string(members.jsonrpc) != "2.0":
        raise _Refused(_invalid('jsonrpc must be "2.0"', id_))
    method = _string(members.method)
    if method is None:
        raise _Refused(_invalid("method must be a string", id_))
    params = bytes(members.params)
    if params == _NULL:
        params = b""
    if params and params[0] not in b"[{":
        raise _Refused(_invalid("params must be an array or an object", id_))
    return Request(method, params, id_, _checked_meta(members.meta, id_))


def _string(raw: Raw) -> str | None:
    """The decoded string, None for any other value and for an absent member."""
    return _decode_string(raw) if bytes(raw)[:1] == b'"' else None


def _checked_meta(meta: Raw, id_: bytes | None) -> Meta | None:
    if bytes(meta)[:1] != b"{":
        return None
    try:
        return _decode_meta(meta)
    except ValidationError as error:
        raise _Refused(_invalid(str(error).replace("`$.", "`meta."), id_)) from None


def _invalid(text: str, id_: bytes | None = None, *, reason: str | None = None) -> Invalid:
    error = error_object(INVALID_REQUEST, f"Invalid Request: {text}", reason=reason)
    return Invalid(error, id_ or _NULL)


def take_carried(body: bytes) -> tuple[CarriedMeta, bytes]:
    """What a reader has put in front of a request (`states.WITH_META`), and the request."""
    end = META_LENGTH + int.from_bytes(body[:META_LENGTH], "big")
    return _decode_carried(body[META_LENGTH:end]), body[end:]


def result_answer(id: bytes, result: bytes) -> bytes:
    """A complete success response around raw JSON."""
    return b'{"jsonrpc":"2.0","id":' + id + b',"result":' + result + b"}"


def error_answer(id: bytes, error: bytes) -> bytes:
    """A complete error response around the raw JSON of an error object."""
    return b'{"jsonrpc":"2.0","id":' + id + b',"error":' + error + b"}"


def batch_answer(answers: list[bytes]) -> bytes:
    """The array of these responses: at least one, as a batch without any is not answered."""
    return b"[" + b",".join(answers) + b"]"
