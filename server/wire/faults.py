"""The JSON-RPC errors that the stream framings answer themselves, always with id null."""

from __future__ import annotations

from ...workers.envelope import error_answer
from ...workers.errors import PARSE_ERROR, TOO_LARGE, error_object


def parse_fault(detail: str) -> bytes:
    """-32700: the stream itself cannot be read."""
    return error_answer(b"null", error_object(PARSE_ERROR, detail=detail))


def too_large_fault(max_message_bytes: int) -> bytes:
    """-32054: one message is longer than allowed."""
    detail = f"a message may have {max_message_bytes} bytes"
    return error_answer(
        b"null", error_object(TOO_LARGE, detail=detail, max_bytes=max_message_bytes)
    )
