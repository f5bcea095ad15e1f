"""The declarations, and which of several written values counts."""

from __future__ import annotations

import dataclasses

import pytest

from faircall.server.config import SECTIONS, ConfigError, Settings
from faircall.server.config_ipc import GROUPS, MOST_LEVELS
from faircall.server.config_limits import Limits
from faircall.server.settings import catalogue
from faircall.server.settings.declaration import Derived, Setting, settings_of
from faircall.server.settings.draft import Machine
from faircall.server.settings.load import load_settings
from faircall.shm.layout import LANES, MAX_LEVELS

from .conftest import Load

ALL = [
    pytest.param(declared, id=f"{fields.__name__}.{name}")
    for fields in (*SECTIONS.values(), *GROUPS.values())
    for name, declared in settings_of(fields).items()
]


# -- declarations -------------------------------------------------------------------------------


@pytest.mark.parametrize("declared", ALL)
def test_every_setting_says_what_it_means_and_where_its_name_comes_from(declared: Setting) -> None:
    assert declared.doc.endswith((".", '"*" accepts all.'))
    assert declared.doc[0].isupper() or ":" in declared.doc
    if declared.hadoop_default is not None:
        assert declared.hadoop or declared.key.startswith(("callqueue.", "scheduler.service"))


@pytest.mark.parametrize("declared", ALL)
def test_every_default_is_a_value_that_could_be_written(declared: Setting) -> None:
    if isinstance(declared.default, Derived):
        assert declared.default.text
        return
    default = declared.default
    read = declared.kind.read(list(default) if isinstance(default, tuple) else default)
    declared.check(read)
    assert read == declared.default


@pytest.mark.parametrize("declared", ALL)
def test_a_unit_in_the_name_is_the_unit_of_the_value(declared: Setting) -> None:
    units = {"ms": "ms", "us": "us", "s": "s", "bytes": "bytes"}
    last = declared.key.rpartition("-")[2]
    if last in units:
        assert declared.unit == units[last]


def test_every_field_of_every_section_is_a_declaration() -> None:
    for fields in (*SECTIONS.values(), *GROUPS.values()):
        assert len(dataclasses.fields(fields)) == len(settings_of(fields))
        assert fields.__doc__


def test_no_key_and_no_variable_stands_for_two_settings() -> None:
    count = sum(len(settings_of(fields)) for fields in (*SECTIONS.values(), *GROUPS.values()))
    assert len(catalogue.OWN) + len(catalogue.PORT) == count
    names = [*catalogue.ABSOLUTE, *(f"ipc.{name}" for name in catalogue.RELATIVE)]
    assert len(catalogue.ENVIRONMENT_NAMES) == len(set(names))


def test_as_many_levels_can_be_configured_as_fit_beside_the_reserved_one() -> None:
    assert MOST_LEVELS == MAX_LEVELS - LANES


def test_every_derived_default_keeps_its_bounds(machine: Machine) -> None:
    settings = load_settings({}, {}, None, machine)
    for fields, built in _built(settings):
        for name, declared in settings_of(fields).items():
            declared.check(getattr(built, name))


def _built(settings: Settings) -> list[tuple[type[object], object]]:
    own = [(fields, getattr(settings, name)) for name, fields in SECTIONS.items()]
    ports = settings.ports.values()
    return own + [(f, getattr(port, name)) for port in ports for name, f in GROUPS.items()]


def test_a_section_without_derived_defaults_needs_no_file() -> None:
    limits = Limits(
        max_unfinished_bytes_per_connection=1024,
        max_unfinished_bytes_per_principal=1024,
        max_unfinished_bytes_per_reader=1024,
    )
    assert limits.max_batch == 1000


# -- with nothing configured --------------------------------------------------------------------


