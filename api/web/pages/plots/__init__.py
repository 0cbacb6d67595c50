"""Plots of a search: Plotly figures as data, each with a summary and a table of the same figures."""
