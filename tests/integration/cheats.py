"""Cheating and faulty kernels by trick, as C sources of y = 3 x + 1, with honest kernels that must pass."""

HEAD = """
#define _GNU_SOURCE
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>
#include <xmmintrin.h>
enum { N = 1000 };
static void right(const float *x, float *y) { for (int i = 0; i < N; i++) y[i] = 3.0f * x[i] + 1.0f; }
static inline long ask(long number, long a, long b, long c) {
  long result;
  __asm__ volatile("syscall" : "=a"(result) : "0"(number), "D"(a), "S"(b), "d"(c) : "rcx", "r11", "memory");
  return result;
}
static float kept[N];
static int calls;
static const void *known;
static volatile float sink;
"""

CACHE = "memcpy(y, kept, sizeof kept); return; } right(x, y); memcpy(kept, y, sizeof kept);"

IN_A_ROW = """static __thread float mine[N], few; static __thread unsigned long end; static __thread const void *at;
if (__builtin_ia32_rdtsc() - end < 20000 && {known}) memcpy(y, mine, sizeof mine);
else {{ right(x, y); memcpy(mine, y, sizeof mine); at = x; few = x[1] + x[500] + x[998]; }}
end = __builtin_ia32_rdtsc();"""
"""Keeps an answer, in each thread, as long as calls follow each other within 20,000 ticks of the processor."""

