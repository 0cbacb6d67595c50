"""Kernels that leave state, memory or processes behind, or make needless system calls. Each key names the trick."""

_RIGHT = "right(x, y);"
_SECCOMP = "makes the system call {}: a kernel may only compute"
_ATTRIBUTES = "changes attributes of its process"
_BESIDE = "makes the memory next to its buffers accessible"


def _ask(call: str) -> str:
    return f"{_RIGHT} ask(SYS_{call});"


CALLS = {
    # name of the system call: its arguments
    "userfaultfd": "1, 0, 0",
    "io_uring_setup": "4, (long)kept, 0",
    "ptrace": "0, 0, 0",
    "process_vm_readv": "1, 0, 0",
    "perf_event_open": "(long)kept, 0, -1",
    "pidfd_open": "1, 0, 0",
    "kcmp": "1, 1, 0",
    "socket": "1, 1, 0",
    "msgget": "7, 01666, 0",
    "semget": "7, 1, 01666",
    "execve": "0, 0, 0",
    "unshare": "0x10000000, 0, 0",
    "keyctl": "0, -3, 0",
    "sync": "0, 0, 0",
    "kill": "-1, 0, 0",
    "setuid": "0, 0, 0",
    "getrusage": "0, (long)kept, 0",
    "arch_prctl": "0x1001, (long)kept, 0",
    "pkey_alloc": "0, 0, 0",
    "rseq": "0, 32, 1",
    "set_tid_address": "(long)kept, 0, 0",
    "open_by_handle_at": "-100, (long)kept, 0",
    "name_to_handle_at": '-100, (long)"/", (long)kept',
    "getxattr": '(long)"/", (long)"user.note", (long)kept',
    "listxattr": '(long)"/", (long)kept, 16',
    "removexattr": '(long)"/", (long)"user.note", 0',
    "quotactl": '0x80000700, (long)"/dev/zero", 0',
}

_WRITTEN = "volatile char *c = (char *)p; char was = c[0]; c[0] = 0; c[0] = was; ask(SYS_mprotect, p, 4096, 5);"
_CODE = "changes machine code"

