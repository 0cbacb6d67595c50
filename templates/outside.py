"""Rejects variants whose sources read files other than the family's and the compiler's headers.

Compilers print lines of the files that they include, so an untrusted source could reveal files of the worker's machine.
The check covers all ways to name a file. An include of a macro is refused, because the check cannot determine the file
that the macro names. Comments and strings are searched like code. Only a complete preprocessor can recognise them
reliably, and a string that looks like the start of a comment could otherwise hide a directive. The search for each
pattern takes linear time.

Variants may use only listed compiler flags, because compilers have hundreds of options that read, write or run files.
"""

import re
from collections.abc import Iterator, Sequence

from evo.family.source.flags import options

_SPLICED = re.compile(r"\\[ \t\v\f]*\r?\n")
_INCLUDE = re.compile(r"(?:#|%:)[ \t\v\f]*(?:include|include_next|import|embed)\b([^\n]*)")
_NAMED = re.compile(r'\s*(?:"([^"]*)"|<([^>]*)>)')
_ASSEMBLED = re.compile(r'\.\s*inc(?:bin|lude)\b|\bdependency\s+\\*["<]|__has_(?:include|embed)')
_HIDDEN = re.compile(r"(?:#|%:)[ \t\v\f]*/\*|\?\?[=/]")
"""Matches a comment in a directive, and trigraphs for ``#`` and the backslash."""

_CODE = (
    r"(?:no-)?(?:fast-math|finite-math-only|associative-math|reciprocal-math|unsafe-math-optimizations|math-errno"
    r"|trapping-math|signed-zeros|signaling-nans|rounding-math|fp-contract|excess-precision|single-precision-constant"
    r"|cx-[a-z-]+|tree-[a-z-]+|ipa-[a-z-]+|loop-[a-z-]+|sched[a-z-]*|align-[a-z]+|split-[a-z-]+|peel-loops"
    r"|unroll-(?:all-)?loops|unswitch-loops|move-loop-[a-z]+|prefetch-loop-arrays|vectorize|slp-vectorize"
    r"|(?:vect|simd)-cost-model|modulo-sched[a-z-]*|graphite[a-z-]*|gcse[a-z-]*|ivopts|web|tracer|rename-registers"
    r"|if-conversion2?|inline[a-z-]*|omit-frame-pointer|strict-(?:aliasing|overflow|enums)|wrapv|openmp(?:-simd)?"
    r"|exceptions|rtti|stack-protector|visibility|common|plt|semantic-interposition|builtin|merge-[a-z-]+"
    r"|delete-null-pointer-checks|(?:asynchronous-)?unwind-tables|permissive|signed-char|unsigned-char|short-enums"
    r"|template-depth|constexpr-[a-z-]+|max-errors|concepts|coroutines|PIC|pic|lto)(?:=[\w.,+-]+)?"
)
"""Accepted options after ``-f``. These options change the generated code or the language, and do not name files."""

_ACCEPTED = re.compile(
    rf"-O(?:[0-3sgz]|fast)?|-f{_CODE}|-m(?!llvm|specs|relax-cmpxchg)[a-z0-9.-]+(?:=[\w.,+-]+)?|-?-std=[\w+]+"
    r"|-W(?:[a-z][a-z0-9+-]*(?:=[\w-]+)?)?|-w|-pedantic|-g[0-3]?|-pipe|-p?thread"
    r"|(?:-D|-U|--define-macro=|--undefine-macro=)[A-Za-z_]\w*(?:=.*)?"
    r"|(?:-I|--include-path=)(?!/|~)(?!.*\.\.)[\w./+-]+|-l[\w+.-]+"
    r"|--?(?:use_fast_math|extra-device-vectorization|restrict|lineinfo|generate-line-info|default-device|minimal"
    r"|device-as-default-execution-space|disable-warnings|expt-[a-z-]+|extended-lambda|no-exceptions|device-debug"
    r"|dopt(?:=on)?|builtin-[a-z-]+=(?:true|false))"
    r"|--?(?:ftz|prec-sqrt|prec-div|fmad|maxrregcount|split-compile|diag-(?:suppress|warn|error)|ptxas-options"
    r"|Xptxas|restrict)=[\w,=-]+",
    re.DOTALL,
)
_PAIRED = ("-D", "-U", "-I", "-l")
"""Options whose value may be a separate flag."""


def outside(text: str) -> str | None:
    """Return the reason why a C or C++ source may read files outside the family, or None if it cannot."""
    return next(_faults(_SPLICED.sub("", text)), None)


def outside_flag(flags: Sequence[str]) -> str | None:
    """Return the first compiler flag that variants may not use, or None if all flags are accepted."""
    for option in options(flags):
        paired = len(option.flags) == 2 and option.name in _PAIRED
        word = f"{option.name}{option.value}" if paired else " ".join(option.flags)
        if not _ACCEPTED.fullmatch(word):
            return " ".join(option.flags)
    return None


def _faults(plain: str) -> Iterator[str]:
    for directive in _INCLUDE.finditer(plain):
        named = _NAMED.match(directive[1])
        if named is None:
            yield f"`{directive[0].strip():.80}` does not name a file; include files by their names, not by macros"
            continue
        name = named[1] or named[2] or ""
        if name.startswith(("/", "~")) or ".." in name.split("/") or "\\" in name or ":" in name:
            yield f"`{directive[0].strip():.80}` names a file outside the family; put headers next to the source"
    if (found := _ASSEMBLED.search(plain)) is not None:
        yield f"`{found[0].strip():.80}` reads or searches for files, which variants may not do; remove it"
    if (found := _HIDDEN.search(plain)) is not None:
        yield f"`{found[0].strip():.80}` can hide a directive; write it without the comment or trigraph"
