"""Two processes that run the function without any server: the limit of what a server can reach."""

from __future__ import annotations

from .peer import Peer

PEERS = (
    Peer(
        name="bare",
        about="2 processes that run the function again and again, without a server",
        loaded="bare",
        workloads=("cpu-1ms", "cpu-10ms"),
    ),
)
