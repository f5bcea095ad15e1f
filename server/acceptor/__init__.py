"""Listening sockets (`listeners`, `unix_listener`) and the process that hands connections over."""
