"""Kernels that depend on addresses, flags or earlier inputs, or affect other processes. Each key names the trick."""

_RIGHT = "right(x, y);"
_SECCOMP = "makes the system call {}: a kernel may only compute"

_UNTIL = """static __thread float mine[N]; static __thread const void *at;
if (at == x && {same}) {{ memcpy(y, mine, sizeof mine); return; }}
right(x, y); spend(3000); memcpy(mine, y, sizeof mine); at = x; {mark}"""
"""C code that caches an answer until another program erases a mark that the kernel left in the processor."""

CALLS = {
    # name of the system call: its arguments; process 1 belongs to the system
    "setpriority": "0, 1, 19",
    "sched_setscheduler": "1, 5, (long)kept",
    "sched_setparam": "1, (long)kept, 0",
    "prlimit64": "1, 0, 0",
    "move_pages": "1, 0, 0",
    "migrate_pages": "1, 0, 0",
    "remap_file_pages": "(long)x & -4096, 4096, 0",
    "modify_ldt": "0, (long)kept, 64",
    "io_setup": "1, (long)&known, 0",
    "inotify_init1": "0, 0, 0",
}

OF_SURROUNDINGS: dict[str, tuple[str, str]] = {
    # trick: (body of f, part of the reason)
    **{
        f"system call {name}": (f"{_RIGHT} ask(SYS_{name}, {given});", _SECCOMP.format(name))
        for name, given in CALLS.items()
    },
    "correct only if its buffers are within 2 GiB": (
        "int apart = (int)((char *)y - (char *)x); right(x, (float *)((char *)x + apart));",
        "differs from the reference|never written|SIGSEGV|out of bounds",
    ),
    "correct only if its output is behind its input": (
        f"{_RIGHT} if ((uintptr_t)y < (uintptr_t)x) y[3] = 0;",
        "differs from the reference",
    ),
    "correct only if its output is before its input": (
        f"{_RIGHT} if ((uintptr_t)y > (uintptr_t)x) y[3] = 0;",
        "differs from the reference",
    ),
    "depends on floating-point flags of its caller": (
        f"{_RIGHT} if (_mm_getcsr() & 1) y[5] = 0;",
        "differs from the reference",
    ),
    "answer cached while a flag of the floating-point status is set": (
        _UNTIL.format(same="(_mm_getcsr() & 0x10)", mark="_mm_setcsr(_mm_getcsr() | 0x10);"),
        "differs from the reference",
    ),
    "answer cached while a vector register contains a mark": (
        'uint64_t m; __asm__ volatile("movq %%xmm15, %0" : "=r"(m));'
        + _UNTIL.format(same="m == 0x5eed5eed", mark='__asm__ volatile("movq %0, %%xmm15" :: "r"(0x5eed5eedl));'),
        "differs from the reference",
    ),
    "answer cached until an interrupt resets a segment register": (
        'unsigned short m; __asm__ volatile("mov %%es, %0" : "=r"(m));'
        + _UNTIL.format(same="m == 3", mark='__asm__ volatile("mov %0, %%es" :: "r"((short)3));'),
        "differs from the reference",
    ),
    "answer cached if few elements differ, and only slightly": (
        "static __thread float before[N], mine[N]; int differing = 0, near = before[3] != 0;"
        "for (int i = 0; i < N; i++) differing += x[i] != before[i], near &= fabsf(x[i] - before[i]) < 0.02f;"
        "if (!near || differing > 4) { right(x, mine); memcpy(before, x, sizeof before); }"
        "memcpy(y, mine, sizeof mine);",
        "differs from the reference",
    ),
    "answer cached during a tick of the coarse clock": (
        "static __thread long tick; struct timespec t; clock_gettime(CLOCK_MONOTONIC_COARSE, &t);"
        + _UNTIL.format(same="t.tv_nsec == tick", mark="tick = t.tv_nsec;"),
        "differs from the reference",
    ),
    "answer cached if its output causes no page fault": (
        "unsigned long begun = __builtin_ia32_rdtsc(); _mm_lfence(); *(volatile float *)y = 1; _mm_lfence();"
        + _UNTIL.format(same="__builtin_ia32_rdtsc() - begun < 2000", mark=""),
        "differs from the reference",
    ),
    "reads performance counters": (
        f'{_RIGHT} unsigned low; __asm__ volatile("rdpmc" : "=a"(low) : "c"(0) : "rdx"); y[3] += low == 7;',
        "SIGSEGV",
    ),
    "finishes its output in a signal handler": (
        "from = x; to = y; if (!calls++) { struct { void *handler; long flags; void *restorer; long mask; } a ="
        ' {late, 0x04000000, back}; register long size __asm__("r10") = 8; long r = SYS_rt_sigaction;'
        ' __asm__ volatile("syscall" : "+a"(r) : "D"(10l), "S"(&a), "d"(0l), "r"(size) : "rcx", "r11", "memory"); }'
        "ask(SYS_tgkill, ask(SYS_getpid, 0, 0, 0), ask(SYS_gettid, 0, 0, 0), 10);",
        "SIGUSR1|signals",
    ),
    "crashes at the end of its program": (_RIGHT, "SIGSEGV.*at the end of the program"),
    "changes the exit status of its program": (
        f"{_RIGHT} if (!calls++) atexit(late);",
        "status 3.*at the end of the program",
    ),
    "starts a process at the end of its program": (_RIGHT, "starts a process.*at the end of the program"),
    "sets upward rounding when loaded": (_RIGHT, "rounding mode changed after it was loaded"),
    "finishes its output when its library is closed": (
        "from = x; to = y; if (!calls++) right(x, y);",
        "never written|differs from the reference",
    ),
    "reads memory that it has freed": (
        "float *volatile p = malloc(4 * N + 64); right(x, p + 16); free(p);"
        "for (int i = 0; i < N; i++) y[i] = p[i + 16];",
        "differs from the reference|never written|NaN",
    ),
}