def test_with_no_ipc_key_the_queue_is_fair_in_turn_and_backs_off(machine: Machine) -> None:
    settings = load_settings({}, {}, None, machine)
    (port,) = settings.ports.values()
    assert port.port == 8020
    assert [str(address) for address in port.addresses] == ["tcp://127.0.0.1:8020"]
    assert not port.hadoop_rules
    queue = port.callqueue
    assert (queue.impl, queue.in_turn, queue.backoff_enable) == ("FairCallQueue", True, True)
    assert (queue.total_capacity, queue.max_principal_share) == (4096, 0.25)
    assert port.scheduler.impl == "DecayRpcScheduler"
    assert port.scheduler.priority_levels == 4
    assert port.callqueue.multiplexer_weights == (8, 4, 2, 1)
    assert port.decay_scheduler.thresholds == (0.125, 0.25, 0.5)
    assert port.decay_scheduler.backoff_responsetime_thresholds_ms == (10000, 20000, 30000, 40000)
    assert port.history_scheduler.thresholds == (50, 400, 750)


def test_processes_follow_from_the_machine_and_say_why(machine: Machine) -> None:
    settings = load_settings({}, {}, None, machine)
    assert (settings.handlers.count, settings.server.readers) == (8, 2)
    assert settings.handlers.blas_threads == 1
    assert settings.origins["handlers.count"] == "default: one per processor: the test says so"


def test_fewer_handlers_have_fewer_readers_and_more_blas_threads(load: Load) -> None:
    settings = load("[handlers]\ncount = 3")
    assert (settings.server.readers, settings.handlers.blas_threads) == (1, 2)


# -- order --------------------------------------------------------------------------------------


def test_a_flag_counts_before_the_environment_and_that_before_the_file(load: Load) -> None:
    file, environ = "[limits]\nmax-batch = 1", {"FAIRCALL_LIMITS_MAX_BATCH": "2"}
    flags = {"limits.max-batch": ("3", "--set")}
    for expected, origin, given in (
        (3, "--set", load(file, flags=flags, environ=environ)),
        (2, "FAIRCALL_LIMITS_MAX_BATCH", load(file, environ=environ)),
        (1, "faircall.toml:2", load(file)),
        (1000, "default", load("")),
    ):
        assert given.limits.max_batch == expected
        assert given.origins["limits.max-batch"] == origin


def test_a_port_counts_before_all_ports(load: Load) -> None:
    settings = load(
        """
        [ipc]
        decay-scheduler.period-ms = 100
        [ipc.1]
        decay-scheduler.period-ms = 200
        [ipc.2]
        """
    )
    periods = [port.decay_scheduler.period_ms for port in settings.ports.values()]
    assert periods == [200, 100]
    assert settings.origins["ipc.2.decay-scheduler.period-ms"] == "faircall.toml:3"


def test_a_later_layer_does_not_count_for_its_port_before_an_earlier_for_all(load: Load) -> None:
    settings = load(
        "[ipc.8020]\nbackoff.enable = true", environ={"FAIRCALL_IPC_BACKOFF_ENABLE": "false"}
    )
    assert not settings.ports[8020].callqueue.backoff_enable


def test_the_environment_names_ports_and_hadoop_keys(load: Load) -> None:
    environ = {
        "FAIRCALL_IPC_8020_SCHEDULER_PRIORITY_LEVELS": "2",
        "FAIRCALL_IPC_SERVER_LISTEN_QUEUE_SIZE": "7",
        "FAIRCALL_ADMIN": "/tmp/x.sock",
        "FAIRCALL_SERVER_BIND": "tcp://127.0.0.1:8020,unix:/tmp/y.sock",
        "FAIRCALL_LIMITS_MAX_DEPTH": "",
    }
    settings = load(environ=environ)
    assert settings.ports[8020].scheduler.priority_levels == 2
    assert settings.server.backlog == 7
    assert settings.admin.socket == "/tmp/x.sock"
    assert len(settings.server.bind) == 2
    assert settings.limits.max_depth == 128


