"""Page that shows a champion's evidence, and downloads of the evidence."""