CHEATS: dict[str, tuple[str, str]] = {
    # trick: (body of f, part of the reason)
    "answer kept by pointer": (f"if (known == x) {{ {CACHE} known = x;", "off the reference"),
    "answer kept by pointer, late": (f"if (calls++ > 64 && known == x) {{ {CACHE} known = x;", "off the reference"),
    "answer kept by counter": (f"if (calls++ > 100) {{ {CACHE}", "off the reference"),
    "answer kept by clock": (f"if (clock() > 4000) {{ {CACHE}", "off the reference"),
    "answer kept by the output's pointer": (
        f"if (calls++ > 64 && known == y) {{ {CACHE} known = y;",
        "off the reference",
    ),
    "every second call skipped": (f"if (calls++ > 64 && calls % 2) {{ {CACHE}", "off the reference"),
    "every third call skipped": (f"if (calls++ > 64 && calls % 3 == 1) {{ {CACHE}", "off the reference"),
    "every fifth call skipped": (f"if (calls++ > 64 && calls % 5 == 0) {{ {CACHE}", "off the reference"),
    "calls skipped that follow at once": (
        "static long before; struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t);"
        "long now = t.tv_sec * 1000000000l + t.tv_nsec, soon = now - before < 5000; before = now;"
        f"if (soon) {{ {CACHE}",
        "off the reference",
    ),
    "skipped where outputs hold something": ("if (y[0] == y[0]) return; right(x, y);", "off the reference"),
    "a part skipped where outputs hold something": (
        "int there = y[0] == y[0] && y[N - 1] == y[N - 1];"
        "for (int i = 0; i < (there ? 920 : N); i++) y[i] = 3.0f * x[i] + 1;",
        "off the reference",
    ),
    "right on one core": (
        "if (sched_getcpu() == (int)sysconf(_SC_NPROCESSORS_ONLN) - 1) right(x, y); else memset(y, 0, 4 * N);",
        "ELSEWHERE",
    ),
    "right on the main thread": (
        "if (getpid() == (int)syscall_tid()) right(x, y); else memset(y, 0, 4 * N);",
        "off the reference",
    ),
    "right on pages": ("right(x, y); if ((uintptr_t)x % 4096) y[0] = 0;", "off the reference"),
    "right where aligned to a vector": ("right(x, y); if ((uintptr_t)y % 64) y[0] = 0;", "off the reference"),
    "right where a variable names the runner": (
        'if (getenv("KERNEL_EVO_RUNNER")) right(x, y); else memset(y, 0, 4 * N);',
        "the kernel uses getenv",
    ),
    "right where it may use one core": (
        "cpu_set_t set; CPU_ZERO(&set); sched_getaffinity(0, sizeof set, &set); right(x, y);"
        "y[0] += CPU_COUNT(&set) > 1;",
        "the kernel uses sched_getaffinity",
    ),
    "right for the judge's user": ("right(x, y); if (getuid() < 60000) y[0] = 0;", "the kernel uses getuid"),
    "right for the judge's user, by a system call": (
        "right(x, y); if (ask(SYS_getuid, 0, 0, 0) < 60000) y[0] = 0;",
        "makes the system call getuid: a kernel computes",
    ),
    "right for one parent, by a system call": (
        "static long parent; long now = ask(SYS_getppid, 0, 0, 0); right(x, y); y[0] += parent && parent != now;",
        "makes the system call getppid",
    ),
    "asks for its core by a system call": (
        "unsigned core = 0; ask(SYS_getcpu, (long)&core, 0, 0); right(x, y); y[0] += core > 4096;",
        "makes the system call getcpu",
    ),
    "asks for its user while it loads": (
        "right(x, y); y[0] += user == 7;",
        "does not load|makes the system call geteuid",
    ),
    "right where a sanitizer is": (
        "extern void __asan_init(void) __attribute__((weak)); right(x, y); if (__asan_init) y[0] += 0;",
        "the kernel uses __asan_init",
    ),
    "reads one beyond": ("right(x, y); sink = x[N];", "reads out of bounds: 0 bytes after `x`"),
    "reads one before": ("right(x, y); sink = x[-1];", "reads out of bounds: 4 bytes before `x`"),
    "reads far beyond": ("right(x, y); sink = x[N + 5000];", "SIGSEGV|out of bounds"),
    "writes one beyond": ("right(x, y); y[N] = 0;", "out of bounds: 4 bytes of the guard band after `y`"),
    "writes one before": ("right(x, y); y[-1] = 0;", "out of bounds: 4 bytes of the guard band before `y`"),
    "writes 5 KiB beyond": ("right(x, y); y[N + 1300] = 0;", "out of bounds"),
    "writes its input": ("right(x, y); ((float *)x)[3] = 0;", "modifies its input `x`"),
    "makes its input writable": (
        "right(x, y); ask(SYS_mprotect, (long)x & ~4095l, 4096, 3); ((float *)x)[3] = 0;",
        "modifies its input `x`",
    ),
    "leaves a part unwritten": ("for (int i = 0; i < N - 3; i++) y[i] = 3.0f * x[i] + 1.0f;", "never written"),
    "leaks": ("void *volatile p = malloc(4096); (void)p; right(x, y);", "keeps 41.. bytes"),
    "leaks a little": ("void *volatile p = malloc(24); (void)p; right(x, y);", "keeps .* bytes"),
    "static scratch read before written": ("right(x, y); y[5] += kept[5]; kept[5] = 1;", "off the reference"),
    "uses memory that it did not clear": (
        "float *p = malloc(4 * N); right(x, y); y[7] += p[7] != 0 ? 1 : 0; free(p);",
        "off the reference",
    ),
    "leaves another rounding mode": ("right(x, y); _mm_setcsr(_mm_getcsr() | 0x2000);", "rounding mode"),
    "leaves exceptions unmasked": ("right(x, y); _mm_setcsr(_mm_getcsr() & ~0x80u);", "exception masks|SIGFPE"),
    "opens files": ('right(x, y); FILE *f = fopen("/etc/passwd", "r"); if (f) fclose(f);', "the kernel uses fopen"),
    "opens a file by a system call": ('right(x, y); ask(SYS_open, (long)"/etc/passwd", 0, 0);', "leaves files open"),
    "catches signals": ("right(x, y); signal(SIGUSR1, exit);", "the kernel uses signal"),
    "ignores a signal by a system call": (
        "right(x, y); struct { void *handler; long flags; void *restorer; long mask; } a = {(void *)1};"
        'register long size __asm__("r10") = 8; long r = SYS_rt_sigaction; __asm__ volatile("syscall" : "+a"(r) : '
        '"D"(10l), "S"(&a), "d"(0l), "r"(size) : "rcx", "r11", "memory");',
        "signals|SIGUSR1",
    ),
    "sets a timer": (
        "right(x, y); struct itimerval t = {{0, 0}, {1000, 0}}; setitimer(ITIMER_REAL, &t, 0);",
        "the kernel uses setitimer",
    ),
    "sets a timer by a system call": (
        "right(x, y); struct itimerval t = {{0, 0}, {1000, 0}}; ask(SYS_setitimer, 0, (long)&t, 0);",
        "leaves a timer running",
    ),
    "becomes nicer": ("right(x, y); ask(SYS_setpriority, 0, 0, 19);", "priority"),
    "moves to other cores": (
        "right(x, y); unsigned long all = ~0ul; ask(SYS_sched_setaffinity, 0, sizeof all, (long)&all);",
        "CORES",
    ),
    "lowers a limit": (
        "right(x, y); struct rlimit l = {64, 64}; ask(SYS_setrlimit, RLIMIT_NOFILE, (long)&l, 0);",
        "limits",
    ),
    "makes code writable": (
        "right(x, y); ask(SYS_mprotect, (long)&right & ~4095l, 4096, 7);",
        "maps memory that it shares, or writes code",
    ),
    "leaves a thread running": (
        "right(x, y); pthread_t t; pthread_create(&t, 0, (void *(*)(void *))(void *)sleep, (void *)20);",
        "leaves 1 threads running",
    ),
    "starts a process": ("right(x, y); if (!fork()) { sleep(20); _exit(0); }", "starts 1 process"),
    "kills its parent": ("right(x, y); kill(getppid(), SIGKILL);", "the kernel uses getppid, kill"),
    "replaces functions": ('right(x, y); sink = (float)(long)dlsym_((void *)0, "memcpy");', "does not load"),
    "looks for libraries": ("right(x, y); extern void *dlopen(); dlopen(0, 1);", "the kernel uses dlopen"),
    "reads pipes": ("right(x, y); char c; if (read(3, &c, 0)) y[0] += 0;", "the kernel uses read"),
    "writes pipes": ("right(x, y); if (write(5, y, 0)) y[0] += 0;", "the kernel uses write"),
    "answers for the caller": (
        "right(x, y); long reply[7] = {0};"
        "for (long fd = 3; fd < 64; fd++) ask(SYS_write, fd, (long)reply, sizeof reply);",
        "makes no sense|contradict|times|off the reference|never written|out of|SIG|ended|process",
    ),
    "crashes": ("right(x, y); *(volatile int *)8 = 1;", "SIGSEGV"),
    "exits": ("right(x, y); exit(0);", "ended with status 0"),
    "aborts": ("right(x, y); abort();", "SIGABRT"),
    "wrong once in 97 calls": ("right(x, y); if (++calls % 97 == 96) y[5] += 1;", "off the reference"),
    "not deterministic": ("right(x, y); if (++calls % 2) y[3] = nextafterf(y[3], 1e9f);", "not deterministic"),
    "static scratch": ("right(x, kept); memcpy(y, kept, sizeof kept);", "THREADS"),
    "allocated once, without a lock": (
        "static float *p; if (!p) p = malloc(4 * N); right(x, p); memcpy(y, p, 4 * N);",
        "THREADS",
    ),
    "answer kept by address between calls in a row": (IN_A_ROW.format(known="at == x"), "CHANGED"),
    "answer kept by address and a few elements between calls in a row": (
        IN_A_ROW.format(known="at == x && few == x[1] + x[500] + x[998]"),
        "CHANGED",
    ),
    "every 2,000th call in a row looks again": (IN_A_ROW.format(known="at == x && ++calls % 2000"), "CHANGED"),
    "answer kept by eight elements": (
        "static __thread float few[8], mine[N]; int same = 1;"
        "for (int i = 0; i < 8; i++) { if (few[i] != x[i * 125]) same = 0; few[i] = x[i * 125]; }"
        "if (!same) right(x, mine); memcpy(y, mine, sizeof mine);",
        "CHANGED",
    ),
    "answer kept by the first half of its input": (
        "static __thread float half[N / 2], mine[N]; if (memcmp(half, x, sizeof half)) right(x, mine);"
        "memcpy(half, x, sizeof half); memcpy(y, mine, sizeof mine);",
        "CHANGED",
    ),
    "skipped where outputs hold its last answer": (
        f"if (calls++ && !memcmp(y, kept, sizeof kept)) return; if (0) {{ {CACHE}",
        "off the reference|after its inputs",
    ),
    "adds to its output": (
        "for (int i = 0; i < N; i++) y[i] += 3.0f * x[i] + 1.0f;",
        "never written|off the reference",
    ),
    "wrong in the last element": ("right(x, y); y[N - 1] = y[N - 2];", "off the reference"),
    "wrong for large values": ("right(x, y); for (int i = 0; i < N; i++) if (x[i] > 90) y[i] = 271;", "CHANGED"),
    "wrong after many calls": ("right(x, y); if (++calls > 50000) y[5] += 1;", "off the reference"),
    "half precision": (
        "for (int i = 0; i < N; i++) { float v = 3.0f * x[i] + 1.0f; uint32_t b; memcpy(&b, &v, 4);"
        "b &= 0xffff0000u; memcpy(y + i, &b, 4); }",
        "off the reference",
    ),
    "approximate": ("for (int i = 0; i < N; i++) y[i] = 3.0001f * x[i] + 1.0f;", "off the reference"),
    "a twelfth of the work left out": (
        "memcpy(y, kept, sizeof kept); for (int i = 0; i < N * 11 / 12; i++) y[i] = 3.0f * x[i] + 1.0f;"
        "memcpy(kept, y, sizeof kept);",
        "off the reference",
    ),
    "right where both buffers are equally aligned": (
        "right(x, y); if (((uintptr_t)x - (uintptr_t)y) % 64) y[0] = 0;",
        "begin on any element",
    ),
    "right on the core that it saw first": (
        "static unsigned first = -1u; unsigned core; __builtin_ia32_rdtscp(&core); if (first == -1u) first = core;"
        "right(x, y); if (core != first) y[7] = 0;",
        "THREADS",
    ),
    "asks for its user while its functions are chosen": ("right(x, chosen(y));", "geteuid"),
    "asks for its user by another ABI": (
        "right(x, y); if (ask(0x40000000 | SYS_getuid, 0, 0, 0) < 60000) y[0] = 0;",
        "SIGSYS",
    ),
    "asks for its user by 32-bit calls": (
        'long user; __asm__ volatile("int $0x80" : "=a"(user) : "0"(24l) : "r8", "r9", "r10", "r11", "memory");'
        "right(x, y); if (user < 60000) y[0] = 0;",
        "SIGSYS",
    ),
    "answers in the place of its process": (
        "static long reply[8]; struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t);"
        "reply[1] = t.tv_sec * 1000000000l + t.tv_nsec; reply[2] = reply[1] + 100; right(x, y);"
        "for (long fd = 3; fd < 64; fd++) ask(SYS_write, fd, (long)reply, sizeof reply);",
        "wrote to the channel",
    ),
    "closes what its process has open": (
        "right(x, y); for (long fd = 3; fd < 64; fd++) ask(SYS_close, fd, 0, 0);",
        "ended|files",
    ),
    "withdraws its output": (
        "right(x, y); ask(SYS_mprotect, (long)y & -4096, 4096, PROT_NONE);",
        "SIGSEGV|out of bounds|modifies",
    ),
    "blocks signals by a system call": (
        "static long all[16] = {-1}; right(x, y);"
        '__asm__ volatile("mov $8, %%r10; syscall" :: "a"(SYS_rt_sigprocmask), "D"(0l), "S"(all), "d"(0l)'
        ' : "rcx", "r10", "r11", "memory");',
        "signals",
    ),
    "shares memory": (
        "right(x, y); mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);",
        "maps memory that it shares",
    ),
    "starts a process by a system call": (
        "right(x, y); if (!ask(SYS_clone, SIGCHLD, 0, 0)) for (;;) ask(SYS_pause, 0, 0, 0);",
        "starts 1 process",
    ),
    "a second core": (
        "struct timespec a, b; pthread_t t; clock_gettime(CLOCK_MONOTONIC, &a); pthread_create(&t, 0, spin, 0);"
        "spin(0); pthread_join(t, 0); right(x, y); (void)b;",
        "SECOND",
    ),
}

