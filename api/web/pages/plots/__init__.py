"""Plots of a search: Plotly figures as plain data, each with a summary and a table of the same content."""