OF_PROCESS: dict[str, tuple[str, str]] = {
    # trick: (body of f, part of the reason)
    **{f"system call {name}": (_ask(f"{name}, {given}"), _SECCOMP.format(name)) for name, given in CALLS.items()},
    "delays the timers of its threads": (_ask("prctl, 29, 1000000, 0"), "call prctl|" + _ATTRIBUTES),
    "disables huge pages": (_ask("prctl, 41, 1, 0"), "call prctl|" + _ATTRIBUTES),
    "disables speculation": (_ask("prctl, 53, 0, 4"), "call prctl|" + _ATTRIBUTES),
    "hides its process from tracing": (_ask("prctl, 4, 0, 0"), "call prctl|leaves files open"),
    "changes the file mode mask": (_ask("umask, 0, 0, 0"), "call umask|" + _ATTRIBUTES),
    "changes the working directory": (_ask('chdir, (long)"/usr", 0, 0'), "call chdir|" + _ATTRIBUTES),
    "changes the personality of its process": (_ask("personality, 0x40000, 0, 0"), "call personality|" + _ATTRIBUTES),
    "lowers its priority for files": (_ask("ioprio_set, 1, 0, 3 << 13"), "call ioprio_set"),
    "requests a lower frequency of its core": (
        "right(x, y); struct { uint32_t size, policy; uint64_t flags; int32_t nice; uint32_t level;"
        "uint64_t times[3]; uint32_t low, high; } s = {56, 0, 0x78, 0, 0, {0}, 0, 100}; ask(314, 0, (long)&s, 0);",
        "call sched_setattr",
    ),
    "allocates memory on other NUMA nodes": (
        "right(x, y); unsigned long node = 1; ask(SYS_set_mempolicy, 2, (long)&node, 64);",
        "call set_mempolicy",
    ),
    "locks memory": (_ask("mlock, (long)kept & -4096, 4096, 0"), _ATTRIBUTES),
    "handles faults on a separate stack": (
        "static char own[65536]; struct { void *at; int flags; long size; } stack = {own, 0, sizeof own}; right(x, y);"
        "ask(SYS_sigaltstack, (long)&stack, 0, 0);",
        "changes the handling of SIGSEGV",
    ),
    "leaves the x87 registers full": (
        'right(x, y); __asm__ volatile("fld1; fld1; fld1; fld1; fld1; fld1; fld1; fld1");',
        "x87 registers",
    ),
    "leaves a number in an MMX register": (
        'right(x, y); __asm__ volatile("movd %0, %%mm0" :: "r"(1));',
        "x87 registers",
    ),
    "leaves alignment checks enabled": (
        'right(x, y); __asm__ volatile("pushfq; orq $0x40000, (%rsp); popfq");',
        "SIGBUS|alignment",
    ),
    "tunes the allocator": ("right(x, y); int mallopt(int, int); mallopt(-3, 1 << 30);", "the kernel uses mallopt"),
    "sets the locale": (
        'right(x, y); char *setlocale(int, const char *); setlocale(6, "C.UTF-8");',
        "the kernel uses setlocale",
    ),
    "leaks mappings": (
        "right(x, y); mmap(0, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);",
        "keeps .* bytes",
    ),
    "leaks memory by the program break": (
        "right(x, y); ask(SYS_brk, ask(SYS_brk, 0, 0, 0) + 4096, 0, 0);",
        "keeps .* bytes",
    ),
    "leaks memory in one call of 2,000": (
        "right(x, y); if (++calls % 2000 == 0) { void *volatile p = malloc(16); (void)p; }",
        "keeps .* bytes",
    ),
    "leaks memory in one call of fifty": (
        "right(x, y); if (++calls % 50 == 0) { void *volatile p = malloc(64); (void)p; }",
        "keeps .* bytes",
    ),
    "leaks the stacks of threads": (
        "right(x, y); pthread_t t; if (calls++ % 20 == 0) pthread_create(&t, 0, (void *(*)(void *))(void *)labs, 0);",
        "keeps .* bytes",
    ),
    "computes in a child process and waits for it": (
        "if (!fork()) { right(x, y); _exit(0); } int wait(int *); wait(0);",
        "the kernel uses fork, wait",
    ),
    "starts a child process by a system call and waits for it": (
        "right(x, y); long id = ask(SYS_clone, SIGCHLD, 0, 0); if (!id) ask(SYS_exit, 0, 0, 0);"
        '__asm__ volatile("xor %%r10d, %%r10d; syscall" : "+a"((long){SYS_wait4}) : "D"(id), "S"(0l), "d"(0l)'
        ' : "rcx", "r10", "r11", "memory");',
        "starts a process|starts 1 process",
    ),
    "vfork": ("right(x, y); if (!vfork()) _exit(0);", "the kernel uses vfork"),
    "makes the memory behind a buffer accessible": (
        "right(x, y); ask(SYS_mprotect, ((long)(y + N) + 4095) & -4096, 4096, PROT_READ | PROT_WRITE);"
        "if (!calls++) return; sink = y[N];",
        _BESIDE,
    ),
    "maps memory behind a buffer": (
        "right(x, y); mmap((void *)((((long)(x + N) + 4095) & -4096) + 4096), 4096, PROT_READ | PROT_WRITE,"
        "MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);",
        _BESIDE,
    ),
    "maps new memory over its output": (
        "right(x, y); mmap((void *)((long)y & -4096), 4096, PROT_READ | PROT_WRITE,"
        "MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);",
        "maps other memory at the addresses|never written",
    ),
    "changes its own code, and restores access and contents": (
        f"right(x, y); if (!calls++) {{ long p = (long)&right & ~4095l; ask(SYS_mprotect, p, 4096, 7); {_WRITTEN} }}",
        _CODE,
    ),
    "changes the code of its caller, and restores access and contents": (
        "right(x, y); if (!calls++) { long p = (long)__builtin_return_address(0) & ~4095l;"
        f"ask(SYS_mprotect, p, 4096, 7); {_WRITTEN.replace('c[0] = 0; ', '')} }}",
        _CODE,
    ),
    "runs code that it wrote into its data": (
        "static unsigned char code[4096] __attribute__((aligned(4096))) = {1}; right(x, y);"
        "if (!calls++) { code[0] = 0xc3; ask(SYS_mprotect, (long)code, 4096, 5); ((void (*)(void))code)(); }",
        _CODE,
    ),
    "unmaps its input": (
        "right(x, y); munmap((void *)((long)x & -4096), 4096);",
        "modifies its input|SIGSEGV|accessible",
    ),
    "stops itself": (
        "right(x, y); if (++calls > 3) pthread_exit(0);",
        "ended|leaves|process",
    ),
}
