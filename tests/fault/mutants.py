"""Do the tests bite? Each mutant breaks one rule of shm/, and the suite must notice."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import faircall
from faircall.shm.mutex import BROKEN_SECTION

from . import mutants_express, mutants_other, mutants_table
from .mutant import Mutant

MUTANTS = [*mutants_table.MUTANTS, *mutants_express.MUTANTS, *mutants_other.MUTANTS]
SOURCES = Path(faircall.__file__).parent / "shm"
TESTS = Path(__file__).parents[1]
PATIENCE_S = 300
EVERY_STORE = "FAIRCALL_TESTS_EVERY_STORE"  # set: test_every_store.py leaves none of them out
PASSES, FAILS, HANGS = 0, 1, -1  # exit statuses; others say that the suite could not be run
NOTICED = (FAILS, HANGS, BROKEN_SECTION)  # a broken section ends the whole suite
SUITE = (
    "tests/shm",
    "tests/fault/test_every_store.py",
    "tests/fault/test_model.py",
    "tests/fault/test_kills_at_any_moment.py",
    "tests/fault/test_stopped_owner.py",
)
_LEFT_OUT = shutil.ignore_patterns("*.pyc")


def copy_suite(folder: Path, mutant: Mutant | None) -> None:
    """The package's lowest layers and their tests in `folder`, the one changed by `mutant`."""
    package = folder / "faircall"
    for layer in ("shm", "scheduling", "workers"):
        shutil.copytree(SOURCES.parent / layer, package / layer, ignore=_LEFT_OUT)
    shutil.copy(SOURCES.parent / "__init__.py", package)
    for name in ("shm", "fault", "workers"):
        shutil.copytree(TESTS / name, folder / "tests" / name, ignore=_LEFT_OUT)
    shutil.copy(TESTS / "heap.py", folder / "tests")
    shutil.copy(TESTS.parent / "pyproject.toml", folder)
    if mutant is not None:
        path = package / "shm" / mutant.file
        path.write_text(mutant.applied(path.read_text()))


def run_suite(folder: Path) -> tuple[int, str]:
    """The exit status of the suite in `folder`, HANGS if it had to be ended, and its last words."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "--tb=line", "-p", "no:cacheprovider"]
    command += ["-p", "no:faircall"]  # which the copy does not have
    process = subprocess.Popen(
        [*command, "-m", "not stress", *SUITE],
        cwd=folder,
        env=os.environ | {EVERY_STORE: "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        said, _ = process.communicate(timeout=PATIENCE_S)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        said, _ = process.communicate()
        return HANGS, said[-500:]
    return process.returncode, said[-500:]
