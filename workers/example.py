"""The example service of `make run`: real work on real input, and some small calls.

    curl localhost:8020 -d '{"jsonrpc":"2.0","method":"factorise","params":[8020],"id":1}'

Pictures are PNG, in base64 as all `bytes` on the wire.  Every method that computes for long asks
`current_call().check()` on its way, so that it ends when nobody waits for its answer any more.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from typing import Annotated, Any, Literal

import msgspec

from . import example_images as images
from . import example_numbers as numbers
from . import example_texts as texts
from .context import current_call
from .errors import INVALID_PARAMS, RpcError
from .service import Service

service = Service("example")

Side = Annotated[int, msgspec.Meta(ge=1, le=2000)]
Positive = Annotated[int, msgspec.Meta(ge=1)]

_model: texts.LanguageModel | None = None


@service.on_start
def train() -> None:
    """Once in each handler, before its first call."""
    global _model
    _model = texts.LanguageModel()


@service.method(idempotent=True)
def echo(x: Any) -> Any:
    """Whatever was sent."""
    return x


@service.method(idempotent=True)
def add(a: int | float, b: int | float) -> int | float:
    return a + b


@service.method(idempotent=True)
async def sleep(seconds: Annotated[float, msgspec.Meta(ge=0, le=3600)]) -> float:
    """Waits without computing; ends early at the deadline, as every `async def` method does."""
    await asyncio.sleep(seconds)
    return seconds


@service.method
def fail(message: str) -> None:
    """Always an error, with this message."""
    raise RuntimeError(message)


@service.method(idempotent=True)
def spin(ms: Annotated[float, msgspec.Meta(ge=0, le=60_000)]) -> float:
    """Keeps a core busy for this many milliseconds of CPU time."""
    call = current_call()
    end_ns = time.thread_time_ns() + int(ms * 1e6)
    while time.thread_time_ns() < end_ns:
        call.check()
    return ms


@service.method(idempotent=True)
def whoami() -> dict[str, Any]:
    """As whom the server takes you, the level you are served at, and by which handler."""
    call = current_call()
    return {
        "user": call.user,
        "level": call.level,
        "remaining_s": round(call.remaining(), 3),
        "handler": call.worker.index,
    }


@service.method(idempotent=True)
def text_statistics(
    text: str, top: Annotated[int, msgspec.Meta(ge=0, le=1000)] = 10
) -> texts.TextStatistics:
    """Counts, readability and the most common words."""
    return texts.statistics(text, top)


@service.method(idempotent=True)
def guess_language(text: str) -> dict[str, Any]:
    """The most similar of the languages that the model knows, and the similarity with each."""
    if _model is None:
        raise RuntimeError("the model is trained when a handler starts")
    similar = _model.similarities(text)
    scores = dict(zip(_model.languages, similar.round(3), strict=True))
    return {"language": max(scores, key=scores.__getitem__), "similarity": scores}


@service.method(idempotent=True, timeout=10.0)
def mandelbrot(
    width: Side = 320, height: Side = 240, zoom: Annotated[float, msgspec.Meta(gt=0)] = 150.0
) -> bytes:
    """A PNG to try the picture calls with."""
    return images.write_png(images.mandelbrot(width, height, zoom, current_call().check))


@service.method(idempotent=True)
def image_statistics(image: bytes) -> dict[str, Any]:
    """Size, mean and deviation of each channel, entropy."""
    return images.statistics(_read(image))


@service.method(idempotent=True, timeout=10.0)
def resize(image: bytes, width: Side, height: Side | None = None) -> bytes:
    """The PNG in another size; without `height` in the same proportions."""
    picture = _read(image)
    proportional = max(1, round(picture.shape[0] * width / picture.shape[1]))
    return images.write_png(images.resized(picture, width, height or proportional))


@service.method(idempotent=True)
def digest(
    payload: bytes, algorithm: Literal["sha256", "sha512", "blake2b", "sha3_256"] = "sha256"
) -> str:
    """The hash of the decoded bytes, in hexadecimal."""
    return hashlib.new(algorithm, payload).hexdigest()


@service.method(idempotent=True, timeout=30.0)
def derive_key(
    password: str, salt: bytes, rounds: Annotated[int, msgspec.Meta(ge=1, le=5_000_000)] = 200_000
) -> str:
    """PBKDF2 with SHA-256, in hexadecimal: slow by design."""
    return hashlib.pbkdf2_hmac("sha256", password.encode(), salt, rounds).hex()


@service.method(idempotent=True, timeout=30.0)
def factorise(number: Annotated[int, msgspec.Meta(ge=1)]) -> list[int]:
    """Prime factors in ascending order, exact to 3.3e24."""
    if number >= 3 * 10**24:
        raise RpcError(INVALID_PARAMS, "numbers up to 3e24 are factorised here")
    return numbers.prime_factors(number, current_call().check)


def _read(image: bytes) -> images.Picture:
    try:
        return images.read_png(image)
    except ValueError as error:
        raise RpcError(INVALID_PARAMS, f"image: {error}", {"parameter": "image"}) from None
