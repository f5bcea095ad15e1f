"""The words that carry a state, and who may change them.

**A call's slot.** Every arrow is one aligned store of the slot's state word:

    FREE -enqueue-> QUEUED --claim--> RUNNING --publish--> DONE -collect-> TAKEN -release-> FREE
                     |  ^               |
           closed at v  | opens         +-- abandon --> ABANDONED --publish--> DONE (unwanted)
           the claim HELD               QUEUED, HELD -- withdraw --> FREE

    | change                        | made by                    | under                   |
    | FREE -> QUEUED, HELD          | the slot's reader          | queue lock              |
    | QUEUED <-> HELD               | any handler                | queue lock              |
    | QUEUED -> RUNNING             | a handler                  | queue lock              |
    | RUNNING, ABANDONED -> DONE    | its handler; the janitor   | the reader's answer lock|
    | RUNNING -> ABANDONED          | the slot's reader; janitor | answer, then queue lock |
    | RUNNING -> QUEUED             | the janitor (reap)         | answer, then queue lock |
    | QUEUED, HELD -> FREE          | the slot's reader; janitor | answer, then queue lock |
    | DONE -> TAKEN                 | the slot's reader          | answer lock             |
    | TAKEN -> FREE                 | the slot's reader; janitor | none: nobody else looks |

The janitor acts for a reader or a handler only after that process is proved dead. Only a slot's
reader stores FREE, and with it the next generation: whatever still names the old one (a payload
page, a late answer) names nothing. A staged slot still reads FREE; only its reader's list knows.
"""

from __future__ import annotations

import enum

FREE, QUEUED, HELD, RUNNING, ABANDONED, DONE, TAKEN = range(7)
STATES = ("FREE", "QUEUED", "HELD", "RUNNING", "ABANDONED", "DONE", "TAKEN")

SHORT, LONG = 0, 1  # classes of a call

# The state word: state, level, owner, attempts, generation.
STATE_MASK = 0xFF
LEVEL_SHIFT, LEVEL_MASK = 8, 0xFF
OWNER_SHIFT, OWNER_MASK = 16, 0xFFF
ATTEMPT_SHIFT, ATTEMPT_MASK = 28, 0xF
GENERATION_SHIFT = 32
GENERATIONS = 0xFFFF_FFFF_0000_0000  # the generation's place in the word
NOBODY = 0xFFF
NOBODYS = NOBODY << OWNER_SHIFT

# The `call` word: method, class, flags, the level that the scheduler chose.
CLASS_SHIFT, FLAGS_SHIFT, SCHEDULED_SHIFT = 32, 40, 48
IDEMPOTENT = 1  # may be run again when its handler died
UNDECODED = 2  # the request is a whole message that the handler decodes
NOTIFICATION = 4  # nobody waits for the answer
WITH_META = (
    8  # the request begins with META_LENGTH and that much JSON: context, traceparent, attempt
)
TOGETHER = 16  # its method serves many calls at once: of the LONG class, as it waits for more
META_LENGTH = 2  # bytes, big-endian

MAX_ATTEMPTS = 3


class Status(enum.IntEnum):
    """What became of a call: the low byte of its answer word."""

    RESULT = 1  # the body is the result's JSON
    ERROR = 2  # the body is the error object's JSON
    MESSAGE = 3  # the body is a whole answer message (of an undecoded request)
    DIED = 4  # its handler died; no body
    EXPIRED = 5  # its deadline passed before it began; no body
    NO_ROOM = 6  # it ran, but no payload page was left for the answer; no body
    TOO_LARGE = 7  # it ran, but the answer exceeds the limit; no body
    THROTTLED = 8  # a limiter blocks it, and holds as many as it may; it did not run; no body


class Phase(enum.IntEnum):
    """The server's life, as the supervisor publishes it."""

    STARTING = 0
    RUNNING = 1
    LEAVING = 2  # still accepting, but readyz fails
    DRAINING = 3  # no new calls; what is in flight is finished
    STOPPED = 4


class Life(enum.IntEnum):
    """A process's own word about itself."""

    STARTING = 0
    READY = 1
    FAILED = 2  # it could not start: the message lies with the supervisor


def state_word(
    state: int, *, level: int = 0, owner: int = NOBODY, attempts: int = 0, generation: int = 0
) -> int:
    """One state word from its parts."""
    return (
        state
        | level << LEVEL_SHIFT
        | owner << OWNER_SHIFT
        | attempts << ATTEMPT_SHIFT
        | generation << GENERATION_SHIFT
    )


def call_word(method: int, cls: int = LONG, flags: int = 0, level: int = 0) -> int:
    """One `call` word from its parts; `level` is the scheduler's, before any overflow."""
    return method | cls << CLASS_SHIFT | flags << FLAGS_SHIFT | level << SCHEDULED_SHIFT


def answer_word(status: int, length: int, generation: int) -> int:
    """Status, body length in bytes, and the low 24 bits of the generation that it answers."""
    return status | length << 8 | (generation & 0xFF_FFFF) << 40


def describe(word: int) -> str:
    """A state word for people: `RUNNING level=0 owner=1 attempts=0 generation=7`."""
    state = word & STATE_MASK
    name = STATES[state] if state < len(STATES) else f"state {state}"
    return (
        f"{name} level={word >> LEVEL_SHIFT & LEVEL_MASK} owner={word >> OWNER_SHIFT & OWNER_MASK}"
        f" attempts={word >> ATTEMPT_SHIFT & ATTEMPT_MASK} generation={word >> GENERATION_SHIFT}"
    )
