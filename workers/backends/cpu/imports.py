"""Reads the dynamic symbols of a shared library, and finds imported symbols that a CPU kernel must not use."""

import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

NO_KERNEL_MAY = (
    "a kernel may only compute, with functions for mathematics, memory, threads and OpenMP; it must not inspect its "
    "process, or use files, other processes or the network"
)

_FORBIDDEN = re.compile(
    r"""
    dl(open|mopen|sym|vsym|addr1?|info|_iterate_phdr) | _dl_.* | _r_debug
  | (f?re)?open(at|dir)?(64)?(_2)? | f(re)?open(64)? | fdopen(dir)? | creat(64)? | mkfifoat?
  | mknodat? | popen | tmpfile(64)?
  | p?(read|write)v?(64)?(v2)? | __(p?read|p?write)(64)?(_chk)?
  | sendfile(64)? | splice | readlink(at)? | readdir(64)?(_r)?
  | fcntl(64)? | ioctl | dup[23]? | pipe2? | (e)?poll.* | select | opendir | scandir(64)?
  | socket(pair)? | connect | bind | listen | accept4? | send(to|m?msg)? | recv(from|m?msg)?
  | kill(pg)? | tgkill | sigqueue | pthread_(kill|sigqueue)
  | sig(action|nal|set|altstack|procmask|pending|suspend|interrupt|waitinfo|timedwait)?
  | __sysv_signal | bsd_signal | pthread_sigmask | signalfd | ptrace | process_vm_(readv|writev)
  | setitimer | alarm | ualarm | timer_(create|settime) | timerfd_.* | prctl | arch_prctl | personality | syscall
  | mprotect | pkey_.* | mremap | remap_file_pages | userfaultfd | memfd_create | shm(_open|get|at|dt|ctl) | sem_open
  | sched_(set.*|getaffinity) | pthread_(attr_)?[gs]etaffinity_np | pthread_setschedparam | pthread_setschedprio
  | nice | setpriority
  | setrlimit(64)? | prlimit(64)? | set(res|re|e)?[ug]id | setns | unshare | chroot | mount
  | environ | _+environ | (__)?(secure_)?getenv | program_invocation_(short_)?name | __progname(_full)?
  | get(e|res)?[ug]id | getppid | getp?gid | getpgrp | getsid | getgroups | getlogin(_r)? | getpw.*
  | gethostname | uname | getauxval | getr(limit|usage)(64)? | _*([atmlh]|hw|ub)san_.* | __sanitizer_.*
  | exec(l|le|lp|v|ve|vp|vpe) | fexecve | system | posix_spawnp?
  | clone3? | _?v?[fF]ork | daemon | forkpty | wait(3|4|id|pid)? | setsid | setpg(id|rp)
  | mlock(all|2)? | munlock(all)? | umask | f?chdir | sync(fs)? | flock | lockf(64)? | mallopt | (set|use)locale
  | remove | rename(at2?)? | (un)?link(at)? | symlink(at)? | mkdir(at)? | rmdir | f?truncate(64)? | utimensat | futimens
  | faccessat | eaccess | euidaccess | (l|f)?stat(at)?(64)? | statx | __[lf]?xstat(at)?(64)? | f?statv?fs(64)?
  | [fl]?chmod(at)? | fchmodat | [fl]?chown | fchownat | realpath | canonicalize_file_name | getcwd
  | get_current_dir_name
  | glob(64)? | n?ftw(64)? | fts_.* | wordexp | aio_.* | lio_listio(64)? | mq_.* | (shm|sem)_unlink
  | get(host|net|proto|serv)by.* | get(addr|name)info | getifaddrs | [gs]etmntent(_r)? | getloadavg | sysinfo
  | _rtld_global(_ro)? | __libc_(stack_end|argv|enable_secure) | backtrace(_symbols(_fd)?)? | s?profil
  | putenv | setenv | unsetenv | clearenv | LD_.* | process_madvise
    """,
    re.VERBOSE,
)
"""Functions and variables that a kernel must not import. `access` is allowed, because it only shows whether a file
exists, and libraries use it to find their configuration.
"""

_DYNSYM = 11
_BINDINGS = (1, 2)
"""Bindings of symbols that are visible to other libraries: global and weak."""

_CODE = (0, 2, 10)
"""Types of symbols that can be called: no type (assembly code), function, and indirect function (IFUNC)."""


@dataclass(frozen=True, kw_only=True)
class Symbol:
    """One entry of a library's dynamic symbol table.

    Attributes:
        defined: True if the library defines the symbol, False if it imports it.
        callable: True for functions and symbols without a type (assembly code), False for data.
    """

    name: str
    defined: bool
    callable: bool


def is_elf(image: bytes) -> bool:
    """Return True if the file is a 64-bit little-endian ELF file."""
    return image[:6] == b"\x7fELF\x02\x01"


def symbols(image: bytes) -> Iterator[Symbol]:
    """Yield the global and weak dynamic symbols of an ELF file. Yield nothing for other formats."""
    if not is_elf(image):
        return
    table, size, count = struct.unpack_from("<Q", image, 40)[0], *struct.unpack_from("<HH", image, 58)
    sections = [struct.unpack_from("<IIQQQQIIQQ", image, table + number * size) for number in range(count)]
    for _, kind, _, _, offset, bytes_, link, _, _, entry in sections:
        if kind != _DYNSYM:
            continue
        names = sections[link][4]
        for at in range(offset, offset + bytes_, entry):
            name, info, _, section = struct.unpack_from("<IBBH", image, at)
            if name and info >> 4 in _BINDINGS:
                text = image[names + name : image.index(b"\0", names + name)].decode(errors="replace")
                yield Symbol(name=text, defined=section != 0, callable=info & 15 in _CODE)


def forbidden_imports(library: Path) -> list[str]:
    """Return the sorted names of forbidden functions and variables that an ELF library imports.

    The list is empty for other formats.
    """
    needed = (each.name for each in symbols(library.read_bytes()) if not each.defined)
    return sorted({name for name in needed if _FORBIDDEN.fullmatch(name)})
