"""Composes the files of an exported champion, including the report. This package writes no files."""
