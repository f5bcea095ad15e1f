from __future__ import annotations

import os
import subprocess
import sys

import pytest

from faircall.server.supervisor.time_slice import ask_for_slice

BE_BATCH_AND_TELL = """
import os
from faircall.server.supervisor.time_slice import be_batch
taken = be_batch()
print(taken, os.sched_getscheduler(0))
"""
ASK_AND_TELL = """
from faircall.server.supervisor.time_slice import ask_for_slice, be_batch
{first}
print(ask_for_slice(100), open("/proc/self/sched").read())
"""


def test_nothing_is_asked_for_with_0() -> None:
    assert ask_for_slice(0) is False


@pytest.mark.parametrize(("first", "policy"), [("", "0"), ("be_batch()", "3")])
def test_the_kernel_takes_the_slice_or_leaves_it_and_keeps_policy_and_priority(
    first: str, policy: str
) -> None:
    program = ASK_AND_TELL.format(first=first)
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    taken, _, report = done.stdout.partition(" ")
    fields = {
        name.strip(): value.strip()
        for name, colon, value in (line.partition(":") for line in report.splitlines())
        if colon
    }
    assert taken in ("True", "False")
    assert fields["policy"] in ("0", policy)
    assert int(fields["prio"]) == 120 + os.getpriority(os.PRIO_PROCESS, 0)
    if taken == "True" and "se.slice" in fields:
        assert int(fields["se.slice"]) == 100_000


def test_a_batch_process_is_one_if_the_kernel_lets_it() -> None:
    done = subprocess.run(
        [sys.executable, "-c", BE_BATCH_AND_TELL], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() in (
        ["True", f"{os.SCHED_BATCH}"],
        ["False", f"{os.SCHED_OTHER}"],
    )
