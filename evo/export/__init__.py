"""Export of a champion: compose its folder and the report on it. This package writes no files."""
