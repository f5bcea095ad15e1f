"""All peers, faircall first, those after it whose figures are divided by its."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from . import (
    bare,
    celery_server,
    executor_server,
    faircall_server,
    granian_server,
    grpc_server,
    uvicorn_server,
    zeromq_server,
)
from .peer import FAIRCALL, FAIRCALL_CLIENT, Peer

_MODULES = (
    faircall_server,
    uvicorn_server,
    granian_server,
    zeromq_server,
    executor_server,
    bare,
    grpc_server,
    celery_server,
)

PEERS: Mapping[str, Peer] = {peer.name: peer for module in _MODULES for peer in module.PEERS}
OURS = (FAIRCALL, FAIRCALL_CLIENT)


class UnknownPeer(Exception):
    """A name that is none of a peer; the message has those that are."""


def chosen(names: Sequence[str]) -> Sequence[Peer]:
    """Those named (all if none is), and what they are compared with. UnknownPeer."""
    for name in names:
        if name not in PEERS:
            raise UnknownPeer(f"no peer {name!r}; there are {', '.join(PEERS)}")
    wanted = {*names, *(PEERS[name].beside for name in names)} if names else set(PEERS)
    return [peer for name, peer in PEERS.items() if name in wanted]
