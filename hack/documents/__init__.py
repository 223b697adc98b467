"""The documents: their commands, the output that they show, and their site."""
