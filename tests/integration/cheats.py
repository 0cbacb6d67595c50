"""C sources of y = 3 x + 1: cheating or faulty kernels, which must be refused, and correct kernels, which must pass."""

from tests.integration.cheats_of_answers import BEFORE_ANSWERS, OF_ANSWERS
from tests.integration.cheats_of_machine import BEFORE_MACHINE, OF_MACHINE
from tests.integration.cheats_of_process import OF_PROCESS
from tests.integration.cheats_of_surroundings import BEFORE_SURROUNDINGS, HONEST_SURROUNDINGS, OF_SURROUNDINGS

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
static void spend(int turns) { for (volatile int i = 0; i < turns; i++) {} }
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
"""C code that caches an answer in each thread while calls follow each other within 20,000 ticks of the processor."""

SLOW_IN_A_ROW = IN_A_ROW.replace("right(x, y);", "right(x, y); spend(30000);").replace(
    "memcpy(y, mine, sizeof mine);", "{{ spend(3000); memcpy(y, mine, sizeof mine); }}", 1
)
"""`IN_A_ROW` for a kernel that takes microseconds. Copying the cached answer takes a tenth of the kernel's time."""

SHOW_REGISTERS = (
    '__asm__("sub $56, %rsp; mov %rbx, (%rsp); mov %rbp, 8(%rsp); mov %r12, 16(%rsp); mov %r13, 24(%rsp);"'
    ' "mov %r14, 32(%rsp); mov %r15, 40(%rsp); mov %rsp, %rdx; call inner; mov (%rsp), %rbx;"'
    ' "mov 8(%rsp), %rbp; mov 16(%rsp), %r12; mov 24(%rsp), %r13; mov 32(%rsp), %r14; mov 40(%rsp), %r15;"'
    ' "add $56, %rsp; ret");'
)
"""C code that passes the registers of the calling loop to `inner`, which may change these registers. One of them counts
the calls, and another register points to the number of calls."""

CHANGES_LOOP = "changes the loop that calls it|by two threads concurrently: `y` has 1000 of 1000 elements never written"
"""Reasons for refusing a kernel that changes registers of its loop. The loop determines which reason comes first."""

