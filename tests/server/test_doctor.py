"""`faircall doctor`: the files of /proc and /sys as they are on several kinds of machines."""

from __future__ import annotations

import json
import resource
from pathlib import Path

import pytest

from faircall.server.cli import main
from faircall.server.doctor import machine, python
from faircall.server.doctor.findings import Finding, Patient, State, lines
from faircall.server.doctor.shared_memory import runtime_folder

from ..conftest import Load


def patient(load: Load, root: Path, files: dict[str, str], text: str = "") -> Patient:
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    return Patient(load(text), root)


def states(findings: list[Finding]) -> dict[str, State]:
    return {each.check: each.state for each in findings}


def test_a_slow_clock_is_named_with_what_is_available(load: Load, tmp_path: Path) -> None:
    sources = {"current_clocksource": "xen\n", "available_clocksource": "xen tsc hpet\n"}
    files = {f"{machine.CLOCK_FOLDER}/{name}": text for name, text in sources.items()}
    (found,) = machine.clock(patient(load, tmp_path, files))
    assert found.state is State.WARN
    assert "xen" in found.what
    assert "tsc hpet" in found.what


def test_a_part_of_a_processor_and_too_many_handlers_are_warnings(
    load: Load, tmp_path: Path
) -> None:
    files = {"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "50000 100000\n"}
    found = list(machine.processors(patient(load, tmp_path, files, "[handlers]\ncount = 9\n")))
    expected = {"processors": State.OK, "quota": State.WARN, "handlers": State.WARN}
    assert states(found) == expected
    assert "0.5 of a processor" in found[1].what


def test_open_files_have_to_do_for_the_connections(load: Load, tmp_path: Path) -> None:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    text = "[server]\nreaders = 2\nmax-connections = {}\n"
    fits = 2 * (soft - machine.OWN_FILES)
    (enough,) = machine.files(patient(load, tmp_path, {}, text.format(fits)))
    (too_few,) = machine.files(patient(load, tmp_path, {}, text.format(fits + 1)))
    assert (enough.state, too_few.state) == (State.OK, State.FAIL)
    assert f"{soft + 1} needed" in too_few.what
    assert "LimitNOFILE" in too_few.do


def test_what_the_kernel_says_about_memory_and_backlog(load: Load, tmp_path: Path) -> None:
    files = {
        "proc/sys/vm/overcommit_memory": "2\n",
        "proc/sys/vm/swappiness": "60\n",
        "proc/swaps": "Filename Type Size Used Priority\n/swapfile file 1 0 -2\n",
        "proc/sys/net/core/somaxconn": "128\n",
    }
    sick = patient(load, tmp_path, files)
    assert states([*machine.memory(sick), *machine.backlog(sick)]) == {
        "overcommit": State.WARN,
        "swap": State.WARN,
        "backlog": State.WARN,
    }


@pytest.mark.parametrize(
    ("config", "prefix", "debug", "state"),
    [
        ({"CONFIG_ARGS": "'--enable-optimizations'"}, "/opt/py", False, State.OK),
        ({"PY_CORE_LDFLAGS": "-flto"}, "/opt/py", False, State.OK),
        ({"CONFIG_ARGS": "'--enable-shared'"}, "/usr", False, State.OK),
        ({"CONFIG_ARGS": "'--enable-shared'"}, "/opt/py", False, State.WARN),
        ({"CONFIG_ARGS": "'--enable-optimizations'"}, "/opt/py", True, State.WARN),
    ],
)
def test_how_python_was_built(
    config: dict[str, str], prefix: str, debug: bool, state: State
) -> None:
    (found,) = python._build(config.get, prefix, debug)
    assert found.state is state


def test_more_threads_than_processors_are_a_warning() -> None:
    assert python._blas({}, 8, 1).state is State.OK
    assert python._blas({"OMP_NUM_THREADS": "1"}, 8, 1).state is State.OK
    assert python._blas({"OPENBLAS_NUM_THREADS": "8"}, 8, 1).state is State.WARN


def test_a_folder_that_others_may_write_does_not_do(load: Load, tmp_path: Path) -> None:
    place = tmp_path / "run"
    place.mkdir()
    text = f'[admin]\nsocket = "{place}/x.sock"\n'
    (fine,) = runtime_folder(patient(load, tmp_path, {}, text))
    place.chmod(0o777)
    (open_to_all,) = runtime_folder(patient(load, tmp_path, {}, text))
    assert (fine.state, open_to_all.state) == (State.OK, State.FAIL)
    assert open_to_all.do == f"chmod 700 {place}"


def test_the_command_says_what_to_do_and_ends_with_1_if_it_will_not_work(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "faircall.toml"
    file.write_text(f'[admin]\nsocket = "{tmp_path}/x.sock"\n')
    assert main(["doctor", "--config", str(file)]) == 0
    said = capsys.readouterr().out
    assert "mutexes" in said
    assert "python" in said
    tmp_path.chmod(0o777)
    assert main(["doctor", "--config", str(file), "--json"]) == 1
    answer = json.loads(capsys.readouterr().out)
    assert answer["works"] is False
    assert [each["check"] for each in answer["findings"] if each["state"] == "fail"] == ["folder"]


def test_a_finding_and_what_to_do_are_two_lines() -> None:
    found = Finding("clock", State.WARN, "slow", "buy another")
    assert list(lines([found])) == ["warn  clock         slow", " " * 20 + "-> buy another"]