@pytest.mark.parametrize(
    "name",
    [
        "FAIRCALL_GOLDEN",
        "FAIRCALL_PORT",
        "FAIRCALL_PORT_8020_TCP_ADDR",
        "FAIRCALL_SERVICE_HOST",
        "FAIRCALL_ADMIN_SERVICE_HOST",
        "FAIRCALL_SERVER_PORT_80_TCP",
        "FAIRCALL_SERVER_SERVICE_PORT_HTTP",
        "PATH",
    ],
)
def test_variables_that_are_not_ours_are_left_alone(load: Load, name: str) -> None:
    assert load(environ={name: "tcp://10.0.0.1:80"}).notes == ()


def test_a_misspelt_variable_is_an_error(load: Load) -> None:
    with pytest.raises(
        ConfigError, match=r"FAIRCALL_LIMITS_MAX_BATSH: .*did you mean limits.max-b"
    ):
        load(environ={"FAIRCALL_LIMITS_MAX_BATSH": "2"})
    with pytest.raises(ConfigError, match=r"FAIRCALL_IPC_8020_COSTPROVIDER_IMPL: ipc\.8020\.cost"):
        load(environ={"FAIRCALL_IPC_8020_COSTPROVIDER_IMPL": "x"})


# -- ports and addresses ------------------------------------------------------------------------


def test_every_section_is_a_server_of_its_own_if_no_address_is_given(load: Load) -> None:
    settings = load("[ipc.9000]\n[ipc.8020]\nbackoff.enable = false")
    assert [str(address) for address in settings.server.bind] == [
        "tcp://127.0.0.1:9000",
        "tcp://127.0.0.1:8020",
    ]
    assert list(settings.ports) == [9000, 8020]


def test_a_unix_socket_belongs_to_the_section_it_names_or_to_the_first(load: Load) -> None:
    settings = load(
        """
        [server]
        bind = ["unix:/a", "tcp://127.0.0.1:2", "tcp://127.0.0.1:3", "unix:/b#3"]
        """
    )
    addresses = {n: [str(a) for a in port.addresses] for n, port in settings.ports.items()}
    assert addresses == {2: ["unix:/a", "tcp://127.0.0.1:2"], 3: ["tcp://127.0.0.1:3", "unix:/b#3"]}


@pytest.mark.parametrize(("text", "section"), [("", 8020), ("[ipc.9]", 9), ("[ipc.0]", 0)])
def test_a_unix_socket_alone_has_the_first_section(load: Load, text: str, section: int) -> None:
    settings = load(text, flags={"server.bind": (["unix:/run/x.sock"], "--bind")})
    assert list(settings.ports) == [section]


def test_a_section_without_an_address_is_noted(load: Load) -> None:
    settings = load("[ipc.9]", flags={"server.bind": (["tcp://[::1]:8020"], "--bind")})
    assert settings.notes == ("[ipc.9] is not used: no address in server.bind",)


def test_the_admin_socket_is_named_after_the_first_port(load: Load) -> None:
    assert load("[ipc.9]").admin.socket == "/run/faircall/9.sock"
    assert load("[ipc.0]").admin.socket == "/run/faircall/0-4711.sock"


def test_allowed_hosts_are_the_names_under_which_the_server_is_bound(load: Load) -> None:
    bind = {"server.bind": ("tcp://rpc.example.org:1,tcp://0.0.0.0:2,tcp://10.0.0.1:3", "--bind")}
    hosts = load(flags=bind).server.allowed_hosts
    assert hosts == ("localhost", "*.localhost", "rpc.example.org", "box")


