"""A reader process: connections in, calls into the queue, answers back.

`reader` is the loop. In: `clients` (sockets) -> `turns` -> `admission` -> `callbook` (slots) ->
`enqueuer`. Out: `replies` -> `exchange` -> `connection`. Giving up: `withdrawals`, `timeouts`.
"""
