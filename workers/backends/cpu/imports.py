"""System functions that a CPU kernel imports, read from its shared library."""

import re
from pathlib import Path

from workers.backends.cpu.symbols import symbols

NO_KERNEL_MAY = (
    "a kernel computes; it may call functions of mathematics, memory, threads and OpenMP, "
    "and must not look into its process or reach beyond it"
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
  | putenv | setenv | unsetenv | clearenv | LD_.* | process_madvise
    """,
    re.VERBOSE,
)


def forbidden_imports(library: Path) -> list[str]:
    """Return the forbidden functions that a library imports, sorted; none if it is no ELF file."""
    needed = (each.name for each in symbols(library.read_bytes()) if not each.defined)
    return sorted({name for name in needed if _FORBIDDEN.fullmatch(name)})
