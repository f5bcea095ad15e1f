"""What a Hadoop configuration means: as recorded from Hadoop 3.5.0, and where ours differs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from faircall.server.config import ConfigError, PortSettings, Settings

from .conftest import Load

Hadoop = Callable[..., Settings]


@pytest.fixture
def hadoop(load: Load) -> Hadoop:
    """Settings from a core-site.xml with `ipc.8020.` before each of the keys, and more as they are.

    One key of the port is always there, so that the port is.
    """

    def load_properties(keys: dict[str, str], **more: str) -> Settings:
        own = {f"ipc.8020.{key}": text for key, text in keys.items()}
        properties = {"ipc.8020.callqueue.max-wait-ms": "0"} | own | more
        body = "".join(
            f"<property><name>{key}</name><value>{text}</value></property>"
            for key, text in properties.items()
        )
        return load(f"<configuration>{body}</configuration>", name="core-site.xml")

    return load_properties


def value(settings: Settings, path: str) -> Any:
    found: Any = settings.ports[8020]
    for name in path.split("."):
        found = getattr(found, name)
    return found


def chosen(port: PortSettings) -> tuple[str, str, bool]:
    return port.callqueue.impl, port.scheduler.impl, port.callqueue.backoff_enable


FAIR, FIFO = "FairCallQueue", "LinkedBlockingQueue"
DECAY, NONE = "DecayRpcScheduler", "DefaultRpcScheduler"
HADOOP_FAIR = "org.apache.hadoop.ipc.FairCallQueue"
HADOOP_DECAY = "org.apache.hadoop.ipc.DecayRpcScheduler"


@pytest.mark.parametrize(
    ("properties", "expected"),
    [
        ({}, (FIFO, NONE, False)),
        ({"ipc.8020.callqueue.impl": HADOOP_FAIR}, (FAIR, DECAY, False)),
        ({"ipc.callqueue.impl": HADOOP_FAIR}, (FAIR, NONE, False)),
        (
            {"ipc.callqueue.impl": HADOOP_FAIR, "ipc.scheduler.impl": HADOOP_DECAY},
            (FAIR, DECAY, False),
        ),
        ({"ipc.8020.callqueue.impl": FAIR, "ipc.8020.scheduler.impl": NONE}, (FAIR, NONE, False)),
        ({"ipc.8020.callqueue.impl": FAIR, "ipc.scheduler.impl": NONE}, (FAIR, DECAY, False)),
        ({"ipc.9000.callqueue.impl": FAIR}, (FIFO, NONE, False)),
        ({"ipc.8020.backoff.enable": "true"}, (FIFO, NONE, True)),
        ({"ipc.8020.backoff.enable": "false", "ipc.backoff.enable": "true"}, (FIFO, NONE, True)),
        (
            {"ipc.8020.callqueue.impl": "java.util.concurrent.ArrayBlockingQueue"},
            (FIFO, NONE, False),
        ),
    ],
)
def test_queue_scheduler_and_back_off_of_a_core_site(
    hadoop: Hadoop, properties: dict[str, str], expected: tuple[str, str, bool]
) -> None:
    assert chosen(hadoop({}, **properties).ports[8020]) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[ipc.8020]\ncallqueue.impl = 'FairCallQueue'", (FAIR, DECAY, False)),
        ("[ipc.8020]\ncallqueue.impl = 'LinkedBlockingQueue'", (FIFO, NONE, False)),
        ("[ipc]\ncallqueue.impl = 'FairCallQueue'\n[ipc.8020]", (FAIR, DECAY, False)),
        (
            "[ipc]\nscheduler.impl = 'DefaultRpcScheduler'\n"
            "[ipc.8020]\ncallqueue.impl = 'FairCallQueue'",
            (FAIR, NONE, False),
        ),
        ("[ipc.8020]\ndecay-scheduler.period-ms = 1", (FAIR, DECAY, True)),
        ("[ipc]\nbackoff.enable = true\n[ipc.8020]\nbackoff.enable = false", (FAIR, DECAY, False)),
    ],
)
def test_queue_scheduler_and_back_off_in_toml(
    load: Load, text: str, expected: tuple[str, str, bool]
) -> None:
    assert chosen(load(text).ports[8020]) == expected


def test_hadoops_rules_serve_in_order_of_arrival_with_hadoops_capacity(load: Load) -> None:
    settings = load("[handlers]\ncount = 3\n[ipc.8020]\ncallqueue.impl = 'FairCallQueue'")
    queue = settings.ports[8020].callqueue
    assert settings.ports[8020].hadoop_rules
    assert (queue.in_turn, queue.total_capacity, queue.max_principal_share) == (False, 300, 1.0)
    assert settings.origins["ipc.8020.callqueue.total-capacity"] == (
        "default by Hadoop's rules: Hadoop's rule: 100 calls for each of 3 handlers"
    )


def test_a_queue_from_the_environment_is_explicit_too(load: Load) -> None:
    settings = load(environ={"FAIRCALL_IPC_8020_CALLQUEUE_IMPL": "FairCallQueue"})
    assert settings.ports[8020].hadoop_rules


PERIOD = "decay_scheduler.period_ms"
FACTOR = "decay_scheduler.decay_factor"
THRESHOLDS = "decay_scheduler.thresholds"
RESPONSE = "decay_scheduler.backoff_responsetime_thresholds_ms"
LEVELS = "scheduler.priority_levels"
OLD = "faircallqueue.decay-scheduler."


@pytest.mark.parametrize(
    ("keys", "path", "expected"),
    [
        ({"decay-scheduler.period-ms": "0x7FFFFFF"}, PERIOD, 134217727),
        ({"decay-scheduler.period-ms": "  2500 "}, PERIOD, 2500),
        ({OLD + "period-ms": "1058", "decay-scheduler.period-ms": "77"}, PERIOD, 1058),
        ({OLD + "period-ms": "0", "decay-scheduler.period-ms": "77"}, PERIOD, 77),
        ({OLD + "decay-factor": "0.125", "decay-scheduler.decay-factor": "0.75"}, FACTOR, 0.125),
        ({"decay-scheduler.decay-factor": "1e-300"}, FACTOR, 1e-300),
        ({OLD + "thresholds": "1,2,3", "decay-scheduler.thresholds": "5,6,7"}, THRESHOLDS,
         (0.01, 0.02, 0.03)),
        ({"decay-scheduler.thresholds": "-7,0,250"}, THRESHOLDS, (-0.07, 0.0, 2.5)),
        ({"faircallqueue.priority-levels": "0", "scheduler.priority.levels": "5"}, LEVELS, 5),
        ({"scheduler.priority.levels": "0x3"}, LEVELS, 3),
        ({"scheduler.priority.levels": "6",
          "decay-scheduler.backoff.responsetime.thresholds": "1500,2S,3m,1h,1d,7000000ns"},
         RESPONSE, (1500, 2000, 180000, 3600000, 86400000, 7)),
        ({"decay-scheduler.backoff.responsetime.enable": " TRUE "},
         "decay_scheduler.backoff_responsetime_enable", True),
        ({"decay-scheduler.backoff.responsetime.enable": "yes"},
         "decay_scheduler.backoff_responsetime_enable", False),
        ({"decay-scheduler.service-users": "hdfs,yarn,hdfs"}, "decay_scheduler.service_users",
         ("hdfs", "yarn")),
        ({"decay-scheduler.service-users": " hdfs , yarn"}, "decay_scheduler.service_users",
         (" hdfs ", " yarn")),
        ({"decay-scheduler.service-users": ",,hdfs,"}, "decay_scheduler.service_users", ("hdfs",)),
        ({"faircallqueue.multiplexer.weights": ""}, "callqueue.multiplexer_weights", (8, 4, 2, 1)),
        ({"faircallqueue.multiplexer.weights": " 2 , 3 ,1 ,1,"}, "callqueue.multiplexer_weights",
         (2, 3, 1, 1)),
        ({"cost-provider.impl": "org.apache.hadoop.ipc.DefaultCostProvider,"
          "org.apache.hadoop.ipc.WeightedTimeCostProvider"}, "scheduler.cost_provider",
         "DefaultCostProvider"),
        ({"scheduler.impl": "org.apache.hadoop.ipc.HistoryBasedScheduler"}, "scheduler.impl",
         "HistoryRpcScheduler"),
        ({"callqueue.overflow.trigger.failover": "maybe"}, "callqueue.overflow_trigger_failover",
         False),
        ({"weighted-cost.LOCKSHARED": "77"}, "weighted_cost.lockshared", 10),
    ],
)  # fmt: skip
def test_a_value_of_a_core_site_is_read_as_hadoop_reads_it(
    hadoop: Hadoop, keys: dict[str, str], path: str, expected: object
) -> None:
    assert value(hadoop(keys), path) == expected


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"scheduler.priority.levels": "0"}, "must be at least 1"),
        ({"scheduler.priority.levels": "four"}, "is not an integer"),
        ({"decay-scheduler.period-ms": "0"}, "must be at least 1"),
        ({OLD + "period-ms": "-5", "decay-scheduler.period-ms": "77"}, "must be at least 1"),
        ({"decay-scheduler.period-ms": "5s"}, "is not an integer"),
        ({"decay-scheduler.decay-factor": "0"}, "must be above 0"),
        ({"decay-scheduler.decay-factor": "NaN"}, "is not a finite number"),
        ({"decay-scheduler.thresholds": "12.5,50,60"}, "is not a list of integers"),
        ({"decay-scheduler.thresholds": "10,20"}, "needs 3 elements"),
        ({"decay-scheduler.backoff.responsetime.thresholds": "1.5s"}, "is not a duration"),
        ({"decay-scheduler.backoff.responsetime.thresholds": "0,1,1,1"}, "must be at least 1"),
        ({"faircallqueue.multiplexer.weights": "0x8,1,1,1"}, "is not a list of integers"),
        ({"faircallqueue.multiplexer.weights": "2147483648,1,1,1"}, "is not a list of integers"),
        ({"faircallqueue.multiplexer.weights": "8,4,2,0"}, "must be at least 1"),
        ({"callqueue.capacity.weights": "4,3,0,1"}, "must be at least 1"),
        ({"weighted-cost.lockshared": "1.5"}, "is not an integer"),
        ({"weighted-cost.lockshared": "3000000000"}, "must be at most 2147483647"),
        ({"callqueue.impl": "no.such.Queue"}, "is not one of FairCallQueue, LinkedBlockingQueue"),
        ({"costprovider.impl": "x"}, "unknown key; did you mean cost-provider.impl?"),
    ],
)
def test_a_value_that_hadoop_would_refuse_is_refused(
    hadoop: Hadoop, keys: dict[str, str], message: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        hadoop(keys)
    assert message in str(caught.value)


def test_a_near_miss_of_a_key_without_a_port_is_refused(hadoop: Hadoop) -> None:
    with pytest.raises(ConfigError, match=r"did you mean server\.listen\.queue\.size\?"):
        hadoop({}, **{"ipc.server.listen.queue.sise": "1"})


def test_keys_without_a_port_set_what_is_one_for_all(hadoop: Hadoop) -> None:
    more = {
        "ipc.server.read.threadpool.size": "3",
        "ipc.server.listen.queue.size": "128",
        "ipc.server.read.connection-queue.size": "50",
        "ipc.server.handler.queue.size": "10",
        "ipc.server.max.connections": "9",
        "ipc.server.log.slow.rpc": "true",
        "rpc.metrics.timeunit": "MICROSECONDS",
        "decay-scheduler.metrics.top.user.count": "4",
    }
    settings = hadoop({}, **more)
    server, port = settings.server, settings.ports[8020]
    assert (server.readers, server.backlog, server.pending_connections) == (3, 128, 50)
    assert (server.max_connections, settings.log.slow_rpc) == (9, True)
    assert settings.rpc.metrics_timeunit == "MICROSECONDS"
    assert port.decay_scheduler.metrics_top_user_count == 4
    assert port.callqueue.total_capacity == 10 * settings.handlers.count


def test_what_has_no_effect_in_hadoop_either_is_noted(hadoop: Hadoop) -> None:
    settings = hadoop(
        {"decay-scheduler.metrics.top.user.count": "4", "backoff.enable": "yes"},
        **{"ipc.client.ping": "false", "rpc.metrics.timeunit": "ms", "io.seqfile": "1"},
    )
    assert settings.ports[8020].decay_scheduler.metrics_top_user_count == 10
    ignored, *others = settings.notes
    assert ignored == (
        "no effect here: ipc.8020.decay-scheduler.metrics.top.user.count, ipc.client.ping"
    )
    assert [note.partition(": ")[2] for note in others] == [
        'ipc.8020.backoff.enable = "yes": not understood, so the default holds, as in Hadoop',
        'rpc.metrics.timeunit = "ms": not understood, so the default holds, as in Hadoop',
    ]
    assert settings.rpc.metrics_timeunit == "MILLISECONDS"


def test_in_toml_the_number_of_top_users_is_set_with_the_port(load: Load) -> None:
    settings = load("[ipc.8020]\ndecay-scheduler.metrics.top.user.count = 4")
    assert settings.ports[8020].decay_scheduler.metrics_top_user_count == 4


def test_newcomers_are_ours_and_identity_providers_have_hadoops_names(
    hadoop: Hadoop, load: Load
) -> None:
    provider = "org.apache.hadoop.ipc.CallerContextIdentityProvider"
    settings = hadoop({"identity-provider.impl": provider})
    assert value(settings, "scheduler.identity_provider") == "CallerContextIdentityProvider"
    assert value(settings, "callqueue.newcomer_calls") == 0
    explicit = load('[ipc.8020]\ncallqueue.impl = "FairCallQueue"\n')
    assert value(explicit, "callqueue.newcomer_calls") == 0
    ours = load('[ipc.8020]\nidentity-provider.impl = "user+method"\n')
    assert value(ours, "scheduler.identity_provider") == "UserMethodIdentityProvider"
    assert value(ours, "callqueue.newcomer_calls") == 20
