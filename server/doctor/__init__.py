"""`faircall doctor`: what of machine, Python and settings will not work, or not well."""
