"""Pages that list the champions and roll one back."""
