"""What a method returned, as JSON.

orjson does nearly all of it, numpy arrays included.  What it does not know goes through msgspec:
`bytes` as base64, msgspec structs, attrs classes, sets, Decimal (as a string), timedelta (ISO
8601).  What it refuses as a whole (integers beyond 64 bits, keys that are no strings, nesting
beyond 254) is done once more by msgspec alone.  NaN and infinities become null, as JSON has no
word for them.
"""

from __future__ import annotations

import types
from typing import Any, Final

import msgspec
import numpy as np
import orjson

_OPTIONS: Final = orjson.OPT_SERIALIZE_NUMPY
_FINE_AS_VALUES: Final = (bool, types.NoneType, tuple, frozenset)


def encode(result: Any) -> bytes:
    """JSON bytes; TypeError with a text that names the type, or what else JSON cannot hold."""
    try:
        return orjson.dumps(result, _beyond_orjson, _OPTIONS)
    except TypeError:
        return _encode_again(result)


def _encode_again(result: Any) -> bytes:
    try:
        return _encode_slowly(result)
    except RecursionError:
        raise TypeError("a value that contains itself, or is nested too deeply") from None
    except UnicodeEncodeError:
        raise TypeError("a str that is not valid Unicode (it has lone surrogates)") from None


def _beyond_orjson(value: Any) -> Any:
    """orjson's `default`: something it can write instead of `value`."""
    if isinstance(value, np.ndarray) and not value.flags.c_contiguous:
        return np.ascontiguousarray(value)
    return orjson.Fragment(_encode_slowly(value))


def _beyond_msgspec(value: Any) -> Any:
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    place = "a key" if isinstance(value, _FINE_AS_VALUES) else "an object"
    raise TypeError(f"{place} of type {type(value).__qualname__}")


_encode_slowly: Final = msgspec.json.Encoder(enc_hook=_beyond_msgspec).encode
