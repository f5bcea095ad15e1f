"""The settings under `[limits]`; part of the declarations of `config.py`."""

from __future__ import annotations

from dataclasses import dataclass

from .settings import derived
from .settings.declaration import Derived, integer, ms, size

KIB, MIB, GIB, TIB = 1 << 10, 1 << 20, 1 << 30, 1 << 40
HOUR_MS, DAY_MS = 3_600_000, 86_400_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a message, a call, a connection and the shared segment may hold."""

    # messages
    max_message_bytes: int = size(16 * MIB, "Longest request or answer.", KIB, GIB)
    frame_only_above_bytes: int = size(
        256 * KIB, "Longer requests are decoded by a handler instead of a reader.", KIB, GIB
    )
    max_header_bytes: int = size(32 * KIB, "Longest head of an HTTP request.", KIB, MIB)
    max_batch: int = integer(1000, "Calls in one batch.", 1, 100_000)
    max_depth: int = integer(128, "Nesting of a request's JSON.", 4, 1000)
    max_id_bytes: int = integer(256, "Length of a request's id.", 16, 4096, unit="bytes")

    # calls
    default_timeout_ms: int = ms(
        60_000, "Time for a call that asks for none.", 1, DAY_MS, live=True
    )
    max_timeout_ms: int = ms(HOUR_MS, "The longest time a call can ask for.", 1, DAY_MS, live=True)

    # the shared segment of a port
    segment_payload_bytes: int = size(
        52 * MIB,
        "Room for requests and answers in a port's shared segment, for each group of handlers; the"
        " default fits a /dev/shm of 64 MiB.",
        MIB,
        TIB,
    )
    identities: int = integer(
        4096, "Callers told apart; the idlest of more become one, others.", 16, 1 << 20
    )
    methods: int = integer(256, "Methods with statistics of their own.", 16, 65_536)
    watched_users: int = integer(
        32,
        "Callers, the heaviest at each sweep, whose waits have a histogram of their own.",
        1,
        256,
    )

    # connections
    first_byte_timeout_ms: int = ms(
        60_000, "Time for the first byte of a new connection; 0: no limit.", 0, DAY_MS, live=True
    )
    header_timeout_ms: int = ms(
        10_000,
        "Time for the head of a message; its body must bring 16 KiB/s.",
        1,
        DAY_MS,
        live=True,
    )
    keepalive_s: int = integer(
        60,
        "Silence on a TCP connection after which the system asks whether the client still has it,"
        " four times within as long: who does not, is gone, and so are its calls that wait. 0: it"
        " never asks.",
        0,
        32_767,
        unit="s",
    )
    message_timeout_ms: int = ms(
        10_000, "Longest silence in the middle of a message.", 1, DAY_MS, live=True
    )
    idle_timeout_ms: int = ms(
        0,
        "A connection without a call for this long is closed; 0: never.",
        0,
        7 * DAY_MS,
        live=True,
    )
    send_timeout_ms: int = ms(
        30_000,
        "A client that takes nothing of its answers for this long is disconnected.",
        1,
        DAY_MS,
        live=True,
    )
    max_unfinished_bytes_per_connection: int = size(
        Derived("max-message-bytes and 64 KiB", derived.unfinished_bytes),
        "Unfinished input that a connection may hold.",
        KIB,
        TIB,
    )
    max_unfinished_bytes_per_principal: int = size(
        Derived("4 times that of a connection", derived.unfinished_bytes_of_principal),
        "Unfinished input that a caller's connections to one reader may hold together.",
        KIB,
        TIB,
    )
    max_unfinished_bytes_per_reader: int = size(
        Derived("4 times that of a principal", derived.unfinished_bytes_of_reader),
        "Unfinished input that all connections of one reader may hold together.",
        KIB,
        TIB,
    )
    max_in_flight_per_connection: int = integer(
        1024, "Calls of one connection that may be unanswered.", 1, 65_536, live=True
    )
    http_pipelining: int = integer(
        64, "HTTP requests of one connection that may be unanswered.", 1, 4096, live=True
    )

    unsent_high_water_bytes: int = size(
        MIB,
        "Unsent answers from which on nothing more is read from a connection.",
        KIB,
        TIB,
        live=True,
    )

    # a reader's turn with one connection
    calls_per_pass: int = integer(
        16, "Calls that a reader takes before the next one.", 1, 4096, live=True
    )
    bytes_per_pass: int = size(
        64 * KIB, "Bytes that a reader takes before the next one.", KIB, 16 * MIB, live=True
    )
