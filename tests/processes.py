"""Process queries with psutil that raise no exception if a process has ended."""

import psutil


def arguments_of(process: psutil.Process) -> list[str]:
    """Return the command line of a process; empty if the process has ended or is a zombie."""
    try:
        arguments: list[str] = process.cmdline()
    except (psutil.NoSuchProcess, psutil.ZombieProcess):
        return []
    return arguments


def ended(process: psutil.Process) -> bool:
    """Return True if a process is gone or a zombie."""
    try:
        return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def running_with(argument: str, processes: list[psutil.Process]) -> list[psutil.Process]:
    """Return the processes whose command line has this argument."""
    return [each for each in processes if argument in arguments_of(each)]