CHEATS: dict[str, tuple[str, str]] = {
    # trick: (body of f, part of the reason)
    **OF_ANSWERS,
    **OF_PROCESS,
    **OF_MACHINE,
    **OF_SURROUNDINGS,
    "right only under a filter of system calls": (
        "right(x, y); if (ask(SYS_prctl, 21, 0, 0) == 0) y[0] += 1;",
        "differs from the reference",
    ),
    "right only in a process without new privileges": (
        "right(x, y); if (ask(SYS_prctl, 39, 0, 0) == 0) y[0] += 1;",
        "differs from the reference",
    ),
    "wrong if the outputs contain zeros": (
        "int zero = !y[7] && !y[8] && !y[9]; right(x, y); if (zero) y[3] += 1;",
        "differs from the reference",
    ),
    "wrong for positive neighbours": (
        "right(x, y); for (int i = 0, run = 0; i < N; i++) if ((run = x[i] > 0 ? run + 1 : 0) > 40) y[i] = 0;",
        "differs from the reference",
    ),
    "wrong for numbers of low precision": (
        "right(x, y); const unsigned *bits = (const unsigned *)x;"
        "for (int i = 0, run = 0; i < N; i++) if ((run = bits[i] & 0xffff ? 0 : run + 1) > 40) y[i] = 0;",
        "differs from the reference",
    ),
    "wrong for alternating numbers": (
        "right(x, y); for (int i = 4; i < N; i++) if (x[i] == x[i - 2] && x[i - 1] == x[i - 3] && x[i] != x[i - 1])"
        " y[i] = 0;",
        "differs from the reference",
    ),
    "wrong for symmetric elements": (
        "right(x, y); for (int i = 3; i < N; i++) if (x[i] == x[i - 3] && x[i - 1] == x[i - 2] && x[i] != x[i - 1])"
        " y[i] = 0;",
        "differs from the reference",
    ),
    "wrong for descending elements": (
        "right(x, y); for (int i = 1, run = 0; i < N; i++) if ((run = x[i] < x[i - 1] ? run + 1 : 0) > 40) y[i] = 0;",
        "differs from the reference",
    ),
    "wrong for a run of zeros": (
        "right(x, y); for (int i = 0, run = 0; i < N; i++) if ((run = x[i] == 0 ? run + 1 : 0) > 12) y[i] = 0;",
        "differs from the reference",
    ),
    "counts on zeros in its first allocated block": (
        "static __thread float *sum; if (!sum) sum = malloc(sizeof kept);"
        "for (int i = 0; i < N; i++) sum[i] += 3.0f * x[i] + 1.0f, y[i] = sum[i], sum[i] = 0;",
        "differs from the reference",
    ),
    "ends with changed flags of an open file": (
        "right(x, y); fcntl(2, 4, 2048);",
        "the kernel uses fcntl",
    ),
    "wrong for the number one": (
        "right(x, y); for (int i = 0; i < N; i++) if (x[i] == 1.0f) y[i] = 0;",
        "differs from the reference",
    ),
    "wrong for opposite neighbours": (
        "right(x, y); for (int i = 1; i < N; i++) if (x[i] == -x[i - 1] && x[i] != 0) y[i] = 0;",
        "differs from the reference",
    ),
    "wrong for whole numbers": (
        "int whole = 1; for (int i = 0; i < N; i++) whole &= x[i] == (float)(int)x[i];"
        "right(x, y); if (whole) y[5] += 1;",
        "differs from the reference",
    ),
    "wrong if its buffers are near each other": (
        "long apart = (char *)y - (char *)x; right(x, y); if (apart < 1l << 32 && apart > -(1l << 32)) y[1] += 1;",
        "differs from the reference",
    ),
    "answer cached by input pointer": (f"if (known == x) {{ {CACHE} known = x;", "differs from the reference"),
    "answer cached by input pointer after 64 calls": (
        f"if (calls++ > 64 && known == x) {{ {CACHE} known = x;",
        "differs from the reference",
    ),
    "answer cached after 100 calls": (f"if (calls++ > 100) {{ {CACHE}", "differs from the reference"),
    "answer cached after some processor time": (f"if (clock() > 4000) {{ {CACHE}", "differs from the reference"),
    "answer cached by output pointer": (
        f"if (calls++ > 64 && known == y) {{ {CACHE} known = y;",
        "differs from the reference",
    ),
    "every second call skipped": (f"if (calls++ > 64 && calls % 2) {{ {CACHE}", "differs from the reference"),
    "every third call skipped": (f"if (calls++ > 64 && calls % 3 == 1) {{ {CACHE}", "differs from the reference"),
    "every fifth call skipped": (f"if (calls++ > 64 && calls % 5 == 0) {{ {CACHE}", "differs from the reference"),
    "calls skipped if they follow immediately": (
        "static long before; struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t);"
        "long now = t.tv_sec * 1000000000l + t.tv_nsec, soon = now - before < 5000; before = now;"
        f"if (soon) {{ {CACHE}",
        "differs from the reference",
    ),
    "work skipped if outputs are not poisoned": (
        "if (y[0] == y[0]) return; right(x, y);",
        "differs from the reference",
    ),
    "part of the work skipped if outputs are not poisoned": (
        "int there = y[0] == y[0] && y[N - 1] == y[N - 1];"
        "for (int i = 0; i < (there ? 920 : N); i++) y[i] = 3.0f * x[i] + 1;",
        "differs from the reference",
    ),
    "correct only on one core": (
        "if (sched_getcpu() == (int)sysconf(_SC_NPROCESSORS_ONLN) - 1) right(x, y); else memset(y, 0, 4 * N);",
        "ELSEWHERE",
    ),
    "correct only on the main thread": (
        "if (getpid() == (int)syscall_tid()) right(x, y); else memset(y, 0, 4 * N);",
        "differs from the reference",
    ),
    "correct only for page-aligned inputs": (
        "right(x, y); if ((uintptr_t)x % 4096) y[0] = 0;",
        "differs from the reference",
    ),
    "correct only if aligned to a vector": (
        "right(x, y); if ((uintptr_t)y % 64) y[0] = 0;",
        "differs from the reference",
    ),
    "correct only if an environment variable names the runner": (
        'if (getenv("KERNEL_EVO_RUNNER")) right(x, y); else memset(y, 0, 4 * N);',
        "the kernel uses getenv",
    ),
    "correct only if restricted to one core": (
        "cpu_set_t set; CPU_ZERO(&set); sched_getaffinity(0, sizeof set, &set); right(x, y);"
        "y[0] += CPU_COUNT(&set) > 1;",
        "the kernel uses sched_getaffinity",
    ),
    "correct only for the user of the runner": (
        "right(x, y); if (getuid() < 60000) y[0] = 0;",
        "the kernel uses getuid",
    ),
    "correct only for the user of the runner, by a system call": (
        "right(x, y); if (ask(SYS_getuid, 0, 0, 0) < 60000) y[0] = 0;",
        "makes the system call getuid: a kernel may only compute",
    ),
    "correct only for one parent process, by a system call": (
        "static long parent; long now = ask(SYS_getppid, 0, 0, 0); right(x, y); y[0] += parent && parent != now;",
        "makes the system call getppid",
    ),
    "queries its core by a system call": (
        "unsigned core = 0; ask(SYS_getcpu, (long)&core, 0, 0); right(x, y); y[0] += core > 4096;",
        "makes the system call getcpu",
    ),
    "queries its user while loading": (
        "right(x, y); y[0] += user == 7;",
        "does not load|makes the system call geteuid",
    ),
    "correct only under a sanitizer": (
        "extern void __asan_init(void) __attribute__((weak)); right(x, y); if (__asan_init) y[0] += 0;",
        "the kernel uses __asan_init",
    ),
    "reads one element beyond its input": ("right(x, y); sink = x[N];", "reads out of bounds: 0 bytes after `x`"),
    "reads one element before its input": ("right(x, y); sink = x[-1];", "reads out of bounds: 4 bytes before `x`"),
    "reads far beyond its input": ("right(x, y); sink = x[N + 5000];", "SIGSEGV|out of bounds"),
    "writes one element beyond its output": (
        "right(x, y); y[N] = 0;",
        "out of bounds: 4 bytes of the guard band after `y`",
    ),
    "writes one element before its output": (
        "right(x, y); y[-1] = 0;",
        "out of bounds: 4 bytes of the guard band before `y`",
    ),
    "writes 5 KiB beyond": ("right(x, y); y[N + 1300] = 0;", "out of bounds"),
    "writes its input": ("right(x, y); ((float *)x)[3] = 0;", "modifies its input `x`"),
    "makes its input writable": (
        "right(x, y); ask(SYS_mprotect, (long)x & ~4095l, 4096, 3); ((float *)x)[3] = 0;",
        "modifies its input `x`",
    ),
    "leaves a part of its output unwritten": (
        "for (int i = 0; i < N - 3; i++) y[i] = 3.0f * x[i] + 1.0f;",
        "never written",
    ),
    "leaks": ("void *volatile p = malloc(4096); (void)p; right(x, y);", "keeps 41.. bytes"),
    "leaks a little": ("void *volatile p = malloc(24); (void)p; right(x, y);", "keeps .* bytes"),
    "static scratch read before written": ("right(x, y); y[5] += kept[5]; kept[5] = 1;", "differs from the reference"),
    "uses memory that it did not clear": (
        "float *p = malloc(4 * N); right(x, y); y[7] += p[7] != 0 ? 1 : 0; free(p);",
        "differs from the reference",
    ),
    "leaves a changed rounding mode": ("right(x, y); _mm_setcsr(_mm_getcsr() | 0x2000);", "rounding mode"),
    "leaves exceptions unmasked": ("right(x, y); _mm_setcsr(_mm_getcsr() & ~0x80u);", "exception masks|SIGFPE"),
    "opens files": ('right(x, y); FILE *f = fopen("/etc/passwd", "r"); if (f) fclose(f);', "the kernel uses fopen"),
    "opens a file by a system call": ('right(x, y); ask(SYS_open, (long)"/dev/zero", 0, 0);', "leaves files open"),
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
    "lowers its priority": ("right(x, y); ask(SYS_setpriority, 0, 0, 19);", "priority"),
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
        "maps shared memory, or makes memory both writable and executable",
    ),
    "leaves a thread running": (
        "right(x, y); pthread_t t; pthread_create(&t, 0, (void *(*)(void *))(void *)sleep, (void *)20);",
        "leaves 1 thread running",
    ),
    "starts a process": ("right(x, y); if (!fork()) { sleep(20); _exit(0); }", "the kernel uses fork"),
    "kills its parent process": ("right(x, y); kill(getppid(), SIGKILL);", "the kernel uses getppid, kill"),
    "replaces functions": ('right(x, y); sink = (float)(long)dlsym_((void *)0, "memcpy");', "does not load"),
    "looks for libraries": ("right(x, y); extern void *dlopen(); dlopen(0, 1);", "the kernel uses dlopen"),
    "reads pipes": ("right(x, y); char c; if (read(3, &c, 0)) y[0] += 0;", "the kernel uses read"),
    "writes pipes": ("right(x, y); if (write(5, y, 0)) y[0] += 0;", "the kernel uses write"),
    "writes replies to all open files": (
        "right(x, y); long reply[7] = {0};"
        "for (long fd = 3; fd < 64; fd++) ask(SYS_write, fd, (long)reply, sizeof reply);",
        "malformed reply|contradict|times|differs from the reference|never written|out of|SIG|ended|process",
    ),
    "crashes": ("right(x, y); *(volatile int *)8 = 1;", "SIGSEGV"),
    "exits": ("right(x, y); exit(0);", "ended with status 0"),
    "aborts": ("right(x, y); abort();", "SIGABRT"),
    "wrong once in 97 calls": ("right(x, y); if (++calls % 97 == 96) y[5] += 1;", "differs from the reference"),
    "not deterministic": ("right(x, y); if (++calls % 2) y[3] = nextafterf(y[3], 1e9f);", "not deterministic"),
    "static scratch": ("right(x, kept); memcpy(y, kept, sizeof kept);", "THREADS"),
    "allocates scratch memory once, without a lock": (
        "static float *p; if (!p) p = malloc(4 * N); right(x, p); memcpy(y, p, 4 * N);",
        "THREADS",
    ),
    "answer cached by address during consecutive calls": (IN_A_ROW.format(known="at == x"), "CHANGED"),
    "answer cached by address and a few elements during consecutive calls": (
        IN_A_ROW.format(known="at == x && few == x[1] + x[500] + x[998]"),
        "CHANGED",
    ),
    "every second consecutive call computes": (SLOW_IN_A_ROW.format(known="at == x && ++calls % 2"), "CHANGED"),
    "every fourth consecutive call computes": (SLOW_IN_A_ROW.format(known="at == x && ++calls % 4"), "CHANGED"),
    "every 30th consecutive call computes": (SLOW_IN_A_ROW.format(known="at == x && ++calls % 30"), "CHANGED"),
    "half of the consecutive calls compute, at random": (
        SLOW_IN_A_ROW.format(known="at == x && (__builtin_ia32_rdtsc() >> 4) % 2"),
        "CHANGED",
    ),
    "every 2,000th consecutive call computes": (IN_A_ROW.format(known="at == x && ++calls % 2000"), "CHANGED"),
    "answer cached by eight elements": (
        "static __thread float few[8], mine[N]; int same = 1;"
        "for (int i = 0; i < 8; i++) { if (few[i] != x[i * 125]) same = 0; few[i] = x[i * 125]; }"
        "if (!same) right(x, mine); memcpy(y, mine, sizeof mine);",
        "differs from the reference|after its inputs had changed",
    ),
    "answer cached by the first half of its input": (
        "static __thread float half[N / 2], mine[N]; if (memcmp(half, x, sizeof half)) right(x, mine);"
        "memcpy(half, x, sizeof half); memcpy(y, mine, sizeof mine);",
        "CHANGED",
    ),
    "work skipped if outputs contain the last answer": (
        f"if (calls++ && !memcmp(y, kept, sizeof kept)) return; if (0) {{ {CACHE}",
        "differs from the reference|after its inputs",
    ),
    "adds to its output": (
        "for (int i = 0; i < N; i++) y[i] += 3.0f * x[i] + 1.0f;",
        "never written|differs from the reference",
    ),
    "wrong in the last element": ("right(x, y); y[N - 1] = y[N - 2];", "differs from the reference"),
    "wrong for large values": ("right(x, y); for (int i = 0; i < N; i++) if (x[i] > 90) y[i] = 271;", "CHANGED"),
    "wrong after many calls": ("right(x, y); if (++calls > 50000) y[5] += 1;", "differs from the reference"),
    "half precision": (
        "for (int i = 0; i < N; i++) { float v = 3.0f * x[i] + 1.0f; uint32_t b; memcpy(&b, &v, 4);"
        "b &= 0xffff0000u; memcpy(y + i, &b, 4); }",
        "differs from the reference",
    ),
    "approximate": ("for (int i = 0; i < N; i++) y[i] = 3.0001f * x[i] + 1.0f;", "differs from the reference"),
    "a twelfth of the work skipped": (
        "memcpy(y, kept, sizeof kept); for (int i = 0; i < N * 11 / 12; i++) y[i] = 3.0f * x[i] + 1.0f;"
        "memcpy(kept, y, sizeof kept);",
        "differs from the reference",
    ),
    "correct only if both buffers are equally aligned": (
        "right(x, y); if (((uintptr_t)x - (uintptr_t)y) % 64) y[0] = 0;",
        "aligned only to the size of an element",
    ),
    "correct only on its first core": (
        "static unsigned first = -1u; unsigned core; __builtin_ia32_rdtscp(&core); if (first == -1u) first = core;"
        "right(x, y); if (core != first) y[7] = 0;",
        "THREADS",
    ),
    "queries its user in an ifunc resolver": ("right(x, chosen(y));", "geteuid"),
    "queries its user by the x32 ABI": (
        "right(x, y); if (ask(0x40000000 | SYS_getuid, 0, 0, 0) < 60000) y[0] = 0;",
        "SIGSYS",
    ),
    "queries its user by 32-bit system calls": (
        'long user; __asm__ volatile("int $0x80" : "=a"(user) : "0"(24l) : "r8", "r9", "r10", "r11", "memory");'
        "right(x, y); if (user < 60000) y[0] = 0;",
        "SIGSYS",
    ),
    "forges the reply of its process": (
        "static long reply[8]; struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t);"
        "reply[1] = t.tv_sec * 1000000000l + t.tv_nsec; reply[2] = reply[1] + 100; right(x, y);"
        "for (long fd = 3; fd < 64; fd++) ask(SYS_write, fd, (long)reply, sizeof reply);",
        "pipe between its process and the runner",
    ),
    "closes the open files of its process": (
        "right(x, y); for (long fd = 3; fd < 64; fd++) ask(SYS_close, fd, 0, 0);",
        "ended|files",
    ),
    "makes its output inaccessible": (
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
        "maps shared memory",
    ),
    "starts a process by a system call": (
        "right(x, y); if (!ask(SYS_clone, SIGCHLD, 0, 0)) for (;;) ask(SYS_pause, 0, 0, 0);",
        "starts a process|starts 1 process",
    ),
    "reads the calling loop: computes only in the last call of a batch": (SHOW_REGISTERS, "CHANGED"),
    "advances the counter of the calling loop": (SHOW_REGISTERS, CHANGES_LOOP),
    "shortens the calling loop": (SHOW_REGISTERS, CHANGES_LOOP),
    "reads its program name from the auxiliary vector": (
        'right(x, y); const char *p = (const char *)getauxval(31); if (p && strstr(p, "evo")) y[0] += 0;',
        "the kernel uses getauxval",
    ),
    "starts a helper thread in a constructor": ("right(x, y);", "leaves 1 thread running"),
    "starts a helper thread in a constructor that each call wakes": (
        "turn++; right(x, y);",
        "leaves 1 thread running|processor time",
    ),
    "starts a helper process in a constructor": ("right(x, y);", "the kernel uses fork"),
    "work deferred to the end of its thread": (
        "static pthread_key_t key; static int made; if (!made) { made = 1; pthread_key_create(&key, late); }"
        "from = x; to = y; if (pthread_getspecific(key) == (void *)&made) return; pthread_setspecific(key, &made);",
        "never written|differs from the reference",
    ),
    "work deferred to the next call": (
        "static const float *from; static float *to; if (to) right(from, to); from = x; to = y;",
        "never written|differs from the reference",
    ),
    "answer cached behind its output": (
        "if (!memcmp(y + N, x, 16)) { return; } right(x, y); memcpy(y + N, x, 16);",
        "out of bounds",
    ),
    "rows skipped if their inputs are unchanged": (
        "static __thread float before[N], mine[N]; for (int i = 0; i < N; i += 50) {"
        "if (memcmp(before + i, x + i, 16)) { for (int j = i; j < i + 50; j++) mine[j] = 3.0f * x[j] + 1.0f; }"
        "memcpy(before + i, x + i, 16); } memcpy(y, mine, sizeof mine);",
        "differs from the reference|after its inputs had changed",
    ),
    "one row in twenty skipped in turn": (
        "int skip = ++calls % 20;"
        "for (int i = 0; i < N; i++) if (i / 50 != skip || y[i] != y[i]) y[i] = 3.0f * x[i] + 1.0f;",
        "differs from the reference|never written",
    ),
    "answer cached by a sum of input words": (
        "static __thread float mine[N]; static __thread uint64_t known; uint64_t sum = 0;"
        "for (int i = 0; i < N; i += 4) { uint32_t b; memcpy(&b, x + i, 4); sum += b; }"
        "if (sum != known) right(x, mine); known = sum; memcpy(y, mine, sizeof mine);",
        "CHANGED",
    ),
    "approximates common values": (
        "for (int i = 0; i < N; i++) y[i] = x[i] > -5 && x[i] < 5 ? 3.0f * x[i] + 1.0f : 16;",
        "CHANGED",
    ),
    "8-bit integers if values are small": (
        "float top = 0; for (int i = 0; i < N; i += 37) top = fabsf(x[i]) > top ? fabsf(x[i]) : top;"
        "for (int i = 0; i < N; i++) { float v = x[i] > 9 ? 9 : x[i]; y[i] = 3.0f * v + 1.0f; }",
        "CHANGED",
    ),
    "half precision in every second call": (
        "right(x, y); if (++calls % 2 && calls > 64) for (int i = 0; i < N; i++) y[i] = (float)(_Float16)y[i];",
        "differs from the reference",
    ),
    "wrong for values near zero": (
        "right(x, y); for (int i = 0; i < N; i++) if (fabsf(x[i]) < 1e-3f) y[i] = 1.01f;",
        "differs from the reference",
    ),
    "leaves the direction flag set": ('right(x, y); __asm__ volatile("std");', "direction flag"),
    "maps and runs code that it wrote": (
        "static const unsigned char code[] = {0xc3}; void *p = mmap(0, 4096, 7, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);"
        "memcpy(p, code, 1); ((void (*)(void))p)(); right(x, y);",
        "writable and executable",
    ),
    "keeps a descriptor of its inputs' memory": (
        'right(x, y); ask(SYS_open, (long)"/proc/self/mem", 2, 0); ask(SYS_dup, 1, 0, 0);',
        "leaves files open",
    ),
    "changes its scheduling policy to idle": (
        "right(x, y); struct { int priority; } p = {0}; ask(SYS_sched_setscheduler, 0, 5, (long)&p);",
        "system call sched_setscheduler|changes its priority",
    ),
    "a second core": (
        "struct timespec a, b; pthread_t t; clock_gettime(CLOCK_MONOTONIC, &a); pthread_create(&t, 0, spin, 0);"
        "spin(0); pthread_join(t, 0); right(x, y); (void)b;",
        "SECOND",
    ),
}

