"""The recorded cases of dispatch throttling: reading them, and their configuration as policies.

Topics are written `service/method` there and `service.method` here. A rate of theirs is ours but
for the name of `msg`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from faircall.scheduling.dispatch_policies import MethodPolicy, Policies, Rate, Templates
from faircall.scheduling.dispatch_settings import DispatchSettings

from .recorded import GOLDEN, Case

Config = Mapping[str, Any]


def cases(kind: str | None = None) -> list[Case]:
    """All cases of the files of a kind: None, or "variants" (how Pulsar's own limiters behave)."""
    found = []
    for path in sorted((GOLDEN / "pulsar").glob("*.json")):
        recorded = json.loads(path.read_text(encoding="utf-8"))
        if "cases" in recorded and recorded.get("kind") == kind:
            found += [Case(path.stem, case["id"], case) for case in recorded["cases"]]
    return found


def parameters(kind: str | None = None) -> pytest.MarkDecorator:
    """Runs a test once for each of them."""
    return pytest.mark.parametrize("case", [pytest.param(one, id=one.name) for one in cases(kind)])


def method_of(topic: str) -> str:
    """The method that a topic stands for."""
    return topic.replace("/", ".")


def policies_of(config: Config) -> Policies:
    """The sources of limits in a configuration; BadValue."""
    topics, namespaces = config.get("topics", {}), config.get("namespaces", {})
    return Policies(
        server=_rate(config, "broker"),
        groups={name: rate_of(rate) for name, rate in config.get("groups", {}).items()},
        methods={method_of(topic): _method_policy(policy) for topic, policy in topics.items()},
        services={name: _templates(policy) for name, policy in namespaces.items()},
        defaults=Templates(
            method=_rate(config, "per_topic"), caller=_rate(config, "per_subscription")
        ),
        exempt=frozenset(map(method_of, config.get("exempt", []))),
    )


def settings_of(config: Config) -> DispatchSettings:
    """The switches in a configuration; BadValue."""
    return DispatchSettings(
        on_batch_message=config.get("count") == "entries",
        on_non_backlog_consumer=config.get("throttle_non_backlog", True),
        for_filtered_entries=config.get("charge_filtered", False),
        precise=config.get("precise", False),
        backlog_threshold=config.get("backlog_threshold", 1),
    )


def _templates(policy: Config) -> Templates:
    return Templates(method=_rate(policy, "topic"), caller=_rate(policy, "subscription"))


def _method_policy(policy: Config) -> MethodPolicy:
    callers = {caller: rate_of(rate) for caller, rate in policy.get("subscriptions", {}).items()}
    return MethodPolicy(
        method=_rate(policy, "topic"), caller=_rate(policy, "subscription"), callers=callers
    )


def _rate(policy: Config, name: str) -> Rate | None:
    return None if policy.get(name) is None else rate_of(policy[name])


def rate_of(rate: Config) -> Rate:
    """A rate of theirs as one of ours; BadValue."""
    return Rate.of({"calls" if key == "msg" else key: rate[key] for key in rate}, "the case")
