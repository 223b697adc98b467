"""The documents: their commands, the output that they show, and the site made of them."""