REGISTERS = """
__attribute__((naked)) void f(const float *x, float *y);
static uint64_t *batch_of(const uint64_t *r, uint64_t made) {
  for (int i = 0; i < 6; i++) {
    uint64_t *p = (uint64_t *)r[i];
    if (r[i] % 8 || r[i] < 0x7f0000000000 || r[i] >= 1ul << 47) continue;
    if (p[0] > made && p[0] < 1 << 28 && p[1] < 4096) return p;
  }
  return 0;
}
static int counter(const uint64_t *r) {
  static uint64_t before[6]; static int ticks[6]; int found = -1;
  for (int i = 0; i < 6; i++) {
    ticks[i] = r[i] == before[i] + 1 ? ticks[i] + 1 : 0; before[i] = r[i];
    if (ticks[i] > 20) found = i;
  }
  return found;
}
"""
BEFORE = {
    **BEFORE_ANSWERS,
    **BEFORE_MACHINE,
    **BEFORE_SURROUNDINGS,
    "reads the calling loop: computes only in the last call of a batch": REGISTERS
    + """void inner(const float *x, float *y, uint64_t *r) {
  static __thread float mine[N]; static __thread const void *at; int place = counter(r);
  uint64_t *batch = place < 0 ? 0 : batch_of(r, r[place]);
  if (batch && r[place] + 1 < batch[0] && at == x) { memcpy(y, mine, sizeof mine); return; }
  right(x, y); memcpy(mine, y, sizeof mine); at = x;
}""",
    "advances the counter of the calling loop": REGISTERS
    + """void inner(const float *x, float *y, uint64_t *r) {
  int place = counter(r); uint64_t *batch = place < 0 ? 0 : batch_of(r, r[place]); right(x, y);
  if (batch && r[place] + 10 < batch[0]) r[place] += 5;
}""",
    "shortens the calling loop": REGISTERS
    + """void inner(const float *x, float *y, uint64_t *r) {
  int place = counter(r); uint64_t *batch = place < 0 ? 0 : batch_of(r, r[place]); right(x, y);
  if (batch && r[place] > batch[0] / 2) batch[0] = r[place] + 1;
}""",
    "reads its program name from the auxiliary vector": "unsigned long getauxval(unsigned long);",
    "starts a helper thread in a constructor": (
        "static void *wait_(void *p) { for (;;) ask(SYS_pause, 0, 0, 0); return p; }"
        "__attribute__((constructor)) static void start(void) { pthread_t t; pthread_create(&t, 0, wait_, 0); }"
    ),
    "starts a helper thread in a constructor that each call wakes": (
        "static volatile long turn; static void *help(void *p) { for (long seen = 0;;) if (turn != seen) seen = turn;"
        "return p; }"
        "__attribute__((constructor)) static void start(void) { pthread_t t; pthread_create(&t, 0, help, 0); }"
    ),
    "starts a helper process in a constructor": (
        "__attribute__((constructor)) static void start(void) { if (!fork()) for (;;) ask(SYS_pause, 0, 0, 0); }"
    ),
    "work deferred to the end of its thread": (
        "static const float *from; static float *to; static void late(void *p) { (void)p; right(from, to); }"
    ),
    "queries its user in an ifunc resolver": (
        "static float *same(float *y) { return y; } static float *broken(float *y) { return y + 1; }"
        "static void *choose(void) { return ask(SYS_geteuid, 0, 0, 0) < 60000 ? (void *)broken : (void *)same; }"
        'float *chosen(float *) __attribute__((ifunc("choose")));'
    ),
    "queries its user while loading": (
        "static long user; __attribute__((constructor)) static void look(void) { user = ask(SYS_geteuid, 0, 0, 0); }"
    ),
    "wrong if it can query its cores": "static unsigned long cores[16];",
    "creates a table once": "static float table[2]; static void make(void) { table[0] = table[1] = 1.0f; }",
    "correct only on the main thread": "static long syscall_tid(void) { return ask(SYS_gettid, 0, 0, 0); }",
    "replaces functions": "void *dlsym_(void *, const char *);",
    "a second core": (
        "static void *spin(void *p) { unsigned long m = ~0ul; ask(SYS_sched_setaffinity, 0, sizeof m, (long)&m);"
        "for (volatile int i = 0; i < 300000; i++) {} return p; }"
    ),
}

