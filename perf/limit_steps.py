"""What limits that do not bite add to a call: bytecode instructions and calls of Python functions.

    python -m faircall.perf.limit_steps [--connections 16] [--rounds 10]

As `steps` counts them, with limits and without, by function: the difference. A handler claims all
calls of a round at once, however long they seem to take: so the figures do not change from run to
run but by what is done by the clock, and show what no timing does.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Mapping
from types import FrameType

from ..server.port import open_ports
from ..server.settings.load import load_settings
from .steps import FLAGS, Steps, module_of, trace_rounds
from .throttle_cost import CONFIGURED

ALL_AT_ONCE = {"handlers.claim-ahead-us": 1_000_000}

Found = Counter[tuple[str, str, str]]  # (process, what is counted, function)
INSTRUCTIONS, CALLS = "instructions", "calls"


def count(steps: Steps, rounds: int) -> Found:
    """What is executed in `rounds`, by function."""
    found: Found = Counter()

    def seen(who: str, frame: FrameType, event: str) -> None:
        name = f"{module_of(frame)}: {frame.f_code.co_qualname}"
        if event == "opcode":
            found[who, INSTRUCTIONS, name] += 1
        elif event == "call":
            found[who, CALLS, name] += 1

    trace_rounds(steps, rounds, seen)
    return found


def counted(settings: Mapping[str, str], connections: int, rounds: int) -> Found:
    """Of a port with these settings more than the default ones."""
    flags = FLAGS | {key: (value, "steps") for key, value in {**ALL_AT_ONCE, **settings}.items()}
    (port,) = open_ports(load_settings(flags))
    return count(Steps(port, connections), rounds)


def main(arguments: list[str] | None = None) -> None:
    """Print a table for each set of limits."""
    parser = argparse.ArgumentParser(prog="python -m faircall.perf.limit_steps")
    parser.add_argument("--connections", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=10, help="that are counted")
    options = parser.parse_args(arguments)
    calls = options.connections * options.rounds
    without = counted({}, options.connections, options.rounds)
    for name, settings in CONFIGURED.items():
        more = counted(settings, options.connections, options.rounds)
        more.subtract(without)
        for who in ("reader", "handler"):
            show(f"{name}: {who}", who, more, calls)


def show(title: str, who: str, more: Found, calls: int) -> None:
    """Instructions and function calls more, of one process, per call."""
    sums = [sum(n for (w, k, _), n in more.items() if (w, k) == (who, kind)) for kind in KINDS]
    print(f"{title:<64}", *(f"{number / calls:>8.1f}" for number in sums))
    names = {name for (w, _, name), n in more.items() if w == who and n}
    for name in sorted(names, key=lambda name: -more[who, INSTRUCTIONS, name]):
        print(f"  {name:<62}", *(f"{more[who, kind, name] / calls:>8.1f}" for kind in KINDS))


KINDS = (INSTRUCTIONS, CALLS)

if __name__ == "__main__":
    main()
