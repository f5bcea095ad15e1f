"""Handler processes: the service, the call context and the JSON-RPC messages."""
