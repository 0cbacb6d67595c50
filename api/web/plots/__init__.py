"""Plots of a search: figures for Plotly as plain data, each with a summary and a table that say the same."""
