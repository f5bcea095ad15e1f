"""Threads of numerical libraries."""

from __future__ import annotations

from faircall.server.supervisor.blas import VARIABLES, limit_blas_threads


def test_all_libraries_are_told() -> None:
    environ: dict[str, str] = {}
    assert limit_blas_threads(2, environ) == list(VARIABLES)
    assert environ == dict.fromkeys(VARIABLES, "2")


def test_what_the_user_has_set_stays() -> None:
    environ = {"MKL_NUM_THREADS": "7"}
    limit_blas_threads(1, environ)
    assert environ["MKL_NUM_THREADS"] == "7"
    assert environ["OPENBLAS_NUM_THREADS"] == "1"


def test_who_sets_the_variable_that_all_obey_has_decided_for_all() -> None:
    environ = {"OMP_NUM_THREADS": "3"}
    assert limit_blas_threads(1, environ) == []
    assert environ == {"OMP_NUM_THREADS": "3"}
