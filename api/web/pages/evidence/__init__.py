"""Page and downloads of a champion's evidence."""
