"""Runs a command in a sandbox: it can access only given folders, and neither the network nor other processes.

This module is run as a script: ``python -I -S confine.py --read PATH … --list FOLDER … --write FOLDER … -- COMMAND``.
In a ``--list`` folder, the command can read only the names of files. ``--kernel yes`` is used for candidates that are
built with sanitizers: their address space is not limited, because sanitizers reserve terabytes, but they must not send
signals. Without a command, the script prints the sandbox mechanisms that work on this system.

Landlock restricts files, ports and signals (https://docs.kernel.org/userspace-api/landlock.html), and a seccomp filter
refuses sockets and system calls on other processes. If the system has no Landlock, bubblewrap (``--bubblewrap PATH``)
runs the command in a file system that contains only the given folders.
"""

import ctypes
import os
import platform
import signal
import stat
import struct
import sys

LANDLOCK, SECCOMP, BUBBLEWRAP = "Landlock", "seccomp", "bubblewrap"
_LEAST_ABI = 3
UNCONFINED = 125
"""Exit status if the command was not started, because there is no working sandbox."""

_NETWORK_ABI, _IOCTL_ABI, _SCOPE_ABI = 4, 5, 6
"""First Landlock ABI versions with rules for the network, ioctl and scopes. `_LEAST_ABI` is the first version with a
rule for truncation."""

_CREATE, _ADD, _RESTRICT = 444, 445, 446
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR, _TRUNCATE = 1 << 0, 1 << 1, 1 << 2, 1 << 3, 1 << 14
_READ = _EXECUTE | _READ_FILE | _READ_DIR
_OF_A_FILE = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | 1 << 15
_OWN_PROCESS = "/proc/self"
"""Folder that describes this process, and later the command, which keeps the process id of this script."""

_DEVICES = ("/dev/null", "/dev/zero", "/dev/urandom")

_NUMBERS = {
    "x86_64": (0xC000003E, (41, 101, 310, 311, 165, 321, 250, 425), (62, 200, 234, 129, 297, 424)),
    "aarch64": (0xC00000B7, (198, 117, 270, 271, 40, 280, 219, 425), (129, 130, 131, 138, 240, 424)),
}
"""Audit architecture, and the numbers of socket, ptrace, process_vm_readv and _writev, mount, bpf, keyctl and
io_uring_setup; then those of kill, tkill, tgkill, rt_sigqueueinfo, rt_tgsigqueueinfo and pidfd_send_signal, which
Landlock confines from Linux 6.12 on.
"""

_X32 = 0x40000000
_FILE_BYTES = 1 << 30
_LEAST_MEMORY_BYTES = 8 << 30

_libc = ctypes.CDLL(None, use_errno=True)


def main(arguments: list[str]) -> None:
    """Put this process into a sandbox, and replace it with the command."""
    split = arguments.index("--") if "--" in arguments else len(arguments)
    options, command = arguments[:split], arguments[split + 1 :]
    pairs = list(zip(options[::2], options[1::2], strict=True))
    reads, lists, writes = ([path for name, path in pairs if name == f"--{key}"] for key in ("read", "list", "write"))
    bubblewrap = dict(pairs).get("--bubblewrap")
    kernel = ("--kernel", "yes") in pairs
    if command and sys.platform == "linux":
        _libc.prctl(1, signal.SIGKILL, 0, 0, 0)  # PR_SET_PDEATHSIG: ends the command with its parent process
    _limit(addresses=not kernel)
    if reason := _confine(reads, lists, writes, signals=not kernel):
        if not command:
            print(", ".join(reason))  # noqa: T201
            return
        os.execv(command[0], command)
    if bubblewrap is None:
        sys.exit(UNCONFINED)
    wrapped = [*_bubblewrap(bubblewrap, reads, writes), "--", *(command or ["true"])]
    if command:
        os.execv(bubblewrap, wrapped)
    if os.spawnv(os.P_WAIT, bubblewrap, wrapped) != 0:
        sys.exit(UNCONFINED)
    print(BUBBLEWRAP)  # noqa: T201


