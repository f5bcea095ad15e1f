"""The settings of `[handlers.<group>]`: methods with handlers and a queue of their own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from .settings.declaration import integer, setting
from .settings.environment_table import ENVIRONMENT
from .settings.lists import NAMES


@dataclass(frozen=True, slots=True, kw_only=True)
class HandlerGroup:
    """Methods that have handlers and a queue of their own: however many of their calls wait, they
    take neither room nor draws nor handlers from the others."""

    methods: tuple[str, ...] = setting(
        NAMES,
        (),
        'Which methods: names, or patterns as in a shell (`"vision.*"`). Each must match one, no'
        ' method may be of two groups. `"*"` alone: all that no other group has, instead of'
        " `handlers.count`. Needed.",
    )
    count: int = integer(1, "Handler processes of the group, of each port.", 1, 1023)
    express: int = integer(
        0,
        "Express handlers of the group, beside these: see `handlers.express`.",
        0,
        1023,
    )
    env: Mapping[str, str] = field(
        default_factory=dict,
        metadata={
            "kind": ENVIRONMENT,
            "default": {},
            "doc": "Environment variables of its processes, set before the service is imported."
            " `{index}` is the handler's, from 0 within the group, and `{group}` its name.",
        },
    )
    capacity: int = integer(
        0,
        "Calls that may wait in the group's queue, over all levels. 0: as many as in the other,"
        " `callqueue.total-capacity`.",
        0,
        1 << 22,
    )
