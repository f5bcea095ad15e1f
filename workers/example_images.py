"""PNG pictures as numpy arrays: the image part of the example service.

Reads and writes 8-bit PNG without interlacing (W3C PNG, third edition) with nothing but zlib and
numpy. A picture is a uint8 array of shape (height, width, channels): grey 1, grey+alpha 2, RGB 3,
RGBA 4.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

Picture = NDArray[np.uint8]

MAX_PIXELS: Final = 4_000_000
_SIGNATURE: Final = b"\x89PNG\r\n\x1a\n"
_PALETTE: Final = 3
_CHANNELS: Final = {0: 1, 2: 3, _PALETTE: 1, 4: 2, 6: 4}
_COLOUR_TYPES: Final = {1: 0, 2: 4, 3: 2, 4: 6}


def read_png(png: bytes) -> Picture:
    """ValueError for what is no PNG, or one of a kind or size that is not read here."""
    chunks = dict.fromkeys((b"IHDR", b"PLTE", b"IDAT"), b"")
    for kind, content in _chunks(png):
        if kind in chunks:
            chunks[kind] += content
    if len(chunks[b"IHDR"]) != 13:
        raise ValueError("not a PNG: no header")
    width, height, depth, colour, _, _, interlaced = struct.unpack(">IIBBBBB", chunks[b"IHDR"])
    if depth != 8 or interlaced or colour not in _CHANNELS:
        raise ValueError("only 8-bit PNG without interlacing is read here")
    if not 0 < width * height <= MAX_PIXELS:
        raise ValueError(f"a picture has 1 to {MAX_PIXELS} pixels")
    picture = _unfiltered(chunks[b"IDAT"], width, height, _CHANNELS[colour])
    return _coloured(picture, chunks[b"PLTE"]) if colour == _PALETTE else picture


def write_png(picture: Picture) -> bytes:
    height, width, channels = picture.shape
    rows = picture.reshape(height, width * channels)
    filtered = np.empty((height, 1 + width * channels), np.uint8)
    filtered[:, 0] = 2
    filtered[0, 1:] = rows[0]
    filtered[1:, 1:] = rows[1:] - rows[:-1]
    header = struct.pack(">IIBBBBB", width, height, 8, _COLOUR_TYPES[channels], 0, 0, 0)
    parts = ((b"IHDR", header), (b"IDAT", zlib.compress(filtered.tobytes())), (b"IEND", b""))
    return _SIGNATURE + b"".join(_chunk(kind, content) for kind, content in parts)


def resized(picture: Picture, width: int, height: int) -> Picture:
    """Area averaging: each new pixel is the mean of what it covers, fractions included."""
    down, across = _coverage(picture.shape[0], height), _coverage(picture.shape[1], width)
    blended = np.einsum("yi,ijc,xj->yxc", down, picture.astype(np.float32), across, optimize=True)
    picture = np.rint(blended).astype(np.uint8)
    return picture


def statistics(picture: Picture) -> dict[str, Any]:
    """Size, mean and deviation of each channel, entropy of the brightness in bits a pixel."""
    height, width, channels = picture.shape
    pixels = picture.reshape(-1, channels).astype(np.float64)
    brightness = np.rint(pixels[:, : 3 if channels > 2 else 1].mean(axis=1)).astype(np.int64)
    shares = np.bincount(brightness, minlength=256) / len(pixels)
    seen = shares[shares > 0]
    return {
        "width": width,
        "height": height,
        "channels": channels,
        "mean": pixels.mean(axis=0),
        "deviation": pixels.std(axis=0),
        "entropy_bits": max(0.0, float(-(seen * np.log2(seen)).sum())),
    }


def mandelbrot(width: int, height: int, zoom: float, pause: Callable[[], None]) -> Picture:
    """Escape times near the seahorse valley, as RGB; `pause` is called once an iteration."""
    xs = -0.745 + (np.arange(width) / width - 0.5) * 3 / zoom
    ys = 0.113 + (np.arange(height) / height - 0.5) * 3 * height / width / zoom
    start = (xs[None, :] + 1j * ys[:, None]).ravel()
    point, alive = start.copy(), np.arange(start.size)
    escaped = np.zeros(start.size, np.uint32)
    for turn in range(1, 256):
        pause()
        point = point * point + start[alive]
        inside = np.abs(point) <= 2
        escaped[alive[~inside]] = turn
        point, alive = point[inside], alive[inside]
    hues = escaped[:, None] * np.array([5, 3, 9], np.uint32)
    return hues.astype(np.uint8).reshape(height, width, 3)


def _coverage(old: int, new: int) -> NDArray[np.float32]:
    """Which share of new pixel i comes from old pixel j: shape (new, old), rows sum to 1."""
    edges = np.arange(new + 1)[:, None] * (old / new)
    cells = np.arange(old)[None, :]
    overlap = np.minimum(edges[1:], cells + 1) - np.maximum(edges[:-1], cells)
    shares: NDArray[np.float32] = (np.clip(overlap, 0, None) * (new / old)).astype(np.float32)
    return shares


def _chunks(png: bytes) -> Iterator[tuple[bytes, bytes]]:
    if not png.startswith(_SIGNATURE):
        raise ValueError("not a PNG: the first eight bytes are others")
    at = len(_SIGNATURE)
    while at + 12 <= len(png):
        length, kind = struct.unpack_from(">I4s", png, at)
        content, at = png[at + 8 : at + 8 + length], at + 12 + length
        if png[at - 4 : at] != struct.pack(">I", zlib.crc32(kind + content)):
            raise ValueError(f"damaged PNG: chunk {kind.decode('latin-1')!r}")
        yield kind, content


def _chunk(kind: bytes, content: bytes) -> bytes:
    checksum = zlib.crc32(kind + content)
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", checksum)


def _unfiltered(packed: bytes, width: int, height: int, channels: int) -> Picture:
    expected = height * (1 + width * channels)
    try:
        flat = zlib.decompressobj().decompress(packed, expected)
    except zlib.error as error:
        raise ValueError(f"damaged PNG: {error}") from None
    if len(flat) != expected:
        raise ValueError("damaged PNG: too few pixels")
    rows = np.frombuffer(flat, np.uint8).reshape(height, 1 + width * channels)
    picture = np.zeros((height + 1, width, channels), np.uint8)
    for y, row in enumerate(rows):
        picture[y + 1] = _unfilter(int(row[0]), row[1:].reshape(width, channels), picture[y])
    return picture[1:]


def _unfilter(kind: int, row: Picture, above: Picture) -> Picture:
    """One row of shape (width, channels) made absolute; `above` is the finished row before it."""
    if kind == 0:
        return row
    if kind == 1:
        return np.cumsum(row, axis=0, dtype=np.uint8)
    if kind == 2:
        return row + above
    predict = {3: _average, 4: _paeth}.get(kind)
    if predict is None:
        raise ValueError(f"damaged PNG: filter {kind}")
    channels = row.shape[1]
    done, up = bytearray(row.tobytes()), bytes(channels) + above.tobytes()
    left = bytearray(channels)
    for i, difference in enumerate(done):
        value = (difference + predict(left[-channels], up[i + channels], up[i])) & 255
        left.append(value)
    return np.frombuffer(bytes(left[channels:]), np.uint8).reshape(row.shape)


def _average(left: int, up: int, corner: int) -> int:
    return (left + up) >> 1


def _paeth(left: int, up: int, corner: int) -> int:
    """Of the three neighbours the one nearest to left + up - corner."""
    to_left, to_up, to_corner = abs(up - corner), abs(left - corner), abs(left + up - 2 * corner)
    if to_left <= to_up and to_left <= to_corner:
        return left
    return up if to_up <= to_corner else corner


def _coloured(picture: Picture, palette: bytes) -> Picture:
    colours = np.frombuffer(palette[: len(palette) // 3 * 3], np.uint8).reshape(-1, 3)
    if picture.max() >= len(colours):
        raise ValueError("damaged PNG: a colour that the palette has not")
    return colours[picture[:, :, 0]]