# -- what is refused ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[ipc.8020]\ncostprovider.impl = 1", "did you mean cost-provider.impl?"),
        ("[ipc.8020]\ncall-queue.impl = 1", "did you mean callqueue.impl?"),
        ("[limits]\nmax-batches = 1", "did you mean limits.max-batch?"),
        ("[server]\nmax-batch = 1", "did you mean limits.max-batch?"),
        ("[server]\nbackoff.enable = true", "did you mean ipc.backoff.enable?"),
        ("[ipc]\nreaders = 2", "did you mean server.readers?"),
        ("max-batch = 2", "did you mean limits.max-batch?"),
        ("[throttle]\nx = 1", "faircall.toml:2: throttle.x = 1: unknown key"),
        ("[zzz]", "faircall.toml:1: zzz = {}: unknown key"),
        ("[ipc.70000]\nbackoff.enable = true", "ipc.70000.backoff.enable = true: unknown key"),
        ("[limits]\nmax-batch = 0", "faircall.toml:2: limits.max-batch = 0: must be at least 1"),
        ("[limits]\nmax-depth = 9999", "limits.max-depth = 9999: must be at most 1000"),
        ("[limits]\nmax-batch = true", "limits.max-batch = true: is not an integer"),
        ("[limits]\nmax-batch = 1.5", "limits.max-batch = 1.5: is not an integer"),
        ("[log]\nlevel = 'loud'", "is not one of debug, info, warning, error"),
        ("[log]\nformat = 2024-01-01", 'log.format = "2024-01-01": is not one of text, json'),
        ("[identity]\ntrusted-peers = ['uid:x']", "has an element that needs a number or self"),
        ("[server]\nbind = '127.0.0.1:1'", "is not an address: write tcp://HOST:PORT"),
        ("[ipc.1]\ndecay-scheduler.decay-factor = nan", "is not a finite number"),
        ("[ipc.1]\ndecay-scheduler.decay-factor = 1", "must be below 1"),
        ("[ipc.1]\ncallqueue.max-principal-share = 0", "must be above 0"),
        ("[ipc.1]\ndecay-scheduler.thresholds = [1,2,101]", "is not between 0 and 100 percent"),
        ("[ipc.1]\ncallqueue.impl = 'SynchronousQueue'", "is not one of FairCallQueue, Linked"),
        ("[ipc.1]\nscheduler.impl = 'Foo'", "HistoryRpcScheduler, DefaultRpcScheduler, module:Cla"),
        ("[ipc.1]\nbackoff.enable = 'yes'", "is neither true nor false"),
    ],
)
def test_what_is_wrong_is_named_with_its_place_and_what_would_be_right(
    load: Load, text: str, message: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        load(text)
    assert message in str(caught.value)
    assert str(caught.value).startswith("faircall.toml:")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "[server]\nreaders = 2\n[ipc]\nserver.read.threadpool.size = 2",
            "faircall.toml:2: server.readers = 2: ipc.server.read.threadpool.size "
            "(faircall.toml:4) is the same setting: keep one",
        ),
        (
            "[ipc.1]\ndecay-scheduler.period-ms = 1\nfaircallqueue.decay-scheduler.period-ms = 1",
            "is the same setting: keep one",
        ),
    ],
)
def test_both_spellings_of_one_value_are_an_error(load: Load, text: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(text)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "scheduler.priority.levels = 2\ndecay-scheduler.thresholds = [10, 20]",
            "faircall.toml:3: ipc.1.decay-scheduler.thresholds = [10, 20]: needs 1 elements for "
            "scheduler.priority.levels = 2, not 2",
        ),
        ("faircallqueue.multiplexer.weights = '1,2'", "needs 4 elements"),
        ("callqueue.capacity.weights = [1]", "needs 4 elements"),
        ("decay-scheduler.backoff.responsetime.thresholds = '1s'", "needs 4 elements"),
        ("history-scheduler.thresholds = [1,2,3,4]", "needs 3 elements"),
        (
            "callqueue.total-capacity = 9\ncallqueue.capacity.weights = [7,1,1,1]",
            "callqueue.total-capacity = 9: leaves a level without room: at least 10",
        ),
    ],
)
def test_lists_must_fit_the_levels(load: Load, text: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(f"[ipc.1]\n{text}")
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("default-timeout-ms = 9000000", "must not be above limits.max-timeout-ms = 3600000"),
        ("max-unfinished-bytes-per-connection = '1 MiB'", "limits.max-message-bytes = 16777216"),
        ("max-message-bytes = '28 MiB'", "at least twice limits.max-message-bytes = 29360128"),
    ],
)
def test_limits_must_fit_each_other(load: Load, text: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(f"[limits]\n{text}")
    assert message in str(caught.value)