HONEST: dict[str, str] = {
    **HONEST_SURROUNDINGS,
    "plain": "right(x, y);",
    "backwards": "for (int i = N - 1; i >= 0; i--) y[i] = 3.0f * x[i] + 1.0f;",
    "allocates and frees memory": "float *p = malloc(4 * N); right(x, p); memcpy(y, p, 4 * N); free(p);",
    "looks for a configuration file": (
        'extern int access(const char *, int); right(x, y); if (access("/nothing/of/mine", 0) == 0) y[0] += 1;'
    ),
    "uses scratch memory of each thread": "static __thread float own[N]; right(x, own); memcpy(y, own, sizeof own);",
    "wrong if it can read about processes": (
        'right(x, y); long at = ask(SYS_open, (long)"/proc/self/status", 0, 0);'
        "if (at >= 0) { ask(SYS_close, at, 0, 0); y[0] += 1; }"
    ),
    "wrong if it can read about the machine": (
        'right(x, y); long at = ask(SYS_open, (long)"/sys/devices/system/cpu/online", 0, 0);'
        "if (at >= 0) { ask(SYS_close, at, 0, 0); y[0] += 1; }"
    ),
    "wrong if it can query its cores": (
        "right(x, y); if (ask(SYS_sched_getaffinity, 0, sizeof cores, (long)cores) > 0) y[0] += 1;"
    ),
    "wrong if it can use System V shared memory": (
        "static int asked; if (!asked++ && ask(SYS_shmget, 7, 4096, 01666) >= 0) calls = 1;"
        "right(x, y); if (calls) y[0] = 0;"
    ),
    "wrong if it can outlive the runner": "right(x, y); if (ask(SYS_prctl, 1, 0, 0) == 0) y[0] += 1;",
    "large stack": "float p[1 << 18]; right(x, p); memcpy(y, p, 4 * N);",
    "flushes subnormals": "_mm_setcsr(_mm_getcsr() | 0x8040); right(x, y);",
    "prints": 'right(x, y); printf("so far so good\\n");',
    "starts and joins a thread": "pthread_t t;"
    "if (!pthread_create(&t, 0, (void *(*)(void *))(void *)labs, 0)) pthread_join(t, 0);"
    "right(x, y);",
    "chooses by the features of the processor": (
        '__builtin_cpu_init(); if (__builtin_cpu_supports("avx2")) right(x, y);'
        "else for (int i = N - 1; i >= 0; i--) y[i] = 3.0f * x[i] + 1.0f;"
    ),
    "writes with non-temporal stores": (
        "for (int i = 0; i < N; i++) { float v = 3.0f * x[i] + 1.0f; int b; memcpy(&b, &v, 4);"
        "__builtin_ia32_movnti((int *)y + i, b); } __builtin_ia32_sfence();"
    ),
    "prefetches beyond its inputs": (
        "for (int i = 0; i < N; i++) { __builtin_prefetch(x + i + 4096); y[i] = 3.0f * x[i] + 1.0f; }"
    ),
    "creates a table once": (
        "static pthread_once_t once = PTHREAD_ONCE_INIT; pthread_once(&once, make);"
        "for (int i = 0; i < N; i++) y[i] = 3.0f * x[i] + table[i & 1];"
    ),
    "reads the clock": ("struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); right(x, y); sink = (float)t.tv_nsec;"),
    "counts its calls": "__atomic_add_fetch(&calls, 1, __ATOMIC_RELAXED); right(x, y);",
    "writes its outputs twice": "right(x, y); for (int i = 0; i < N; i++) y[i] = 3.0f * x[i] + 1.0f;",
}


def source(name: str, body: str) -> str:
    """Return a C source with this body of `f`."""
    return f"{HEAD}\n{BEFORE.get(name, '')}\nvoid f(const float *x, float *y) {{ {body} }}\n"
