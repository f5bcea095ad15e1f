"""Threads of numerical libraries: each handler is a process, and they share the processors.

OpenBLAS, MKL and OpenMP start a thread per processor in *every* process unless told otherwise; a
machine then runs handlers x processors threads, slower than one. They read these variables once,
when they are loaded: so the command line sets them before anything imports numpy.
"""

from __future__ import annotations

import os
from collections.abc import MutableMapping

VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "BLIS_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
)


def limit_blas_threads(count: int, environ: MutableMapping[str, str] = os.environ) -> list[str]:
    """Set each of `VARIABLES` that the user has not set; returns those that were set.

    Who sets OMP_NUM_THREADS has decided for all of them: the libraries fall back to it.
    """
    if environ.get("OMP_NUM_THREADS"):
        return []
    chosen = [name for name in VARIABLES if not environ.get(name)]
    environ.update(dict.fromkeys(chosen, str(count)))
    return chosen
