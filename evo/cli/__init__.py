"""The command line. Only this part of evo may import the packages `api`, `db`, `workers` and `templates`.

The modules of the commands import large libraries (NumPy, httpx, SQLAlchemy, FastAPI) only within functions, so that
``--help`` responds quickly.
"""
