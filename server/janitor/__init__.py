"""The janitor process: costs decay into levels (`sweep`), idle identities go (`eviction`), methods'
times are followed (`method_times`), and what the dead left is settled (`janitor`, `reaps`)."""
