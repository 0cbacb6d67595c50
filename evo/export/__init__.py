"""Export of a champion: composes the files of its folder and the report. This package writes no files."""
