"""A champion taken away: its folder, and the report on it. Nothing is written here, only composed."""
