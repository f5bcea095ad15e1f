"""`faircall call`: one call from the command line, its result on stdout."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import click

from .cli_options import Exit, fail

CANCEL_PATIENCE_S = 2.0  # for the server's answer to a call that was taken back
DEFAULT_ADDRESS = "tcp://127.0.0.1:8020"


@click.command(context_settings={"ignore_unknown_options": True})
@click.argument("method")
@click.argument("params", nargs=-1)
@click.option(
    "--to",
    "address",
    default=DEFAULT_ADDRESS,
    envvar="FAIRCALL_TO",
    show_default=True,
    show_envvar=True,
    help="tcp://HOST:PORT, unix:/PATH or http://HOST:PORT; several with commas between.",
)
@click.option("--user", help="For whom to call, where the server trusts us to say so.")
@click.option("--timeout", type=float, default=60.0, show_default=True, help="Seconds.")
@click.option(
    "--retry",
    "repeats",
    type=click.IntRange(min=0),
    metavar="N",
    default=0,
    show_default=True,
    help="Call up to N times more where it did not run: busy, or no connection.",
)
@click.option("--json", "as_json", is_flag=True, help="One line of JSON, also for an error.")
def call(
    method: str,
    params: tuple[str, ...],
    address: str,
    user: str | None,
    timeout: float,
    repeats: int,
    as_json: bool,
) -> None:
    """Call METHOD and print its result.

    Each of PARAMS is JSON, or else text; NAME=VALUE is a named parameter, and NAME='""' an empty
    one. Exit codes: 1 the call failed, 2 usage, 3 no connection, 4 deadline, 75 the server is busy,
    130 interrupted (the server is asked to drop the call).
    """
    args, kwargs = parse_params(params)
    from ..client import Client, Retry, RpcClientError

    retry = Retry(attempts=1 + repeats, burst=repeats)
    try:
        with Client(address, timeout=timeout, user=user, retry=retry) as client:
            result = _result(client, method, args, kwargs)
    except (RpcClientError, ValueError) as error:
        if as_json:
            fail(_error_line(error), exit_code(error), prefix="")
        fail(str(error), exit_code(error))
    click.echo(result_text(result, as_json))


def exit_code(error: Exception) -> Exit:
    """What a failed call ends the command with."""
    from ..client import Busy, ConnectionFailed, ConnectionLost, DeadlineExceeded

    codes: dict[type[Exception] | tuple[type[Exception], ...], Exit] = {
        Busy: Exit.BUSY,
        DeadlineExceeded: Exit.DEADLINE,
        (ConnectionFailed, ConnectionLost): Exit.NO_CONNECTION,
        ValueError: Exit.USAGE,
    }
    return next((c for kinds, c in codes.items() if isinstance(error, kinds)), Exit.RPC_ERROR)


def _result(client: Any, method: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """What the call gives; one that is interrupted is taken back, so that the server drops it."""
    future = None
    try:
        future = _sent(client, method, args, kwargs)
        return future.result()
    except KeyboardInterrupt:
        if future is None:
            fail("interrupted", Exit.INTERRUPTED)
        future.cancel()
        with contextlib.suppress(Exception):
            future.result(CANCEL_PATIENCE_S)
        fail("interrupted: the call was cancelled", Exit.INTERRUPTED)


def _sent(client: Any, method: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """Words of `Client.submit` itself are passed on as parameters by a batch of one."""
    if not {"timeout", "idempotent"} & kwargs.keys():
        return client.submit(method, *args, **kwargs)
    with client.batch() as batch:
        future = batch.add(method, *args, **kwargs)
    return future


def parse_params(texts: tuple[str, ...]) -> tuple[list[Any], dict[str, Any]]:
    """Positional and named parameters; JSON-RPC has the ones or the others.

    A text that ends with its first `=` is none of NAME=VALUE: base64 is padded like that.
    """
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    for text in texts:
        name, _, value = text.partition("=")
        if text.startswith("--"):
            raise click.UsageError(
                f"no such option: {text} (a parameter needs quotes: '\"{text}\"')"
            )
        if name.isidentifier() and value.strip("="):
            kwargs[name] = parse_value(value)
        else:
            args.append(parse_value(text))
    if args and kwargs:
        raise click.UsageError(
            "parameters are either all positional or all NAME=VALUE (an empty one is NAME='\"\"')"
        )
    return args, kwargs


def parse_value(text: str) -> Any:
    """JSON, or the text itself where it is none (also for NaN, which JSON does not have)."""
    try:
        return json.loads(text, parse_constant=_no_constant)
    except ValueError:
        return text


def _no_constant(name: str) -> Any:
    raise ValueError(name)


def result_text(result: Any, as_json: bool) -> str:
    """A text stands as it is, anything else as indented JSON; in one line if asked for."""
    if as_json:
        text = json.dumps(result, ensure_ascii=False, separators=(",", ":"))
    elif isinstance(result, str):
        text = result
    else:
        text = json.dumps(result, ensure_ascii=False, indent=2)
    return text.encode(errors="backslashreplace").decode()


def _error_line(error: Exception) -> str:
    """The error object as it was sent; for an error that no server sent, its message alone."""
    sent = {
        name: getattr(error, name) for name in ("code", "message", "data") if hasattr(error, name)
    }
    members = sent or {"message": str(error)}
    return json.dumps({"error": members}, ensure_ascii=False, separators=(",", ":"))
