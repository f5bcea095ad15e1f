"""Coroutines of calls run on one loop per process, within their time."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from faircall.workers import eventloop
from faircall.workers.errors import CallCancelled, DeadlineExceeded


@pytest.fixture(autouse=True)
def _closed_afterwards() -> Iterator[None]:
    yield
    eventloop.close()


async def _loop() -> asyncio.AbstractEventLoop:
    return asyncio.get_running_loop()


async def _for_ever() -> None:
    await asyncio.Event().wait()


def test_all_coroutines_run_on_one_loop_until_it_is_closed() -> None:
    first = eventloop.run(_loop())
    assert eventloop.run(_loop()) is first
    eventloop.close()
    assert first.is_closed()
    assert eventloop.run(_loop()) is not first


def test_closing_without_a_loop_does_nothing() -> None:
    eventloop.close()
    eventloop.close()


def test_past_its_time_a_coroutine_is_cancelled_and_the_deadline_raised() -> None:
    ended = []

    async def patient() -> None:
        try:
            await _for_ever()
        finally:
            ended.append(True)

    with pytest.raises(DeadlineExceeded):
        eventloop.run(patient(), 0)
    assert ended == [True]


def test_a_timeout_of_the_methods_own_is_its_own_error() -> None:
    async def impatient() -> None:
        async with asyncio.timeout(0):
            await _for_ever()

    with pytest.raises(TimeoutError):
        eventloop.run(impatient(), 3600)


def test_a_coroutine_that_cancels_itself_does_not_end_the_process() -> None:
    async def giving_up() -> None:
        raise asyncio.CancelledError

    with pytest.raises(CallCancelled):
        eventloop.run(giving_up())


def test_closing_cancels_what_is_left_and_lets_it_clean_up() -> None:
    ended = []

    async def background() -> None:
        try:
            await _for_ever()
        finally:
            ended.append(True)

    async def start() -> asyncio.Task[None]:
        task = asyncio.create_task(background())
        await asyncio.sleep(0)
        return task

    task = eventloop.run(start())
    eventloop.close()
    assert ended == [True]
    assert task.cancelled()
