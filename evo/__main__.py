"""``python -m evo`` is ``kernel-evo``."""

from evo.cli.main import run

if __name__ == "__main__":
    run()
