"""Names of the headers of the C and C++ standard libraries."""

_C = frozenset(
    """
    assert complex ctype errno fenv float inttypes iso646 limits locale math setjmp signal stdalign stdarg stdatomic
    stdbool stddef stdint stdio stdlib string tgmath threads time uchar wchar wctype
    """.split()  # noqa: SIM905 - as a list it is three times as long
)
_CPP = frozenset(
    """
    algorithm any array atomic barrier bit bitset charconv chrono codecvt compare complex concepts condition_variable
    coroutine deque exception execution expected filesystem format forward_list fstream functional future generator
    initializer_list iomanip ios iosfwd iostream istream iterator latch limits list locale map mdspan memory
    memory_resource mutex new numbers numeric optional ostream print queue random ranges ratio regex scoped_allocator
    semaphore set shared_mutex source_location span sstream stack stacktrace stdexcept stop_token streambuf string
    string_view strstream syncstream system_error thread tuple type_traits typeindex typeinfo unordered_map
    unordered_set utility valarray variant vector version
    """.split()  # noqa: SIM905 - as a list it is three times as long
)
BUILT_IN = frozenset({"math.h", "cmath", "stdio.h", "cstdio", "string.h", "cstring", "stdlib.h", "cstdlib"})
"""Headers whose device functions, such as ``printf`` and ``memcpy``, NVRTC declares without an include."""


def is_standard(name: str) -> bool:
    """Return True for a header of the C or C++ standard library."""
    return is_only_cpp(name) or (name.removesuffix(".h") in _C and name.endswith(".h"))


def is_only_cpp(name: str) -> bool:
    """Return True for a header of the C++ standard library that C lacks."""
    return name in _CPP or (name.startswith("c") and name[1:] in _C)
