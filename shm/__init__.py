"""Shared memory: the layout, the mapped segment, robust locks, and the call table that lives there.

Start at `layout` (every word) and `states` (who may change which). `table` is the cut: a few
batch operations on integers that readers and handlers share. Knows nothing of sockets, JSON or
policy, and imports neither `server` nor `workers`.
"""