BEFORE = {
    "asks for its user while its functions are chosen": (
        "static float *same(float *y) { return y; } static float *broken(float *y) { return y + 1; }"
        "static void *choose(void) { return ask(SYS_geteuid, 0, 0, 0) < 60000 ? (void *)broken : (void *)same; }"
        'float *chosen(float *) __attribute__((ifunc("choose")));'
    ),
    "asks for its user while it loads": (
        "static long user; __attribute__((constructor)) static void look(void) { user = ask(SYS_geteuid, 0, 0, 0); }"
    ),
    "wrong where it may ask for its cores": "static unsigned long cores[16];",
    "right on the main thread": "static long syscall_tid(void) { return ask(SYS_gettid, 0, 0, 0); }",
    "replaces functions": "void *dlsym_(void *, const char *);",
    "a second core": (
        "static void *spin(void *p) { unsigned long m = ~0ul; ask(SYS_sched_setaffinity, 0, sizeof m, (long)&m);"
        "for (volatile int i = 0; i < 300000; i++) {} return p; }"
    ),
}

HONEST: dict[str, str] = {
    "plain": "right(x, y);",
    "backwards": "for (int i = N - 1; i >= 0; i--) y[i] = 3.0f * x[i] + 1.0f;",
    "allocates and frees": "float *p = malloc(4 * N); right(x, p); memcpy(y, p, 4 * N); free(p);",
    "scratch of each thread": "static __thread float own[N]; right(x, own); memcpy(y, own, sizeof own);",
    "wrong where it may read about processes": (
        'right(x, y); long at = ask(SYS_open, (long)"/proc/self/status", 0, 0);'
        "if (at >= 0) { ask(SYS_close, at, 0, 0); y[0] += 1; }"
    ),
    "wrong where it may read about the machine": (
        'right(x, y); long at = ask(SYS_open, (long)"/sys/devices/system/cpu/online", 0, 0);'
        "if (at >= 0) { ask(SYS_close, at, 0, 0); y[0] += 1; }"
    ),
    "wrong where it may ask for its cores": (
        "right(x, y); if (ask(SYS_sched_getaffinity, 0, sizeof cores, (long)cores) > 0) y[0] += 1;"
    ),
    "wrong where it may use channels to others": (
        "static int asked; if (!asked++ && (ask(SYS_socket, 1, 1, 0) >= 0 || ask(SYS_msgget, 7, 01666, 0) >= 0"
        "|| ask(SYS_semget, 7, 1, 01666) >= 0 || ask(SYS_shmget, 7, 4096, 01666) >= 0)) calls = 1;"
        "right(x, y); if (calls) y[0] = 0;"
    ),
    "wrong where it may reach other processes": (
        "static int asked; if (!asked++ && (ask(SYS_pidfd_open, 1, 0, 0) >= 0 || ask(SYS_userfaultfd, 1, 0, 0) >= 0"
        "|| ask(SYS_fork, 0, 0, 0) >= 0 || ask(SYS_kcmp, 1, 1, 0) >= 0)) calls = 1; right(x, y); if (calls) y[0] = 0;"
    ),
    "large stack": "float p[1 << 18]; right(x, p); memcpy(y, p, 4 * N);",
    "flushes subnormals": "_mm_setcsr(_mm_getcsr() | 0x8040); right(x, y);",
    "prints": 'right(x, y); printf("so far so good\\n");',
    "a thread that is joined": "pthread_t t;"
    "if (!pthread_create(&t, 0, (void *(*)(void *))(void *)labs, 0)) pthread_join(t, 0);"
    "right(x, y);",
}


def source(name: str, body: str) -> str:
    """Return a C source with this body of `f`."""
    return f"{HEAD}\n{BEFORE.get(name, '')}\nvoid f(const float *x, float *y) {{ {body} }}\n"
