"""Commands that can be pasted into a shell."""

import shlex


def command(*words: object) -> str:
    """Return ``kernel-evo`` with these words, quoted for a shell."""
    return shlex.join(["kernel-evo", *map(str, words)])
