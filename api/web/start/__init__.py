"""The form that starts a search: what it offers, what was typed into it, and what is wrong with that."""
