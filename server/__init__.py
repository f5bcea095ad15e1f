"""The daemon: command line, configuration, supervisor, acceptor, readers, janitor, admin."""
