"""Commands as people paste them into a shell."""

import shlex


def command(*words: object) -> str:
    """``kernel-evo`` with these words, each quoted where a shell would take it apart."""
    return shlex.join(["kernel-evo", *map(str, words)])
