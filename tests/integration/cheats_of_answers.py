"""Kernels that reuse or defer outputs, or are wrong only for some inputs or conditions. Each key names the trick."""

OF_ANSWERS: dict[str, tuple[str, str]] = {
    # trick: (body of f, part of the reason)
    "answer cached by a hash of four elements": (
        "static __thread float mine[N]; static __thread uint64_t known; uint64_t hash = 7;"
        "for (int i = 0; i < 4; i++) { uint32_t b; memcpy(&b, x + i * 250, 4); hash = hash * 31 + b; }"
        "if (hash != known) right(x, mine); known = hash; memcpy(y, mine, sizeof mine);",
        "differs from the reference|after its inputs had changed",
    ),
    "answer cached by one element of every 120": (
        "static __thread float mine[N], few[8]; int same = 1;"
        "for (int i = 0; i < 8; i++) { same &= few[i] == x[i * 120]; few[i] = x[i * 120]; }"
        "if (!same) right(x, mine); memcpy(y, mine, sizeof mine);",
        "differs from the reference|after its inputs had changed",
    ),
    "answer cached below the stack pointer": (
        "volatile float mine[N]; int there = mine[7] != 0 && calls++ > 20;"
        "for (int i = 0; i < N; i++) { float v = there ? mine[i] : 3.0f * x[i] + 1.0f; mine[i] = v; y[i] = v; }",
        "differs from the reference|not deterministic|never written|NaN or infinity",
    ),
    "calls counted in an MMX register": (
        'long n; __asm__ volatile("movq %%mm7, %0" : "=r"(n)); n++; __asm__ volatile("movq %0, %%mm7" :: "r"(n));'
        "if (n > 80 && n < 100000000) { memcpy(y, kept, sizeof kept); return; } right(x, y);"
        "memcpy(kept, y, sizeof kept);",
        "x87 registers|differs from the reference",
    ),
    "wrong at random counts of processor ticks": (
        "right(x, y); if ((__builtin_ia32_rdtsc() >> 6) % 61 == 0) y[3] = 0;",
        "differs from the reference",
    ),
    "wrong on a different stack": (
        "char here; static uintptr_t first; right(x, y); if (!first) first = (uintptr_t)&here;"
        "if ((uintptr_t)&here - first + 65536 > 131072) y[2] = 0;",
        "differs from the reference",
    ),
    "wrong for a different caller": (
        "static void *from; right(x, y); if (!from) from = __builtin_return_address(0);"
        "if (from != __builtin_return_address(0)) y[2] = 0;",
        "THREADS",
    ),
    "wrong after the process had a second thread": (
        "extern char __libc_single_threaded; right(x, y); if (!__libc_single_threaded) y[2] = 0;",
        "differs from the reference",
    ),
    "wrong in half of the processes": (
        "right(x, y); if (ask(SYS_getpid, 0, 0, 0) % 2) y[2] = 0;",
        "differs from the reference",
    ),
    "wrong in one of four concurrent calls": (
        "static int inside; static __thread int n; int now = __atomic_add_fetch(&inside, 1, 5); right(x, y);"
        "if (now > 1 && ++n % 4 == 0) y[1] = 0; __atomic_sub_fetch(&inside, 1, 5);",
        "THREADS",
    ),
    "two static scratch areas used in turn": (
        "static float two[2][N]; static int turn; float *p = two[turn++ & 1]; right(x, p); memcpy(y, p, 4 * N);",
        "THREADS",
    ),
    "last elements skipped": (
        "for (int i = 0; i < N; i++) if (i < 990 || y[i] != y[i]) y[i] = 3.0f * x[i] + 1.0f;",
        "differs from the reference|never written",
    ),
    "overwrites the output of the previous call": (
        "static float *last; if (last && last != y) last[4] = 0; right(x, y); last = y;",
        "differs from the reference|out of bounds|SIGSEGV",
    ),
    "finishes its output in the next call": (
        "static const float *before; static float *left; if (left && left != y) left[4] = 3.0f * before[4] + 1.0f;"
        "right(x, y); if (left && left != y) y[4] = 0; before = x; left = y;",
        "differs from the reference|out of bounds|SIGSEGV",
    ),
    "output finished by a thread after the return": (
        "static const void *both[2]; both[0] = x; both[1] = y; pthread_t t; pthread_create(&t, 0, late, both);"
        "pthread_detach(t);",
        "differs from the reference|never written|threads? running|after it returned|no thread|keeps .* bytes",
    ),
    "output finished at the end of the process": (
        "from = x; to = y; if (!calls++) atexit(late);",
        "never written|differs from the reference",
    ),
    "wrong for zeros": (
        "right(x, y); for (int i = 0; i < N; i++) if (x[i] == 0) y[i] = 9;",
        "differs from the reference",
    ),
    "wrong for equal neighbours": (
        "right(x, y); for (int i = 1; i < N; i++) if (x[i] == x[i - 1]) y[i] = 9;",
        "differs from the reference",
    ),
    "block taken for constant if three elements are equal": (
        "right(x, y); for (int i = 0; i < N; i += 50) if (x[i] == x[i + 20] && x[i] == x[i + 49])"
        " for (int j = i; j < i + 50; j++) y[j] = 3.0f * x[i] + 1.0f;",
        "differs from the reference",
    ),
    "block taken for zeros if four elements are zero": (
        "right(x, y); for (int i = 0; i < N; i += 50) if (x[i] == 0 && x[i + 1] == 0 && x[i + 2] == 0 && x[i + 3] == 0)"
        " for (int j = i; j < i + 50; j++) y[j] = 1;",
        "differs from the reference",
    ),
    "wrong if many elements are equal": (
        "right(x, y); int same = 0; for (int i = 0; i < N; i += 5) same += x[i] == x[(i + 395) % N];"
        "if (same > 2) y[3] = 0;",
        "differs from the reference",
    ),
}

BEFORE_ANSWERS = {
    "output finished by a thread after the return": (
        "static void *late(void *p) { const float *x = ((const float **)p)[0]; float *y = ((float **)p)[1];"
        "right(x, y); return 0; }"
    ),
    "output finished at the end of the process": (
        "static const float *from; static float *to; static void late(void) { right(from, to); }"
    ),
}
