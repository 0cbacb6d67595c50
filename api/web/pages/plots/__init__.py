"""Plots of a search. Each plot consists of data for Plotly, a summary, and a table of the same values."""
