"""What clients send: bytes into the protocol, messages out of it and on to admission.

A connection has its turn for so many calls and bytes; what is left waits for the next one.
"""

from __future__ import annotations

import logging

from ...shm.columns import Counter
from ...shm.shared import Shared
from ...shm.states import Phase
from ..wire.events import Event, Fault, Health, Message, Send
from .admission import Admission
from .adoption import Adoption
from .client_limits import ClientLimits
from .connection import Connection
from .connections import Connections
from .forwarded import MalformedForwarding

log = logging.getLogger("faircall.reader")

RECEIVE_BYTES = 64 << 10  # by one system call

_BYTES_IN = int(Counter.BYTES_IN)


class Intake:
    """One reader's. `limits` may change meanwhile."""

    def __init__(
        self,
        shared: Shared,
        counts: memoryview,
        connections: Connections,
        admission: Admission,
        adoption: Adoption,
        limits: ClientLimits,
    ) -> None:
        self._phase, self._counts = shared.phase, counts
        self._ready, self._touched = connections.ready, connections.touched
        self._watched, self._unfinished = connections.watched, connections.unfinished
        self._close = connections.close
        self._take, self._introduce = admission.take, adoption.introduce
        self.limits = limits

    def serve(self, connection: Connection, now_ns: int) -> int:
        """One turn of a connection: at most a pass's calls and bytes; how many calls it was."""
        framing, limits = connection.wire.current, self.limits
        calls = size = 0
        room = limits.room_of(connection)
        most_calls, most_bytes = limits.calls_per_pass, limits.bytes_per_pass
        if room < most_calls:
            most_calls = room
        while calls < most_calls and size < most_bytes:
            event = framing.next_event()
            if isinstance(event, Message):
                size += len(event.body)
                try:
                    calls += self._take(connection, event, now_ns)
                except MalformedForwarding as error:
                    self._malformed(connection, str(error))
                    self._close(connection)
                    return calls + 1
            elif event is not None:
                calls += 1
                self.put(connection, event)
            if event is None or (calls < room and not framing.more):
                if framing.mid_message:
                    self._watched.add(connection)
                if framing.eof or framing.closing:  # every whole message was taken
                    connection.input_over = True
                break
        else:
            if room > 0:
                self._ready.add(connection)  # more may have arrived: after the others
            else:
                connection.stopped = True
        if calls:
            connection.began_ns = connection.read_ns  # what is left came with the last bytes
        if connection.stopped or connection.input_over or connection.unsent:
            self._touched.add(connection)
        holds = framing.more or framing.mid_message or connection.buffered
        if holds and not self._unfinished.account(connection):
            self._counts[Counter.CLOSED_PROTOCOL] += 1
            self._close(connection)
        return calls

    def read(self, connection: Connection, now_ns: int) -> None:
        """What has arrived of a connection that has no place in the ready list."""
        try:
            data = connection.recv(RECEIVE_BYTES)
        except BlockingIOError:
            return
        except OSError:
            self._close(connection)
            return
        if connection.lingering:
            if not data:
                self._close(connection)
            return
        wire = connection.wire
        if data:
            self._counts[_BYTES_IN] += len(data)
            if not wire.current.mid_message:
                connection.began_ns = now_ns
            connection.read_ns = now_ns
            wire.receive(data)
            if wire.source is not None:
                self._introduce(connection, now_ns)
        else:
            wire.receive_eof()
            connection.peer_ended = connection.input_over = True
        self._ready.add(connection)

    def put(self, connection: Connection, event: Event) -> None:
        """Everything but a message: what the protocol itself wants said."""
        if isinstance(event, Send):
            connection.put(event.data)
            if connection.wire.input_over and not connection.input_over:
                self._counts[Counter.CLOSED_PROTOCOL] += 1
                connection.input_over = True
        elif isinstance(event, Health):
            phase = self._phase.get()
            ok = event.kind == "livez" or phase == Phase.RUNNING
            text = phase.name.lower() if event.kind == "readyz" else "alive"
            connection.put(connection.wire.health_answer(event.exchange, ok, text))
        elif isinstance(event, Fault):
            self._malformed(connection, event.detail)
            connection.input_over = True

    def _malformed(self, connection: Connection, error: str) -> None:
        """A proxy that we are to believe sends what cannot be read."""
        self._counts[Counter.CLOSED_PROTOCOL] += 1
        log.warning("proxy header malformed", {"peer": connection.peer.name, "error": error})
