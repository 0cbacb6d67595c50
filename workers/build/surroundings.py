"""Environment variables that affect the output of a compiler."""

import os

_OF_C = (
    *("CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH", "LIBRARY_PATH", "COMPILER_PATH", "GCC_EXEC_PREFIX"),
    *("LD_RUN_PATH", "SOURCE_DATE_EPOCH", "SDKROOT", "MACOSX_DEPLOYMENT_TARGET", "CCC_OVERRIDE_OPTIONS"),
)
_OF_NVCC = ("NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS", "NVCC_CCBIN")


def surroundings(*, nvcc: bool = False) -> str:
    """Return the environment variables that affect compilers, as one text with ``NAME=value`` for each variable that is
    set.

    Args:
     nvcc: True to include the variables that affect only nvcc.
    """
    names = (*_OF_C, *_OF_NVCC) if nvcc else _OF_C
    return "".join(f" {name}={os.environ[name]}" for name in names if name in os.environ)