BEFORE_SURROUNDINGS = {
    "leaves a thread that works between calls": (
        "static void *burn(void *p) { struct timespec t = {0, 700000}; nanosleep(&t, 0);"
        "for (volatile int i = 0; i < 400000; i++) {} return p; }"
    ),
    "finishes its output when its library is closed": (
        "static const float *from; static float *to;"
        "__attribute__((destructor)) static void late(void) { if (to) right(from, to); }"
    ),
    "finishes its output in a signal handler": (
        "static const float *from; static float *to; static void late(int number) { (void)number; right(from, to); }"
        '__attribute__((naked)) static void back(void) { __asm__("mov $15, %eax; syscall"); }'
    ),
    "crashes at the end of its program": (
        "__attribute__((destructor)) static void late(void) { *(volatile int *)8 = 1; }"
    ),
    "changes the exit status of its program": "static void late(void) { _exit(3); }",
    "starts a process at the end of its program": (
        "__attribute__((destructor)) static void late(void) { ask(SYS_fork, 0, 0, 0); }"
    ),
    "prints at the end of its process": 'static void late(void) { printf("goodbye\\n"); }',
    "frees its table when its library is closed": (
        "static float *table; __attribute__((destructor)) static void end(void) { free(table); }"
    ),
    "sets upward rounding when loaded": (
        "__attribute__((constructor)) static void up(void) { _mm_setcsr(_mm_getcsr() | 0x4000); }"
    ),
    "sets flushing of subnormals when loaded": (
        "__attribute__((constructor)) static void flush(void) { _mm_setcsr(_mm_getcsr() | 0x8040); }"
    ),
}

HONEST_SURROUNDINGS = {
    "finds its output by its distance from its input": (
        "long apart = (char *)y - (char *)x; right(x, (float *)((char *)x + apart));"
    ),
    "tests flags that it cleared": (f"_mm_setcsr(_mm_getcsr() & ~0x3fu); {_RIGHT} if (_mm_getcsr() & 1) y[5] = 0;"),
    "frees its table when its library is closed": (
        "static pthread_mutex_t own = PTHREAD_MUTEX_INITIALIZER; pthread_mutex_lock(&own);"
        f"if (!table) table = calloc(N, 4); pthread_mutex_unlock(&own); {_RIGHT}"
    ),
    "computes only elements that changed": (
        "static __thread float before[N], mine[N]; for (int i = 0; i < N; i++)"
        " if (x[i] != before[i] || x[i] == 0) { before[i] = x[i]; mine[i] = 3.0f * x[i] + 1.0f; }"
        "memcpy(y, mine, sizeof mine);"
    ),
    "sets flushing of subnormals when loaded": _RIGHT,
    "prints at the end of its process": f"{_RIGHT} if (!__atomic_fetch_add(&calls, 1, 5)) atexit(late);",
    "reads the tick counter of the processor": f"{_RIGHT} sink = (float)__builtin_ia32_rdtsc();",
    "queries the limits of its process": (
        f"{_RIGHT} ask(SYS_prlimit64, 0, 3, 0); ask(SYS_prlimit64, ask(SYS_getpid, 0, 0, 0), 3, 0);"
    ),
    "uses registers and restores them": (
        f'{_RIGHT} __asm__ volatile("mov $7, %%ebx; mov $7, %%r14d" ::: "rbx", "r14");'
    ),
}

WORKS_BETWEEN_CALLS = (
    f"{_RIGHT} static __thread long before; struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t);"
    "long now = t.tv_sec * 1000000000l + t.tv_nsec;"
    "if (now - before > 400000) { before = now; pthread_t thread;"
    "if (!pthread_create(&thread, 0, burn, 0)) pthread_detach(thread); }"
)
"""Body of `f`. A thread sleeps until the calls have ended, and then uses the core while other kernels are timed."""
