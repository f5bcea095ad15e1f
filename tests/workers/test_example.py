"""The example service answers what its README promises, through the same path as real calls."""

from __future__ import annotations

import base64
import hashlib
import json
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from faircall.workers.context import Call, Worker, running
from faircall.workers.example_images import read_png, write_png
from faircall.workers.example_numbers import is_prime, prime_factors
from faircall.workers.example_texts import SAMPLES, LanguageModel, statistics
from faircall.workers.invoke import invoke
from faircall.workers.load import load_service

service = load_service("faircall.workers.example")


@pytest.fixture(autouse=True, scope="module")
def _started() -> Iterator[None]:
    worker = Worker(2)
    service.start(worker)
    with running(Call(user="ann", level=1, worker=worker)):
        yield
    assert service.stop(worker) == []


def answer(method: str, *args: Any, **kwargs: Any) -> tuple[bool, Any]:
    found = invoke(service, method, json.dumps(kwargs or args).encode())
    return found.ok, json.loads(found.body)


def result(method: str, *args: Any, **kwargs: Any) -> Any:
    ok, body = answer(method, *args, **kwargs)
    assert ok, body
    return body


def failure(method: str, *args: Any, **kwargs: Any) -> tuple[int, str]:
    ok, body = answer(method, *args, **kwargs)
    assert not ok, body
    return body["code"], body["message"]


def test_the_small_calls() -> None:
    assert result("echo", {"a": [None]}) == {"a": [None]}
    assert result("add", a=2, b=40) == 42
    assert result("sleep", 0) == 0
    assert result("spin", 0) == 0
    assert failure("fail", "boom") == (-32000, "RuntimeError: boom")
    assert failure("add", 1, "x")[0] == -32602


def test_whoami_tells_what_the_server_knows() -> None:
    assert result("whoami") == {"user": "ann", "level": 1, "remaining_s": None, "handler": 2}


def test_long_calls_end_when_nobody_waits_any_more() -> None:
    gone = Call(is_abandoned=lambda: True)
    hard = 1_000_003 * 10_000_000_000_000_061
    for method, params in (("spin", [60_000]), ("factorise", [hard]), ("mandelbrot", [])):
        with running(gone):
            assert failure(method, *params)[0] == -32051
    with running(Call(deadline_ns=1)):
        assert failure("sleep", 3600)[0] == -32050


def test_every_method_of_the_example_is_safe_to_run_again_except_the_failing_one() -> None:
    assert [name for name, method in service.methods.items() if not method.idempotent] == ["fail"]


# -- texts -----------------------------------------------------------------------------------------


def test_statistics_of_a_known_text() -> None:
    found = result("text_statistics", text="The cat sat. The dog didn't!", top=1)
    assert found == {
        "characters": 28,
        "words": 6,
        "distinct_words": 5,
        "sentences": 2,
        "mean_word_length": 3.5,
        "reading_ease": 119.2,
        "most_common": [["the", 2]],
    }


def test_statistics_of_no_words_are_zeros() -> None:
    found = statistics(" ... 123 ", 10)
    assert (found.words, found.mean_word_length, found.reading_ease) == (0, 0, None)


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("Where is the library?", "en"),
        ("Le chat dort sur la table avec une pomme.", "fr"),
        ("Das Wetter ist heute schön und wir gehen spazieren.", "de"),
        ("¿Cómo está usted? Los niños están en la escuela.", "es"),
        ("Il gatto dorme sul divano e la vita è bella.", "it"),
        ("Ik hou van jou en van de zee.", "nl"),
    ],
)
def test_the_language_of_a_sentence_it_never_saw(text: str, language: str) -> None:
    found = result("guess_language", text)
    assert found["language"] == language
    assert set(found["similarity"]) == set(SAMPLES)


def test_similarities_are_shares_of_what_a_text_has_in_common() -> None:
    model = LanguageModel({"x": "abc", "y": "xyz"})
    assert model.similarities("abc").tolist() == pytest.approx([1, 0])
    assert model.similarities("").tolist() == [0, 0]


# -- pictures --------------------------------------------------------------------------------------


def _sent(picture: Any) -> str:
    return base64.b64encode(write_png(np.asarray(picture, np.uint8))).decode()


def test_pictures_travel_as_base64() -> None:
    image = _sent(np.full((4, 8, 3), 7))
    assert result("image_statistics", image)["mean"] == [7, 7, 7]
    for height, shape in ((None, (2, 4, 3)), (5, (5, 4, 3))):
        resized = result("resize", image, 4, height)
        picture = read_png(base64.b64decode(resized))
        assert picture.shape == shape
        assert (picture == 7).all()


def test_a_drawn_picture_can_be_measured() -> None:
    image = result("mandelbrot", width=40, height=30)
    found = result("image_statistics", image)
    assert (found["width"], found["height"]) == (40, 30)
    assert found["entropy_bits"] > 1


def test_wrong_pictures_are_the_callers_fault() -> None:
    code, message = failure("resize", image="aGk=", width=10)
    assert (code, message.split(":")[0]) == (-32602, "image")
    assert failure("resize", image="aGk=", width=0)[0] == -32602
    assert failure("resize", image="?", width=1)[0] == -32602


# -- hashes and numbers ----------------------------------------------------------------------------


def test_hashes_are_those_of_the_decoded_bytes() -> None:
    assert result("digest", "aGk=") == hashlib.sha256(b"hi").hexdigest()
    assert result("digest", "aGk=", "blake2b") == hashlib.blake2b(b"hi").hexdigest()
    assert failure("digest", "aGk=", "md5")[0] == -32602
    key = hashlib.pbkdf2_hmac("sha256", b"pw", b"hi", 10).hex()
    assert result("derive_key", password="pw", salt="aGk=", rounds=10) == key


@given(st.integers(1, 10**12))
def test_factors_are_prime_in_order_and_multiply_to_the_number(number: int) -> None:
    factors = prime_factors(number, lambda: None)
    assert math.prod(factors) == number
    assert factors == sorted(factors)
    assert all(is_prime(factor) for factor in factors)


def test_primes_are_those_of_the_sieve() -> None:
    limit = 5000
    composite = {m for n in range(2, limit) for m in range(2 * n, limit, n)}
    assert [n for n in range(limit) if is_prime(n)] == [
        n for n in range(2, limit) if n not in composite
    ]


def test_numbers_beyond_64_bits_are_factorised() -> None:
    assert result("factorise", 2**67 - 1) == [193707721, 761838257287]
    assert failure("factorise", 3 * 10**24)[0] == -32602
    assert failure("factorise", 0)[0] == -32602
    assert not is_prime(3215031751)  # a strong pseudoprime to bases 2, 3, 5 and 7
