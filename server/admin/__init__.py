"""The admin process and what `faircall stats` shows: read from shared memory without a lock."""
