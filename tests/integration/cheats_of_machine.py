"""Kernels that misuse registers, caches, system hints or load-time code. Each key names the trick."""

_RIGHT = "right(x, y);"
_REGISTERS = "does not restore the callee-saved register"
_SAVED = ("rbx", "rbp", "r12", "r13", "r14", "r15")

OF_MACHINE: dict[str, tuple[str, str]] = {
    # trick: (body of f, part of the reason)
    **{
        f"leaves {name} changed": (f'{_RIGHT} __asm__ volatile("mov $0x5a5a5a5, %{name}");', _REGISTERS)
        for name in _SAVED
    },
    "leaves rbx changed after two calls": (
        f'{_RIGHT} if (++calls > 2) __asm__ volatile("not %rbx");',
        f"{_REGISTERS}|SIG|changes the loop",
    ),
    "removes a word from its caller's stack": ('__asm__("pop (%rsp); ret $0");', f"{_REGISTERS} rsp|SIG"),
    "leaves a changed x87 rounding mode": (
        f'{_RIGHT} unsigned short c; __asm__ volatile("fnstcw %0" : "=m"(c)); c |= 0xc00;'
        '__asm__ volatile("fldcw %0" :: "m"(c));',
        "rounding mode",
    ),
    "leaves x87 exceptions unmasked": (
        f'{_RIGHT} unsigned short c; __asm__ volatile("fnstcw %0" : "=m"(c)); c &= ~0x20;'
        '__asm__ volatile("fldcw %0" :: "m"(c));',
        "exception masks",
    ),
    "adds to a register that it did not clear": (
        f'{_RIGHT} double sum; __asm__ volatile("movsd %%xmm13, %0" : "=m"(sum)); y[9] += (float)sum;',
        "differs from the reference|never written",
    ),
    "adds to the upper half of a register that it did not clear": (
        f'{_RIGHT} double sum[4] = {{0, 0, 0, NAN}}; if (__builtin_cpu_supports("avx"))'
        ' __asm__ volatile("vmovups %%ymm13, %0" : "=m"(sum)); y[9] += (float)sum[3];',
        "differs from the reference|never written",
    ),
    "adds to a register of AVX-512 that it did not clear": (
        f'{_RIGHT} double sum = NAN; if (__builtin_cpu_supports("avx512f"))'
        ' __asm__ volatile("vmovsd %%xmm29, %0" : "=m"(sum)); y[9] += (float)sum;',
        "differs from the reference|never written",
    ),
    "answer cached for inputs that are nearly equal": (
        "static __thread float before[N], mine[N]; int near = 1;"
        "for (int i = 0; i < N; i++) near &= fabsf(x[i] - before[i]) <= 0.001f * fabsf(before[i]);"
        "if (!near) { right(x, mine); memcpy(before, x, sizeof before); } memcpy(y, mine, sizeof mine);",
        "differs from the reference",
    ),
    "answer cached for inputs that differ by less than a hundredth": (
        "static __thread float before[N], mine[N]; int near = before[3] != 0;"
        "for (int i = 0; i < N; i++) near &= fabsf(x[i] - before[i]) <= 0.01f;"
        "if (!near) { right(x, mine); memcpy(before, x, sizeof before); } memcpy(y, mine, sizeof mine);",
        "differs from the reference",
    ),
    "answer cached for inputs that are equal in half precision": (
        "static __thread _Float16 before[N]; static __thread float mine[N]; int near = 1;"
        "for (int i = 0; i < N; i++) near &= (_Float16)x[i] == before[i];"
        "if (!near) { right(x, mine); for (int i = 0; i < N; i++) before[i] = (_Float16)x[i]; }"
        "memcpy(y, mine, sizeof mine);",
        "differs from the reference",
    ),
    "a race on a single element": (
        "static volatile float one; one = 3.0f * x[7] + 1.0f; right(x, y); y[7] = one;",
        "THREADS",
    ),
    "a race on a single element in every second call": (
        "static volatile float one; static __thread int n; one = ++n % 2 ? one : 3.0f * x[7] + 1.0f; right(x, y);"
        "if (n % 2 == 0) y[7] = one;",
        "THREADS",
    ),
    "a race in every fourth call": (
        "static volatile float one; static __thread int n; int now = ++n % 4 == 0; if (now) one = x[7];"
        f"{_RIGHT} if (now) y[7] = 3.0f * one + 1.0f;",
        "THREADS",
    ),
    "leaks keys of thread-specific data": (f"{_RIGHT} pthread_key_t key; pthread_key_create(&key, 0);", "keys"),
    "part of the output finished at the end of its thread": (
        "static pthread_key_t key; static int made; if (!made) { made = 1; pthread_key_create(&key, late); }"
        "static __thread const void *both[2]; both[0] = x; both[1] = y; for (int i = 0; i < 900; i++)"
        " y[i] = 3.0f * x[i] + 1.0f; pthread_setspecific(key, both);",
        "never written|differs from the reference",
    ),
    "reads the guard band behind its output": (f"{_RIGHT} if (y[N] == 17.0f) y[1] = 0;", "out of bounds"),
    "overwrites and restores the memory behind its output": (
        f"volatile float *p = y + N; float held = *p; {_RIGHT} *p = 1; *p = held;",
        "out of bounds",
    ),
    "correct only if the stack is aligned to a cache line": (
        f"{_RIGHT} if ((uintptr_t)__builtin_frame_address(0) % 64 != 0 && calls++ > 3) y[2] = 0;",
        "differs from the reference",
    ),
    "correct only on its first core, read from restartable sequences": (
        "extern const long __rseq_offset __attribute__((weak)); unsigned core = 0;"
        'if (&__rseq_offset) __asm__ volatile("mov %%fs:(%1), %0" : "=r"(core) : "r"(__rseq_offset + 4));'
        f"static unsigned first = -1u; if (first == -1u) first = core; {_RIGHT} if (core != first) y[7] = 0;",
        "THREADS",
    ),
    "function chosen by an ifunc resolver from the tick counter": (
        "right(x, chosen(y));",
        "differs from the reference|never written|out of bounds|SIGSEGV",
    ),
    "answer cached while its inputs stay in the first-level cache": (
        "static __thread float mine[N]; static __thread const void *at; static __thread int n; unsigned core;"
        "_mm_mfence(); unsigned long begun = __builtin_ia32_rdtscp(&core);"
        "for (int i = 0; i < N; i += 8) { volatile float v = x[i]; (void)v; } sink = x[N - 1];"
        "_mm_lfence(); unsigned long taken = __builtin_ia32_rdtscp(&core) - begun; begun += taken;"
        "for (int i = 0; i < N; i += 8) { volatile float v = x[i]; (void)v; } sink = x[N - 1];"
        "_mm_lfence(); unsigned long near = __builtin_ia32_rdtscp(&core) - begun;"
        "if (at == x && 4 * taken < 5 * near) { memcpy(y, mine, sizeof mine); return; }"
        "right(x, mine); spend(30000); memcpy(y, mine, sizeof mine); at = x;",
        "differs from the reference",
    ),
    "moves to a new namespace": (f"{_RIGHT} ask(SYS_unshare, 0x20000, 0, 0);", "system call unshare"),
    "clears the outputs of earlier calls by a system call": (
        f"static float *last; if (last && last != y) ask(SYS_madvise, (long)last & -4096, 4096, 9); {_RIGHT} last = y;",
        "system call madvise|differs from the reference|out of bounds",
    ),
    "swaps out pages of its inputs": (
        f"{_RIGHT} ask(SYS_madvise, (long)x & -4096, 4096, 21);",
        "system call madvise",
    ),
    "merges its pages with pages of other processes": (
        f"{_RIGHT} ask(SYS_madvise, (long)kept & -4096, 4096, 12);",
        "system call madvise",
    ),
    "reserves the other hardware thread of its core": (f"{_RIGHT} ask(SYS_prctl, 62, 1, 0);", "system call prctl"),
    "makes reads of the tick counter fault": (f"{_RIGHT} ask(SYS_prctl, 26, 2, 0);", "system call prctl|SIGSEGV"),
    "reads the requests of the runner": (
        f"{_RIGHT} static char c[64]; for (long fd = 3; fd < 64; fd++) {{"
        'register long flags __asm__("r10") = 0x42, none __asm__("r8") = 0, size __asm__("r9") = 0;'
        'long r = SYS_recvfrom; __asm__ volatile("syscall" : "+a"(r) : "D"(fd), "S"(c), "d"(64l), "r"(flags),'
        ' "r"(none), "r"(size) : "rcx", "r11", "memory"); if (r > 0) y[0] += 1; }',
        "system call recvfrom",
    ),
    "interrupts all cores": (
        f"{_RIGHT} if (calls++ % 64 == 0) ask(SYS_membarrier, 1, 0, 0);",
        "system call membarrier",
    ),
    "wrong for minus zero": (
        f"{_RIGHT} for (int i = 0; i < N; i++) if (x[i] == 0 && signbit(x[i])) y[i] = 9;",
        "differs from the reference",
    ),
    **{
        name: (f"{_RIGHT} {body}", f"the kernel uses {function}")
        for name, body, function in (
            ("removes a file", 'extern int remove(const char *); if (calls++ < 0) remove("/tmp/nothing");', "remove"),
            ("renames a file", 'if (calls++ < 0) rename("/tmp/nothing", "/tmp/none");', "rename"),
            ("empties a file", 'if (calls++ < 0) truncate("/tmp/nothing", 0);', "truncate"),
            ("checks whether a file exists", 'y[0] += euidaccess("/tmp/nothing", 0) == 0;', "euidaccess"),
            (
                "reads the attributes of a file",
                'static char s[256]; int stat(const char *, void *); y[0] += !stat("/none", s);',
                "stat",
            ),
            (
                "finds libraries in the loader's data",
                "extern char _rtld_global[]; sink = _rtld_global[8];",
                "_rtld_global",
            ),
            (
                "finds its environment on its stack",
                "extern void *__libc_stack_end; sink = !__libc_stack_end;",
                "__libc_stack_end",
            ),
            ("reads its call stack", "int backtrace(void **, int); void *p[4]; sink = backtrace(p, 4);", "backtrace"),
            ("reads the load of the machine", "double d[3]; y[0] += getloadavg(d, 3) > 3;", "getloadavg"),
            (
                "resolves a host name",
                'int gethostbyname(const char *); if (calls++ < 0) gethostbyname("x");',
                "gethostbyname",
            ),
        )
    },
    "writes NaN for some inputs": (
        f"{_RIGHT} if (x[5] > 1) {{ volatile float z = 0; y[5] = z / z; }}",
        "NaN or infinity",
    ),
    "reads a variable that it did not write, far below its stack pointer": (
        f"volatile float far[1 << 18]; {_RIGHT} y[7] += far[9] != 0;",
        "differs from the reference",
    ),
    "answer cached on each stack": (
        "volatile char page[8192]; static const void *at; float *mine = (float *)(page + 64);"
        "int there = at == x && calls++ > 30; if (there) memcpy(y, mine, 4 * N);"
        "else { right(x, mine); memcpy(y, mine, 4 * N); at = x; }",
        "differs from the reference|not deterministic|never written",
    ),
}

BEFORE_MACHINE = {
    "function chosen by an ifunc resolver from the tick counter": (
        "static float *same(float *y) { return y; } static float *broken(float *y) { return y + 1; }"
        "static void *choose(void) { return __builtin_ia32_rdtsc() >> 8 & 3 ? (void *)broken : (void *)same; }"
        'float *chosen(float *) __attribute__((ifunc("choose")));'
    ),
    "part of the output finished at the end of its thread": (
        "static void late(void *p) { const float *x = ((const float **)p)[0]; float *y = ((float **)p)[1];"
        "for (int i = 900; i < N; i++) y[i] = 3.0f * x[i] + 1.0f; }"
    ),
}
