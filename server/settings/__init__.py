"""How a setting is declared, read from flags, environment and files, checked and shown."""
