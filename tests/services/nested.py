"""Functions that call servers themselves: their own, or another."""

from __future__ import annotations

import os
import threading
from typing import Any

from faircall import AsyncClient, Client, RemoteError, RpcClientError, Service, current_call

service = Service("nested")
clients: dict[str, Client] = {}


def client(address: str) -> Client:
    if address not in clients:
        clients[address] = Client(address)
    return clients[address]


@service.method
def about() -> dict[str, Any]:
    call = current_call()
    return {
        "pid": os.getpid(),
        "user": call.user,
        "context": call.context,
        "servers": len(call.chain),
        "remaining_s": call.remaining(),
    }


@service.method
def ask(address: str, *names: str) -> Any:
    """What the method `names[0]` of the server at `address` answers; it is asked the rest."""
    mine = os.getpid()
    if len(names) > 1:
        return client(address).call(names[0], address, *names[1:])
    return [mine, client(address).call(names[0]), current_call().method]


@service.method
def ask_at(address: str, then: str) -> Any:
    """What the server at `address` hears when it asks the one at `then`."""
    return client(address).call("ask", then, "about")


@service.method
def ask_in_a_thread(address: str) -> str:
    said: list[str] = []

    def call() -> None:
        try:
            client(address).call("about")
        except RpcClientError as error:
            said.append(str(error))

    thread = threading.Thread(target=call)
    thread.start()
    thread.join()
    return said[0]


@service.method
async def ask_async(address: str) -> Any:
    async with AsyncClient(address) as asked:
        return await asked.call("about")


@service.method
def bad() -> None:
    raise ValueError("as asked")


@service.method
def ask_for_trouble(address: str) -> list[str]:
    said = []
    for name in ("bad", "nothing"):
        try:
            client(address).call(name)
        except RpcClientError as error:
            said.append(str(error))
    return said


@service.method
def dig(address: str, depth: int) -> int:
    """How deep calls in calls go before a server takes no more."""
    try:
        return int(client(address).call("dig", address, depth + 1))
    except RemoteError as error:
        return depth if "meta.chain" in error.message else -1
