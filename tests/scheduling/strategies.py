"""What the property tests of this folder share."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st

unhurried = settings(deadline=None)

longs = st.integers(-(2**63), 2**63 - 1)
costs = st.one_of(st.integers(0, 2000), st.integers(0, 2**63 - 1))
factors = st.floats(0.01, 0.99)
shares = st.floats(-0.5, 1.5)
