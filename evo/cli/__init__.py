"""The command line. It is the only part of evo that may import the other packages.

Modules here import no large library at the top (no NumPy, httpx, SQLAlchemy or FastAPI), so that ``--help`` answers at
once.
"""
