"""`faircall bench`: scenarios, the generator that runs them, what is made of the figures."""
