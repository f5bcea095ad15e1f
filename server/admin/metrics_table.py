"""Every metric of `/metrics`: name, kind, labels, meaning. docs/metrics.md is written from here.

Names of OpenTelemetry's semantic conventions for RPC are used where there is one:
`rpc.server.call.duration` in seconds, with `rpc.system.name` and `rpc.method`, is
`rpc_server_call_duration_seconds` with `rpc_system_name` and `rpc_method` in Prometheus' spelling.
"""

from __future__ import annotations

from typing import Final

from .openmetrics import Kind, Metric

RPC_SYSTEM: Final = "jsonrpc"  # rpc.system.name
OTHER_USERS: Final = "(others)"  # the label of all who are not among the top: no name of a user
OTHER_METHODS: Final = "(others)"

_METHOD = ("port", "rpc_method")
_LEVEL = ("port", "level")
_USER = ("port", "user")
_PROCESS = ("port", "role", "index")
_LIMITER = ("port", "limiter")


def _counter(name: str, text: str, labels: tuple[str, ...] = ("port",), unit: str = "") -> Metric:
    return Metric(name, Kind.COUNTER, text, labels, unit)


def _gauge(name: str, text: str, labels: tuple[str, ...] = ("port",), unit: str = "") -> Metric:
    return Metric(name, Kind.GAUGE, text, labels, unit)


def _times(name: str, text: str, labels: tuple[str, ...]) -> Metric:
    return Metric(name, Kind.HISTOGRAM, text, labels, "seconds")


# times
CALL_DURATION = _times(
    "rpc_server_call_duration_seconds",
    "From a call's arrival to its answer, of calls that were queued.",
    ("port", "rpc_system_name", "rpc_method"),
)
LEVEL_DURATION = _times(
    "faircall_level_call_duration_seconds",
    "From a call's arrival to its answer, by the level that the scheduler chose.",
    _LEVEL,
)
WAIT = _times("faircall_wait_seconds", "From arrival until a handler claimed the call.", _METHOD)
LEVEL_WAIT = _times(
    "faircall_level_wait_seconds",
    "From arrival until a handler claimed the call, by the level of the queue.",
    _LEVEL,
)
SERVICE = _times("faircall_service_seconds", "In the method, of calls that ran.", _METHOD)
LEVEL_SERVICE = _times(
    "faircall_level_service_seconds",
    "In the method, of calls that ran, by the level of the queue where they waited.",
    _LEVEL,
)

# calls
CALLS = _counter("faircall_calls", "Calls read from connections, notifications too.")
METHOD_CALLS = _counter(
    "faircall_method_calls",
    "Calls that a handler began, by outcome: ok, failed (it raised), died (with its handler).",
    ("port", "rpc_method", "outcome"),
)
OUTCOMES = _counter(
    "faircall_call_outcomes",
    "What became of calls: answered (one way or another), expired, cancelled, dropped (their"
    " connection closed), died (with their handler), refused.",
    ("port", "outcome"),
)
REFUSALS = _counter("faircall_refusals", "Calls that were refused, by reason.", ("port", "reason"))
BACKOFFS = _counter(
    "faircall_backoffs", "Of the refused, those that were told to come again later."
)
LATE = _counter("faircall_late_calls", "Calls claimed by a handler when it was too late.")
SLOW = _counter("faircall_slow_calls", "Calls that were logged for being slow.")
REQUEUED = _counter("faircall_requeued_calls", "Calls given to another handler after a death.")

# the queue
QUEUED = _gauge("faircall_queue_calls", "Calls that wait, by level.", _LEVEL)
HELD = _gauge("faircall_queue_held_calls", "Calls that a limit holds back, by level.", _LEVEL)
CAPACITY = _gauge("faircall_queue_capacity_calls", "Calls that a level has room for.", _LEVEL)
WEIGHT = _gauge("faircall_queue_weight", "Draws of a level in a round of the multiplexer.", _LEVEL)
OVERFLOWS = _counter(
    "faircall_queue_overflows", "Calls that found the level full: they went lower, or back.", _LEVEL
)
DRAWS = _counter("faircall_draws", "Calls drawn by the multiplexer, by level.", _LEVEL)
BACKS_OFF = _gauge(
    "faircall_level_backs_off", "1: too slow, calls of the levels below are refused.", _LEVEL
)
LANE_QUEUED = _gauge("faircall_lane_calls", "Calls that wait beside the levels.", ("port", "lane"))
_GROUP = ("port", "group")
GROUP_QUEUED = _gauge(
    "faircall_group_queue_calls",
    "Calls that wait for a group of handlers, where there are several.",
    _GROUP,
)
GROUP_CAPACITY = _gauge(
    "faircall_group_queue_capacity_calls", "Calls that a group's queue has room for.", _GROUP
)
GROUP_HANDLERS = _gauge("faircall_group_handlers", "Handlers that a group is to have.", _GROUP)
GROUP_RUNNING = _gauge("faircall_group_running_calls", "Handlers of it that run a call.", _GROUP)
GROUP_DRAWS = _counter("faircall_group_draws", "Calls drawn for a group of handlers.", _GROUP)

