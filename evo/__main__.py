"""Run ``kernel-evo`` as ``python -m evo``."""

from evo.cli.main import run

if __name__ == "__main__":
    run()
