"""The suite notices every mutant of shm/: minutes (`make chaos`)."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from .mutant import Mutant
from .mutants import MUTANTS, NOTICED, PASSES, SOURCES, copy_suite, run_suite


@pytest.mark.stress
def test_the_suite_passes_without_a_mutant(tmp_path: Path) -> None:
    copy_suite(tmp_path, None)
    status, said = run_suite(tmp_path)
    assert status == PASSES, said
    command = [sys.executable, "-c", "import faircall.shm; print(faircall.shm.__file__)"]
    where = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert where.stdout.startswith(str(tmp_path)), "another package was tested"


@pytest.mark.stress
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.rule)
def test_the_suite_notices(mutant: Mutant, tmp_path: Path) -> None:
    copy_suite(tmp_path, mutant)
    status, said = run_suite(tmp_path)
    print(status, said.strip().splitlines()[-1:])
    assert status != PASSES, f"nobody noticed that this rule is broken: {mutant.rule}"
    assert status in NOTICED, f"the suite could not be run: {said}"


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.rule)
def test_a_mutant_changes_the_source(mutant: Mutant) -> None:
    source = (SOURCES / mutant.file).read_text()
    assert mutant.applied(source) != source