# throttling
LIMITER_RUNNING = _gauge(
    "faircall_limiter_running_calls", "Calls that run under a limiter, of the busiest 20.", _LIMITER
)
LIMITER_HELD = _gauge("faircall_limiter_held_calls", "Calls that a limiter holds.", _LIMITER)
LIMITER_EVENTS = _counter(
    "faircall_limiter_events",
    "How often a limiter held a call, or refused one, by what for. Gone with a caller's limiter.",
    ("port", "limiter", "reason"),
)

# users
USERS = _gauge("faircall_users", "Users who have a row.")
LEVEL_USERS = _gauge("faircall_level_users", "Users who have this level.", _LEVEL)
USER_SHARE = _gauge(
    "faircall_user_cost_share_ratio", "Of the decayed cost of all ordinary users.", _USER, "ratio"
)
USER_COST = _gauge("faircall_user_decayed_cost", "The cost that counts now.", _USER)
USER_LEVEL = _gauge("faircall_user_level", "The level of one of the heaviest users.", _USER)
USER_QUEUED = _gauge("faircall_user_queue_calls", "Calls of a user that wait.", _USER)
USER_WAIT = Metric(
    "faircall_user_wait_seconds",
    Kind.SUMMARY,
    "From arrival until a handler claimed the call, of the watched users, since they are watched.",
    _USER,
    "seconds",
)

# alarms
ALARM = _gauge("faircall_alarm", "1 while the alarm of that rule is active.", ("port", "rule"))
ALARMS = _counter(
    "faircall_alarms",
    "Alarms raised, by rule, since the admin process started.",
    ("port", "rule"),
)

# processes
HANDLERS = _gauge("faircall_handlers", "Handlers by state.", ("port", "state"))
RUNNING = _gauge("faircall_running_calls", "Calls that handlers run now.")
BUSY = _counter("faircall_handler_busy_seconds", "Spent in methods.", ("port",), "seconds")
RESTARTS = _counter(
    "faircall_process_restarts", "Processes started in the place of another.", ("port", "role")
)
CPU = _counter(
    "faircall_process_cpu_seconds",
    "Processor time, of all processes that had the place, as far as the admin process saw them.",
    _PROCESS,
    "seconds",
)
RSS = _gauge(
    "faircall_process_resident_bytes",
    "Resident memory, with what of the segment was touched.",
    _PROCESS,
    "bytes",
)
REAPED = _counter("faircall_reaped_processes", "Dead processes that were cleaned up after.")
SWEEPS = _counter("faircall_sweeps", "Decays of the costs.")
MISSED_SWEEPS = _counter("faircall_missed_sweeps", "Decays that came too late, and were left out.")

# connections, memory, the server
CONNECTIONS = _gauge("faircall_connections", "Open connections.")
CONNECTED = _counter("faircall_connections_adopted", "Connections ever taken up by a reader.")
CLOSED = _counter(
    "faircall_connections_closed",
    "By the server: refused at once, slow, protocol, backoff.",
    ("port", "reason"),
)
RECEIVED = _counter("faircall_received_bytes", "Bytes read from clients.", ("port",), "bytes")
SENT = _counter("faircall_sent_bytes", "Bytes written to clients.", ("port",), "bytes")
SEGMENT = _gauge("faircall_segment_bytes", "The shared memory of a port.", ("port",), "bytes")
SLOTS = _gauge("faircall_slots", "Places for calls, by state.", ("port", "state"))
PAGES = _gauge("faircall_pages", "Places for payload, by their size.", ("port", "page_bytes"))
FREE_PAGES = _gauge("faircall_free_pages", "Of them, those that are free.", ("port", "page_bytes"))
PHASE = _gauge("faircall_phase", "1 for the phase that the server is in.", ("phase",))
UPTIME = _gauge("faircall_uptime_seconds", "Since the server was made.", (), "seconds")
BUILD = Metric(
    "faircall_build", Kind.INFO, "What runs.", ("version", "python_version", "queue", "scheduler")
)

METRICS: Final = tuple(value for value in list(globals().values()) if isinstance(value, Metric))
