"""Processes that may end at any moment, seen by psutil without an exception."""

import psutil


def arguments_of(process: psutil.Process) -> list[str]:
    """Return the command line of a process; empty if it has ended, also if nobody has waited for it yet."""
    try:
        return process.cmdline()
    except (psutil.NoSuchProcess, psutil.ZombieProcess):
        return []


def ended(process: psutil.Process) -> bool:
    """Return True if a process is gone or a zombie."""
    try:
        return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def running_with(argument: str, processes: list[psutil.Process]) -> list[psutil.Process]:
    """Return those of the processes whose command line has this argument."""
    return [each for each in processes if argument in arguments_of(each)]
