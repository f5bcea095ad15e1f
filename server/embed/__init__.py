"""A server as a part of another program: `running` with sockets, `pool` without any.

The daemon is a fresh interpreter, never a fork of the host: what the host has imported, locked or
started does not get into it. It ends with the host, however that ends.
"""
