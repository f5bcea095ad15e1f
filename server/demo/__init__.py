"""`faircall demo`: a heavy and a light user, in a plain and in a fair queue, on real servers."""
