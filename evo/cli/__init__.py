"""The command line. Only this part of evo may import the packages `api`, `db`, `workers` and `templates`.

The modules import no large library (NumPy, httpx, SQLAlchemy, FastAPI) at the top, so that ``--help`` responds quickly.
"""
