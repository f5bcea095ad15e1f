"""PNG in and out, and what is computed of pictures."""

from __future__ import annotations

import struct
import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from faircall.workers.example_images import (
    Picture,
    mandelbrot,
    read_png,
    resized,
    statistics,
    write_png,
)


def png(*chunks: tuple[bytes, bytes]) -> bytes:
    parts = [b"\x89PNG\r\n\x1a\n"]
    for kind, content in chunks:
        checksum = zlib.crc32(kind + content)
        parts += [struct.pack(">I", len(content)), kind, content, struct.pack(">I", checksum)]
    return b"".join(parts)


def header(width: int, height: int, colour: int, depth: int = 8, interlaced: int = 0) -> bytes:
    return struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, interlaced)


def filtered(picture: Picture, kinds: list[int]) -> bytes:
    """The picture's bytes with row y filtered by kinds[y], straight from the PNG specification."""
    height, width, channels = picture.shape
    rows = picture.reshape(height, width * channels).astype(int)
    out = bytearray()
    for y, kind in enumerate(kinds):
        out.append(kind)
        for x in range(width * channels):
            a = rows[y, x - channels] if x >= channels else 0
            b = rows[y - 1, x] if y else 0
            c = rows[y - 1, x - channels] if y and x >= channels else 0
            nearest = min((a, b, c), key=lambda value: abs(a + b - c - value))
            out.append((rows[y, x] - [0, a, b, (a + b) // 2, nearest][kind]) % 256)
    return bytes(out)


pictures = st.tuples(st.integers(1, 5), st.integers(1, 6), st.integers(1, 4)).flatmap(
    lambda shape: arrays(np.uint8, shape)
)


@given(pictures)
def test_what_is_written_is_read(picture: Picture) -> None:
    assert np.array_equal(read_png(write_png(picture)), picture)


@given(pictures, st.data())
def test_every_row_filter_is_undone(picture: Picture, data: st.DataObject) -> None:
    height, width, channels = picture.shape
    kinds = data.draw(st.lists(st.integers(0, 4), min_size=height, max_size=height))
    colour = {1: 0, 2: 4, 3: 2, 4: 6}[channels]
    packed = zlib.compress(filtered(picture, kinds))
    image = png(
        (b"IHDR", header(width, height, colour)), (b"IDAT", packed[:5]), (b"IDAT", packed[5:])
    )
    assert np.array_equal(read_png(image), picture)


def test_of_equally_near_neighbours_the_one_above_is_predicted() -> None:
    picture = np.array([[[10], [8]], [[11], [0]]], np.uint8)
    packed = zlib.compress(bytes([0, 10, 8, 4, 1, 256 - 8]))
    image = png((b"IHDR", header(2, 2, 0)), (b"IDAT", packed))
    assert np.array_equal(read_png(image), picture)


def test_a_palette_becomes_colours() -> None:
    palette, rows = bytes([1, 2, 3, 9, 8, 7]), zlib.compress(b"\0\1\0")
    image = png((b"IHDR", header(2, 1, 3)), (b"PLTE", palette), (b"IDAT", rows))
    assert read_png(image).tolist() == [[[9, 8, 7], [1, 2, 3]]]
    image = png((b"IHDR", header(2, 1, 3)), (b"PLTE", palette[:3]), (b"IDAT", rows))
    with pytest.raises(ValueError, match="palette"):
        read_png(image)


GREY = write_png(np.zeros((4, 4, 1), np.uint8))
PIXELS = (b"IDAT", zlib.compress(bytes(20)))
DAMAGED = {
    "empty": (b"", "not a PNG"),
    "text": (b"hello, world", "not a PNG"),
    "cut": (GREY[:40], "too few pixels|damaged"),
    "no header": (png(PIXELS), "no header"),
    "bit flipped": (GREY.replace(b"IHDR", b"IHDS"), "IHDS"),
    "16 bit": (png((b"IHDR", header(4, 4, 0, depth=16)), PIXELS), "8-bit"),
    "interlaced": (png((b"IHDR", header(4, 4, 0, interlaced=1)), PIXELS), "interlacing"),
    "no pixels": (png((b"IHDR", header(0, 4, 0)), PIXELS), "pixels"),
    "bomb": (png((b"IHDR", header(2**31 - 1, 2**31 - 1, 6)), PIXELS), "pixels"),
    "not zlib": (png((b"IHDR", header(4, 4, 0)), (b"IDAT", b"xxxx")), "damaged"),
    "too few": (png((b"IHDR", header(4, 5, 0)), PIXELS), "too few"),
    "filter 9": (png((b"IHDR", header(1, 1, 0)), (b"IDAT", zlib.compress(b"\x09\0"))), "filter 9"),
}


@pytest.mark.parametrize(("image", "text"), DAMAGED.values(), ids=DAMAGED.keys())
def test_what_cannot_be_read_is_refused_with_the_reason(image: bytes, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        read_png(image)


def test_shrinking_averages_and_enlarging_repeats() -> None:
    picture = np.array([[[0], [100]], [[100], [200]]], np.uint8)
    assert resized(picture, 1, 1).tolist() == [[[100]]]
    assert resized(picture, 2, 1)[:, :, 0].tolist() == [[50, 150]]
    assert resized(picture, 4, 2)[0, :, 0].tolist() == [0, 0, 100, 100]
    assert resized(picture, 3, 2)[0, :, 0].tolist() == [0, 50, 100]


@given(pictures, st.integers(1, 9), st.integers(1, 9))
def test_resizing_keeps_the_mean_and_the_range(picture: Picture, width: int, height: int) -> None:
    small = resized(picture, width, height)
    assert small.shape == (height, width, picture.shape[2])
    assert abs(small.mean() - picture.mean()) <= 0.51
    assert small.min() >= picture.min()
    assert small.max() <= picture.max()


def test_statistics_of_a_known_picture() -> None:
    picture = np.zeros((2, 2, 3), np.uint8)
    picture[0] = [0, 100, 200]
    found = statistics(picture)
    assert (found["width"], found["height"], found["channels"]) == (2, 2, 3)
    assert found["mean"].tolist() == [0, 50, 100]
    assert found["deviation"].tolist() == [0, 50, 100]
    assert found["entropy_bits"] == 1


def test_the_mandelbrot_set_is_where_it_is_and_pauses_can_end_it() -> None:
    pauses = []
    picture = mandelbrot(64, 48, 1.0, lambda: pauses.append(1))
    assert picture.shape == (48, 64, 3)
    assert len(pauses) == 255
    assert not picture[24 - 2, 40].any()
    assert picture[0, 0].any()
