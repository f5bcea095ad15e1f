"""The supervisor: life cycle (`serve`, `lifecycle`, `supervisor`), children (`roles`, `children`,
`roster`, `restarts`, `watch`, `ending`) and what a death leaves to be told (`autopsy`, `stacks`).

Takes no lock in the segment once children exist, and runs no user code.
"""
