"""The command line. It is the only part of evo that may import the other packages.

Modules here import nothing heavy at the top (no NumPy, httpx, SQLAlchemy or FastAPI): ``--help`` answers at once.
"""
