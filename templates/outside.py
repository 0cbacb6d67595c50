"""Refuse sources of variants that read files outside the family's folder and the compiler's headers.

Compilers print lines of what they include, so an untrusted source could reveal files of the worker's machine. The check
covers all ways to name a file. It cannot resolve a name that is built by macros, so an include by a macro is refused as
well.
"""

import re
from collections.abc import Iterator

_SPLICED = re.compile(r"\\[ \t]*\r?\n")
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_INCLUDE = re.compile(r"^[ \t]*(?:#|%:|\?\?=)[ \t]*(?:include|include_next|import|embed)\b([^\n]*)", re.MULTILINE)
_NAMED = re.compile(r'\s*(?:"([^"]*)"|<([^>]*)>)')
_ASSEMBLED = re.compile(r"\.\s*inc(?:bin|lude)\b|#\s*pragma\s+(?:GCC\s+)?dependency|__has_(?:include|embed)")
_FLAG = re.compile(r"(?:^|[=,])(?:-I|-L|-include|-isystem|-iquote|-idirafter|-imacros)?=?(?:/|~|@)|\.\.|^-W[pla],|^-X")


def outside(text: str) -> str | None:
    """Return why a C or CUDA source may read files elsewhere; None if it does not."""
    plain = _COMMENT.sub(" ", _SPLICED.sub("", text))
    return next(_faults(plain), None)


def outside_flag(flag: str) -> bool:
    """Return True if a compiler flag names a path outside the family's folder, or passes one to another tool."""
    return _FLAG.search(flag) is not None


def _faults(plain: str) -> Iterator[str]:
    for directive in _INCLUDE.finditer(plain):
        named = _NAMED.match(directive[1])
        if named is None:
            yield f"`{directive[0].strip():.80}` names no file: include files by their names, not by macros"
            continue
        name = named[1] or named[2] or ""
        if name.startswith(("/", "~")) or ".." in name.split("/") or "\\" in name or ":" in name:
            yield f"`{directive[0].strip():.80}` names a file outside the family: put headers next to the source"
    if (found := _ASSEMBLED.search(plain)) is not None:
        yield f"`{found[0].strip():.80}` reads or looks for files: a variant's source cannot"