def _limit(*, addresses: bool) -> None:
    """Forbid core files, and limit the size of files and, if `addresses` is True, the address space.

    Without the limits, a source could exhaust the disk or the memory.
    """
    import resource

    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for which, most in (
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_FSIZE, _FILE_BYTES),
        *([(resource.RLIMIT_AS, max(_LEAST_MEMORY_BYTES, total // 2))] if addresses else []),
    ):
        hard = resource.getrlimit(which)[1]
        limit = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(which, (limit, limit))


def _confine(reads: list[str], lists: list[str], writes: list[str], *, signals: bool) -> list[str]:
    """Apply Landlock and seccomp to this process.

    Args:
        signals: False to also refuse all system calls that send signals.

    Returns:
        The names of the two mechanisms, or an empty list if one of them is unavailable.
    """
    if sys.platform != "linux" or platform.machine() not in _NUMBERS:
        return []
    abi = _libc.syscall(_CREATE, None, ctypes.c_size_t(0), 1)
    if abi < _LEAST_ABI or _libc.prctl(38, 1, 0, 0, 0) != 0:  # PR_SET_NO_NEW_PRIVS
        return []
    files = (1 << (16 if abi >= _IOCTL_ABI else 15)) - 1
    handled = [files, *([3] if abi >= _NETWORK_ABI else []), *([3] if abi >= _SCOPE_ABI else [])]
    rules = struct.pack(f"={len(handled)}Q", *handled)
    ruleset = _libc.syscall(_CREATE, rules, ctypes.c_size_t(len(rules)), 0)
    if ruleset < 0:
        return []
    for path in reads:
        _allow(ruleset, path, _READ & files)
    for path in lists:
        _allow(ruleset, path, _READ_DIR)
    for path in writes:
        _allow(ruleset, path, files)
    for path in _DEVICES:
        _allow(ruleset, path, (_READ_FILE | _WRITE_FILE) & files)
    if _libc.syscall(_RESTRICT, ruleset, 0) != 0:
        return []
    os.close(ruleset)
    return [LANDLOCK, SECCOMP] if _filter(signals=signals) else []


def _allow(ruleset: int, path: str, rights: int) -> None:
    try:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:  # the path does not exist or cannot be opened
        return
    try:
        if not stat.S_ISDIR(os.fstat(descriptor).st_mode):
            rights &= _OF_A_FILE
        _libc.syscall(_ADD, ruleset, 1, struct.pack("=Qi", rights, descriptor), 0)
    finally:
        os.close(descriptor)


def _filter(*, signals: bool) -> bool:
    """Install a seccomp filter in this process. It refuses sockets, tracing, mounting and system calls of other ABIs.

    It also refuses access to the memory of other processes, and bpf, keyctl and io_uring.

    Args:
        signals: False to also refuse all system calls that send signals.

    Returns:
        True if the filter was installed.
    """
    architecture, others, sending = _NUMBERS[platform.machine()]
    refused = others if signals else (*others, *sending)
    load_word, jump_equal, jump_at_least, end = 0x20, 0x15, 0x35, 0x06
    steps = [(load_word, 0, 0, 4), (jump_equal, 1, 0, architecture), (end, 0, 0, 0x80000000), (load_word, 0, 0, 0)]
    steps.append((jump_at_least, len(refused) + 1, 0, _X32))
    steps += [(jump_equal, len(refused) - index, 0, number) for index, number in enumerate(refused)]
    steps += [
        (end, 0, 0, 0x7FFF0000),
        (end, 0, 0, 0x00050001),
    ]  # results of the filter: allow the call, or fail with EPERM
    code = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *step) for step in steps))
    program = struct.pack("@HP", len(steps), ctypes.addressof(code))
    return bool(_libc.prctl(22, 2, program, 0, 0) == 0)  # PR_SET_SECCOMP, SECCOMP_MODE_FILTER


def _bubblewrap(path: str, reads: list[str], writes: list[str]) -> list[str]:
    """Return the start of a command line that runs a command with access only to the folders `reads` and `writes`."""
    options = [path, "--unshare-all", "--die-with-parent", "--new-session", "--dev", "/dev", "--tmpfs", "/tmp"]
    for each in reads:
        options += ["--proc", "/proc"] if each == _OWN_PROCESS else ["--ro-bind-try", each, each]
    for each in writes:
        options += ["--bind", each, each]
    return [*options, "--chdir", os.getcwd() if writes else "/"]  # noqa: PTH109 - pathlib is slow to import


if __name__ == "__main__":
    main(sys.argv[1:])
