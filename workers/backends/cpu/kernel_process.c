/*
 * The kernel process: loads one shared library, and calls one of its functions when the runner requests it.
 *
 * The process has no reference, no expected outputs and no pipe of the worker. Buffers are files that the runner owns.
 * Inputs are mapped read-only, with inaccessible pages before and after them. The runner checks what this process reports
 * (workers/backends/cpu/kernel_process.py). The messages are described in process/messages.py.
 *
 * Usage: kernel_process SOCKET LIBRARY UID PARENT MEMORY_BYTES READABLE SEARCHED CORE...
 * READABLE and SEARCHED are paths separated by colons (process/library_folders.py).
 */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>
#ifdef __linux__
#include <elf.h>
#include <grp.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <linux/securebits.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/syscall.h>
#endif

enum { HELLO, LOAD, MAP, TABLE, RUN, POPULATE, FINISH };                 /* requests; HELLO is only a reply */
enum { OTHER_USER = 1, LANDLOCKED = 2, FILTERED = 4 };                   /* isolation measures in force */
enum { OWN_THREAD = 1, EXAMINE = 2, PERTURB = 4, BEHIND = 8, TOGETHER = 16, GUARDED = 32 }; /* flags of RUN */
enum { WRITABLE = 1, PACED = 2 };                                        /* flags of MAP */
enum { ROUNDING = 1, X87 = 2, HANDLERS = 4, TIMERS = 8, MASKS = 16, DIRECTION = 32, X87_REGISTERS = 64,
       KEYS = 128, SAVED_REGISTERS = 256 }; /* state that calls changed; from SAVED_REGISTERS on, one bit per register */
enum { FAILED = -1, FAULT = -2 };                                        /* status of a reply; 0: success */
enum { MOST_KEYS = 64 }; /* thread-specific keys that libraries may keep */
enum { STACKED = 24, FLOATS = 8, PAGE = 4096, APRON = 1 << 20 };
enum { MOST_ORDERS = 1 << 14 }; /* maximum number of set indices in a RUN request */
enum { HUGE_PAGE = 1 << 21 };
#define LOWEST (1ull << 33)
#define HIGHEST ((1ull << 47) - (1ull << 36)) /* the stack is above */
#define HEAP (0x55ull << 40)                  /* the system places the heap of most programs in these 2 TiB */
#define HEAP_BYTES (2ull << 40)

struct request {
    uint32_t kind, bytes; /* bytes: size of the payload */
    uint64_t count, first, flags, stack_bytes;
};
struct reply {
    int64_t status;
    uint64_t values[6];
    uint64_t bytes; /* size of the text that follows */
};

static int channel, limited, privileged;
static pid_t own;
static void (*function)(void), (*called)(void); /* called: the kernel, or `guarded`, which calls it */
static uint64_t *table, sets, width, floats;
static const struct write { uint64_t to, from, bytes, pattern; } *writes; /* memory writes before a call, for each set: */
static uint64_t restored, filled;                                        /* first those of restored arguments, then of filled ones */
static uint32_t order[MOST_ORDERS]; /* set indices of consecutive calls, unless the sets are used in rotation */
static uint64_t stale = UINT64_MAX; /* set whose arguments the last call changed and that is not restored yet */
static struct sigaction expected[NSIG];
static char fault_stack[1 << 16];
static void *volatile heap_end; /* block at the end of the heap, never freed; volatile, so that it is allocated */

static void send_all(const void *from, size_t bytes) {
    for (const char *at = from; bytes;) {
        const ssize_t sent = write(channel, at, bytes);
        if (sent < 0 && errno == EINTR) continue;
        if (sent <= 0) _exit(1);
        at += sent, bytes -= (size_t)sent;
    }
}

static void answer(int64_t status, const uint64_t values[6], const char *text) {
    struct reply reply = {.status = status, .bytes = text ? strlen(text) : 0};
    if (getpid() != own) _exit(1); /* a forked copy of this process must not reply */
    if (values) memcpy(reply.values, values, sizeof reply.values);
    send_all(&reply, sizeof reply);
    if (reply.bytes) send_all(text, reply.bytes);
}

static void receive(void *into, size_t bytes) {
    for (char *at = into; bytes;) {
        const ssize_t got = read(channel, at, bytes);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) _exit(0); /* the runner closed the connection */
        at += got, bytes -= (size_t)got;
    }
}

/* --- isolation of this process from the runner -------------------------------------------------------------------- */

#ifdef __linux__
#ifndef SYS_landlock_create_ruleset
#define SYS_landlock_create_ruleset 444
#define SYS_landlock_add_rule 445
#define SYS_landlock_restrict_self 446
#endif
#ifndef SYS_fchmodat2
#define SYS_fchmodat2 452
#endif
#ifndef SYS_setxattrat
#define SYS_setxattrat 463
#define SYS_getxattrat 464
#define SYS_listxattrat 465
#define SYS_removexattrat 466
#endif
#ifndef SYS_file_getattr
#define SYS_file_getattr 468
#define SYS_file_setattr 469
#endif
enum { READ_FILE = 1 << 2, READ_DIR = 1 << 3 };
enum { SET_GS = 0x1001, SET_FS = 0x1002, SET_CPUID = 0x1012 };
enum { ADVICE_COLD = 20, ADVICE_PAGEOUT = 21, ADVICE_COLLAPSE = 25, ADVICE_SOFT_OFFLINE = 101, NAME_MEMORY = 0x53564d41 }; /* some headers lack these */
#if defined(__x86_64__)
#define ARCHITECTURE AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define ARCHITECTURE AUDIT_ARCH_AARCH64
#endif

/* Allow reading an open file or, if it is a folder, everything in it, and close it. */
static void allow(int ruleset, int file) {
    struct { uint64_t rights; int32_t parent; } __attribute__((packed)) rule = {READ_FILE | READ_DIR, file};
    if (syscall(SYS_landlock_add_rule, ruleset, 1, &rule, 0)) { /* fails for a file, because READ_DIR applies only to folders */
        rule.rights = READ_FILE;
        syscall(SYS_landlock_add_rule, ruleset, 1, &rule, 0);
    }
    close(file);
}

/* Allow reading the shared libraries in a folder, but no other file. The candidate's library names its search folders,
 * so it could name any folder of the worker's user. */
static void allow_libraries(int ruleset, const char *folder) {
    DIR *entries = opendir(folder);
    if (!entries) return;
    for (struct dirent *entry; (entry = readdir(entries));) {
        Elf64_Ehdr head; /* the fields that are compared have the same places in 32-bit files */
        if (!strstr(entry->d_name, ".so")) continue;
        const int file = openat(dirfd(entries), entry->d_name, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
        if (pread(file, &head, sizeof head, 0) == sizeof head && !memcmp(head.e_ident, ELFMAG, SELFMAG) && head.e_type == ET_DYN)
            allow(ruleset, file);
        else
            close(file);
    }
    closedir(entries);
}

/* Forbid reading other files, writing and creating files, starting programs, using ports and, from ABI 6 on, signals to
 * other processes. Landlock always forbids tracing other processes and reading their memory. */
static int landlock(char *readable, char *searched) {
    struct { uint64_t files, net, scoped; } rules = {0};
    const long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, 1);
    if (abi < 1) return 0;
    rules.files = (1u << 13) - 1;                         /* EXECUTE, WRITE_FILE, reading, creating and removing */
    if (abi >= 2) rules.files |= 1u << 13;                /* REFER */
    if (abi >= 3) rules.files |= 1u << 14;                /* TRUNCATE */
    if (abi >= 4) rules.net = 3;
    if (abi >= 6) rules.scoped = 3;
    const size_t size = abi >= 6 ? 24 : abi >= 4 ? 16 : 8;
    const long ruleset = syscall(SYS_landlock_create_ruleset, &rules, size, 0);
    if (ruleset < 0) return 0;
    for (char *path = strtok(readable, ":"); path; path = strtok(NULL, ":")) {
        const int file = open(path, O_PATH | O_CLOEXEC);
        if (file >= 0) allow((int)ruleset, file);
    }
    for (char *folder = strtok(searched, ":"); folder; folder = strtok(NULL, ":")) allow_libraries((int)ruleset, folder);
    const long held = syscall(SYS_landlock_restrict_self, ruleset, 0);
    close((int)ruleset);
    return held == 0;
}

#ifdef ARCHITECTURE
#define STATEMENT(code, k) {(code), 0, 0, (k)}
#define JUMP(code, k, yes, no) {(code), (yes), (no), (k)}
#define LOW(index) STATEMENT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[index]))
#define NUMBER STATEMENT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr))
#define REFUSE STATEMENT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM)
#define END STATEMENT(BPF_RET | BPF_K, SECCOMP_RET_TRAP) /* ends this process; the handler reports the name of the system call */
#define DENY(name) JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_##name, 0, 1), REFUSE
#define ENDS(name) JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_##name, 0, 1), END,
/* like ENDS, unless the first argument is this process */
#define ENDS_OTHERS(name)                                                                                             \
    JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_##name, 0, 4), LOW(0), JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)own, 1, 0),  \
        END, NUMBER
/* like ENDS_OTHERS, but the first argument may also be 0, which means this process */
#define ENDS_OUTSIDE(name)                                                                                            \
    JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_##name, 0, 5), LOW(0), JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 2, 0),               \
        JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)own, 1, 0), END, NUMBER
/* ends this process if the argument that was loaded before equals `option` */
#define ENDS_OPTION(option) JUMP(BPF_JMP | BPF_JEQ | BPF_K, option, 0, 1), END

/* System calls that neither kernels nor their libraries need: they reveal the environment, affect other processes, or
 * change attributes of the process, of files or of the machine. */
#define AMONG_ALL(X)                                                                                                  \
    X(getuid) X(geteuid) X(getgid) X(getegid) X(getresuid) X(getresgid) X(getgroups) X(getppid) X(getpgid) X(getsid)  \
    X(getpriority) X(getrusage) X(getcpu) X(sched_getattr) X(capget) X(syslog)                                        \
    X(ptrace) X(process_vm_readv) X(process_vm_writev) X(kcmp) X(bpf) X(perf_event_open) X(mount) X(unshare)          \
    X(setns) X(keyctl) X(add_key) X(request_key) X(rt_sigqueueinfo) X(rt_tgsigqueueinfo) X(tkill) X(execve)           \
    X(execveat) X(msgget) X(semget) X(mq_open) X(socket) X(socketpair) X(connect) X(bind) X(sendto) X(sendmsg)        \
    X(sendmmsg) X(recvfrom) X(recvmmsg) X(getsockopt) X(setsockopt) X(getsockname) X(getpeername) X(shutdown)         \
    X(accept) X(accept4) X(listen) X(membarrier) X(seccomp) X(vmsplice)                                               \
    X(fchmod) X(fchmodat) X(fchmodat2) X(fchown) X(fchownat) X(file_getattr) X(file_setattr) X(quotactl)              \
    X(setxattr) X(lsetxattr) X(fsetxattr) X(setxattrat) X(getxattr) X(lgetxattr) X(fgetxattr) X(getxattrat)           \
    X(listxattr) X(llistxattr) X(flistxattr) X(listxattrat) X(removexattr) X(lremovexattr) X(fremovexattr)            \
    X(removexattrat) X(name_to_handle_at) X(open_by_handle_at)                                                        \
    X(utimensat) X(umask) X(chdir) X(fchdir) X(chroot) X(sync) X(syncfs) X(flock) X(personality) X(sched_setattr)     \
    X(ioprio_set) X(set_mempolicy) X(setuid) X(setgid) X(setreuid) X(setregid) X(setresuid) X(setresgid)              \
    X(setgroups) X(capset) X(setsid) X(setpgid) X(settimeofday) X(clock_settime) X(adjtimex) X(clock_adjtime)       \
    X(set_tid_address) X(setpriority) X(sched_setscheduler) X(sched_setparam) X(move_pages) X(migrate_pages)         \
    X(remap_file_pages) X(io_setup) X(inotify_init1) X(fanotify_init) X(mincore) X(mbind)                            \
    X(landlock_create_ruleset) X(landlock_add_rule) X(landlock_restrict_self)
#ifdef SYS_chmod
#define BY_PATH(X) X(getpgrp) X(fork) X(vfork) X(chmod) X(chown) X(lchown) X(utime) X(utimes) X(futimesat) X(inotify_init) X(modify_ldt)
#else
#define BY_PATH(X)
#endif
#ifndef SYS_mseal
#define SYS_mseal 462
#endif
#ifdef SYS_process_madvise
#define RECENT(X) X(mseal) X(pkey_alloc) X(pkey_free) X(pkey_mprotect) X(process_madvise) X(pidfd_getfd) X(pidfd_open) X(pidfd_send_signal) X(userfaultfd) X(io_uring_setup)
#else
#define RECENT(X)
#endif
#define NEEDLESS(X) AMONG_ALL(X) BY_PATH(X) RECENT(X)

/* Function that runs once and is compiled without optimisation. Optimising the stores of the long filter takes three
 * quarters of the time of compiling this program, and the first search on a machine waits for this program. */
#ifdef __clang__
#define RUNS_ONCE __attribute__((optnone))
#else
#define RUNS_ONCE __attribute__((optimize("O0")))
#endif

/* Install the seccomp filter. Libraries for threads query the allowed cores. With a single thread, this query is refused,
 * because it would only reveal the environment to a kernel. */
RUNS_ONCE static int filter(int threads) {
    const struct sock_filter code[] = {
        STATEMENT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch)),
        JUMP(BPF_JMP | BPF_JEQ | BPF_K, ARCHITECTURE, 1, 0),
        STATEMENT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
        NUMBER,
#ifdef __x86_64__ /* refuse the x32 ABI, which has other numbers for the same calls */
        JUMP(BPF_JMP | BPF_JGE | BPF_K, 0x40000000, 0, 1), STATEMENT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
#endif
        NEEDLESS(ENDS)
        DENY(shmget), DENY(shmat), /* libraries for linear algebra try these to get memory */
        DENY(ioctl), /* the C library tries it on the output */
        JUMP(BPF_JMP | BPF_JEQ | BPF_K, threads == 1 ? SYS_sched_getaffinity : UINT32_MAX, 0, 1), REFUSE,
        ENDS_OTHERS(kill), ENDS_OTHERS(tgkill), ENDS_OUTSIDE(prlimit64),
        /* allow new threads, but no new processes; clone3 fails, because a filter cannot read its arguments */
#ifdef SYS_clone3
        JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone3, 0, 1), STATEMENT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
#endif
        JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 0, 4), LOW(0), JUMP(BPF_JMP | BPF_JSET | BPF_K, CLONE_THREAD, 1, 0), END, NUMBER,
        /* allow hints about memory, except those that affect pages of other processes */
        JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_madvise, 0, 18), LOW(2), ENDS_OPTION(MADV_DONTFORK),
        ENDS_OPTION(MADV_REMOVE), ENDS_OPTION(MADV_MERGEABLE), ENDS_OPTION(MADV_HWPOISON), ENDS_OPTION(ADVICE_COLD),
        ENDS_OPTION(ADVICE_PAGEOUT), ENDS_OPTION(ADVICE_COLLAPSE), ENDS_OPTION(ADVICE_SOFT_OFFLINE), NUMBER,
        /* refuse changed flags of open files */
        JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_fcntl, 0, 4), LOW(1), ENDS_OPTION(F_SETFL), NUMBER,
        JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_recvmsg, 0, 4), LOW(2), /* flags must be 0, as in `map`: MSG_PEEK would show the next request */
        JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 1, 0), END, NUMBER,
#ifdef SYS_arch_prctl /* refuse changes of segment bases and of CPUID faulting; requests for larger registers are allowed */
        JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_arch_prctl, 0, 8), LOW(0),
        ENDS_OPTION(SET_GS), ENDS_OPTION(SET_FS), ENDS_OPTION(SET_CPUID), NUMBER,
#endif
#ifdef SYS_rseq /* threads may register restartable sequences, but not unregister them */
        JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_rseq, 0, 4), LOW(2), JUMP(BPF_JMP | BPF_JSET | BPF_K, 1, 0, 1), END, NUMBER,
#endif
        JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_prctl, 0, 15), LOW(0), /* this process must not outlive the runner: */
        JUMP(BPF_JMP | BPF_JEQ | BPF_K, PR_SET_PDEATHSIG, 0, 1), REFUSE,
        /* answer as in a process without filter, so that a kernel cannot recognise this process */
        JUMP(BPF_JMP | BPF_JEQ | BPF_K, PR_GET_SECCOMP, 0, 1), STATEMENT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | 0),
        JUMP(BPF_JMP | BPF_JEQ | BPF_K, PR_GET_NO_NEW_PRIVS, 0, 1), STATEMENT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | 0),
        /* allow names of threads and memory, and queries; the other options change the process or the processor */
        JUMP(BPF_JMP | BPF_JEQ | BPF_K, PR_SET_NAME, 7, 0), JUMP(BPF_JMP | BPF_JEQ | BPF_K, NAME_MEMORY, 6, 0),
        JUMP(BPF_JMP | BPF_JEQ | BPF_K, PR_GET_NAME, 5, 0), JUMP(BPF_JMP | BPF_JEQ | BPF_K, PR_GET_DUMPABLE, 4, 0),
        JUMP(BPF_JMP | BPF_JEQ | BPF_K, PR_CAPBSET_READ, 3, 0), JUMP(BPF_JMP | BPF_JEQ | BPF_K, PR_GET_THP_DISABLE, 2, 0),
        JUMP(BPF_JMP | BPF_JEQ | BPF_K, PR_GET_TIMERSLACK, 1, 0), END,
        STATEMENT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const struct sock_fprog program = {sizeof code / sizeof *code, (struct sock_filter *)code};
    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}
#else
static int filter(int threads) { return (void)threads, 0; }
#endif

/* Set the capabilities of this process: use these, and give up all others. */
static int hold(uint32_t capabilities) {
    struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    const struct __user_cap_data_struct held[2] = {{.effective = capabilities, .permitted = capabilities}};
    return syscall(SYS_capset, &header, held) == 0;
}

/* Change the user. With Landlock, keep the capability to enter private folders, so that access() finds the same files as
 * for a worker that is not root. Landlock ignores capabilities, and decides which files this process can read. */
static int change_user(uid_t user, int landlocked) {
    if (landlocked) prctl(PR_SET_SECUREBITS, SECBIT_NO_SETUID_FIXUP, 0, 0, 0); /* else access() would ignore the capability */
    if (setgroups(0, NULL) || setresgid(user, user, user) || setresuid(user, user, user)) return 0;
    if (!(landlocked && hold(1u << CAP_DAC_READ_SEARCH)) && !hold(0)) _exit(1);
    return 1;
}

static uint64_t separate(uid_t user, pid_t parent, char *readable, char *searched, int threads) {
    uint64_t level = 0;
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    level |= landlock(readable, searched) ? LANDLOCKED : 0; /* before the change of the user, who may not open all folders */
    if (user != 0 && geteuid() == 0) level |= change_user(user, level & LANDLOCKED) ? OTHER_USER : 0;
    prctl(PR_SET_DUMPABLE, 1); /* required to open the library by its descriptor */
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* set after the change of the user, which clears it */
    if (getppid() != parent) _exit(1);
    level |= filter(threads) ? FILTERED : 0;
    /* without the filter, the capability would reveal more than the existence of files */
    if (level & OTHER_USER && !(level & FILTERED) && !hold(0)) _exit(1);
    return level;
}
#else
static uint64_t separate(uid_t user, pid_t parent, char *readable, char *searched, int threads) {
    return (void)user, (void)parent, (void)readable, (void)searched, (void)threads, 0;
}
#endif

static void limit(int which, rlim_t most) {
    struct rlimit now;
    if (getrlimit(which, &now)) return;
    if (most < now.rlim_max) now.rlim_max = most;
    now.rlim_cur = now.rlim_max;
    setrlimit(which, &now);
}

/* Increase the memory limit. The buffers that the runner maps are added to the memory that the kernel may allocate. */
static void allow_memory(rlim_t bytes) {
    static rlim_t allowed;
    struct rlimit now;
    if (bytes == 0 || getrlimit(RLIMIT_AS, &now)) return;
    allowed += bytes;
    if (privileged) now.rlim_max = RLIM_INFINITY; /* the limit that was inherited from the runner is meant for the runner */
    now.rlim_cur = allowed < now.rlim_max ? allowed : now.rlim_max;
    setrlimit(RLIMIT_AS, &now);
}

/* --- faults -------------------------------------------------------------------------------------------------------- */

static void fault(int number, siginfo_t *info, void *context) {
    uint64_t writes = 2; /* 2: unknown */
#if defined(__linux__) && defined(__x86_64__)
    enum { GENERAL_PROTECTION = 13 }; /* trap of an unaligned operand; an inaccessible page causes a different trap */
    const greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
    writes = registers[REG_TRAPNO] == GENERAL_PROTECTION ? 3 : registers[REG_ERR] >> 1 & 1;
#else
    (void)context;
#endif
    const uint64_t values[6] = {(uint64_t)number, (uint64_t)(uintptr_t)info->si_addr, writes};
    answer(FAULT, values, NULL);
    signal(number, SIG_DFL);
    raise(number);
}

#ifdef __linux__
/* Report a system call that ends the process. */
static void ended_by_call(int number, siginfo_t *info, void *context) {
    static const struct { long call; const char *name; } names[] = {
#ifdef ARCHITECTURE
#define NAMED(name) {SYS_##name, #name},
        NEEDLESS(NAMED)
#endif
        {SYS_clone, "clone"}, {SYS_prctl, "prctl"}, {SYS_kill, "kill"}, {SYS_tgkill, "tgkill"}, {SYS_madvise, "madvise"},
        {SYS_recvmsg, "recvmsg"}, {SYS_prlimit64, "prlimit64"}, {SYS_fcntl, "fcntl"},
#ifdef SYS_arch_prctl
        {SYS_arch_prctl, "arch_prctl"},
#endif
#ifdef SYS_rseq
        {SYS_rseq, "rseq"},
#endif
    };
    const uint64_t values[6] = {(uint64_t)number};
    const char *name = "one that no kernel needs";
    (void)context;
    for (size_t place = 0; place < sizeof names / sizeof *names; place++)
        if (names[place].call == info->si_syscall) name = names[place].name;
    answer(FAULT, values, name);
    _exit(1);
}
#endif

static void watch_faults(void) {
    const stack_t alternative = {.ss_sp = fault_stack, .ss_size = sizeof fault_stack};
    sigaltstack(&alternative, NULL);
    struct sigaction action = {.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESETHAND};
    action.sa_sigaction = fault;
    sigaction(SIGSEGV, &action, NULL);
    sigaction(SIGBUS, &action, NULL);
#ifdef __linux__
    action.sa_sigaction = ended_by_call;
    sigaction(SIGSYS, &action, NULL);
#endif
    for (int number = 1; number < NSIG; number++) sigaction(number, NULL, &expected[number]);
}

static uint64_t changed_handlers(void) {
    for (int number = 1; number < NSIG; number++) {
        struct sigaction now;
        if (sigaction(number, NULL, &now)) continue;
        if (now.sa_sigaction != expected[number].sa_sigaction || now.sa_flags != expected[number].sa_flags)
            return (uint64_t)number;
    }
    stack_t now;
    return sigaltstack(NULL, &now) == 0 && now.ss_sp != fault_stack ? SIGSEGV : 0;
}

/* Return 1 if calls created thread-specific keys and did not delete them. A process has about a thousand keys. */
static int lost_keys(void) {
    static pthread_key_t first;
    static int known;
    pthread_key_t now;
    if (pthread_key_create(&now, NULL)) return 1;
    pthread_key_delete(now);
    if (!known++) first = now;
    return now > first + MOST_KEYS;
}

static int armed_timers(void) {
    for (int which = ITIMER_REAL; which <= ITIMER_PROF; which++) {
        struct itimerval timer;
        if (getitimer(which, &timer) == 0 && (timer.it_value.tv_sec || timer.it_value.tv_usec)) return 1;
    }
    return 0;
}

/* --- calls --------------------------------------------------------------------------------------------------------- */

typedef struct { unsigned control, x87, flags, empty; } Modes; /* empty: two tag bits per x87 register */

#if defined(__x86_64__)
enum { STATUS_BITS = 0x3f, ROUNDING_BITS = 0x6000, MASK_BITS = 0x1f80, PRECISION_BITS = 0x300, FLAG_BITS = 0x400 };
enum { X87_ROUNDING_BITS = 0xc00, X87_MASK_BITS = 0x3f };
static Modes modes(void) {
    unsigned control;
    uint16_t x87[14]; /* in the layout of fnstenv: control, status and tags, each at the start of 32 bits */
    __asm__ volatile("stmxcsr %0" : "=m"(control));
    __asm__ volatile("fnstenv %0\n\tfldcw %0" : "=m"(x87)); /* fnstenv masks the exceptions; fldcw restores the masks */
    return (Modes){control & ~(unsigned)STATUS_BITS, x87[0], (unsigned)__builtin_ia32_readeflags_u64() & FLAG_BITS, x87[4]};
}
static void set_modes(Modes to) {
    const unsigned short x87 = (unsigned short)to.x87;
    __asm__ volatile("ldmxcsr %0" ::"m"(to.control));
    __asm__ volatile("emms\n\tfldcw %0\n\tcld" ::"m"(x87));
}
#elif defined(__aarch64__)
enum { ROUNDING_BITS = 0xc00000, MASK_BITS = 0x9f00, PRECISION_BITS = 0, X87_ROUNDING_BITS = 0, X87_MASK_BITS = 0 };
static Modes modes(void) {
    uint64_t control;
    __asm__ volatile("mrs %0, fpcr" : "=r"(control));
    return (Modes){(unsigned)control, 0, 0, 0};
}
static void set_modes(Modes to) { __asm__ volatile("msr fpcr, %0" ::"r"((uint64_t)to.control)); }
#else
enum { ROUNDING_BITS = 0, MASK_BITS = 0, PRECISION_BITS = 0, X87_ROUNDING_BITS = 0, X87_MASK_BITS = 0 };
static Modes modes(void) { return (Modes){0, 0, 0, 0}; }
static void set_modes(Modes to) { (void)to; }
#endif

#if defined(__x86_64__) && defined(__ELF__)
enum { KEPT = 7 }; /* callee-saved registers, in the order of process/faults.py */
static uint64_t registers[2 * KEPT + 4] __asm__("registers") __attribute__((used)); /* values before and after the call, return address, function, fill, clean */

#define ONES(NUMBER) "vmovaps %ymm15, %ymm" #NUMBER "\n"
#define WIDE_ONES(NUMBER) "vmovdqa64 %zmm15, %zmm" #NUMBER "\n"
#define UPPER(NUMBER) "vinsertf128 $1, %xmm15, %ymm" #NUMBER ", %ymm" #NUMBER "\n"
#define WIDE_UPPER(NUMBER) UPPER(NUMBER) "vinsertf64x4 $1, %ymm15, %zmm" #NUMBER ", %zmm" #NUMBER "\n"
#define MASK(NUMBER) "kxnorw %k" #NUMBER ", %k" #NUMBER ", %k" #NUMBER "\n"
#define FROM_0(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7)
#define FROM_8(X) X(8) X(9) X(10) X(11) X(12) X(13) X(14)
#define FROM_16(X) X(16) X(17) X(18) X(19) X(20) X(21) X(22) X(23) X(24) X(25) X(26) X(27) X(28) X(29) X(30) X(31)

/* Fill vector registers and masks with ones, except the lower parts of the registers that contain arguments. */
__asm__(
    ".pushsection .text\n.p2align 4\n.type fill_avx512, @function\nfill_avx512:\n"
    "vpternlogd $0xff, %zmm15, %zmm15, %zmm15\n" FROM_8(WIDE_ONES) FROM_16(WIDE_ONES) FROM_0(WIDE_UPPER) FROM_0(MASK)
    "ret\n.size fill_avx512, .-fill_avx512\n.type fill_avx, @function\nfill_avx:\n"
    "vcmpps $0xf, %ymm15, %ymm15, %ymm15\n" FROM_8(ONES) FROM_0(UPPER)
    "ret\n.size fill_avx, .-fill_avx\n.type clean_avx, @function\nclean_avx:\n"
    "vzeroupper\n.type do_nothing, @function\ndo_nothing:\nret\n"
    ".size clean_avx, .-clean_avx\n.size do_nothing, .-do_nothing\n.popsection\n");
extern void fill_avx512(void) __attribute__((visibility("hidden")));
extern void fill_avx(void) __attribute__((visibility("hidden")));
extern void clean_avx(void) __attribute__((visibility("hidden")));
extern void do_nothing(void) __attribute__((visibility("hidden")));

/* Calls the kernel with the same stack and arguments. Registers that the kernel must restore get unusual values, and
 * registers that it must not read before it writes to them get values other than zero. All floating-point status flags
 * are set, because a caller may have set them. */
__asm__(
    ".pushsection .text\n.p2align 4\n.type guarded, @function\nguarded:\n"
    "popq 112+registers(%rip)\n"
    "movq %rbx, registers(%rip)\nmovq %rbp, 8+registers(%rip)\nmovq %r12, 16+registers(%rip)\n"
    "movq %r13, 24+registers(%rip)\nmovq %r14, 32+registers(%rip)\nmovq %r15, 40+registers(%rip)\n"
    "movq %rsp, 48+registers(%rip)\n"
    "movl $0x51ed0b01, %ebx\nmovl $0x51ed0b02, %ebp\nmovl $0x51ed0b03, %r12d\nmovl $0x51ed0b04, %r13d\n"
    "movl $0x51ed0b05, %r14d\nmovl $0x51ed0b06, %r15d\nmovl $0x51ed0b08, %r10d\n"
    "pcmpeqd %xmm8, %xmm8\npcmpeqd %xmm9, %xmm9\npcmpeqd %xmm10, %xmm10\npcmpeqd %xmm11, %xmm11\n"
    "pcmpeqd %xmm12, %xmm12\npcmpeqd %xmm13, %xmm13\npcmpeqd %xmm14, %xmm14\npcmpeqd %xmm15, %xmm15\n"
    "call *128+registers(%rip)\n"
    "pushq $0\nstmxcsr (%rsp)\norl $0x3f, (%rsp)\nldmxcsr (%rsp)\npopq %r11\nmovl $0x51ed0b07, %r11d\n"
    "call *120+registers(%rip)\n"
    "movq %rbx, 56+registers(%rip)\nmovq %rbp, 64+registers(%rip)\nmovq %r12, 72+registers(%rip)\n"
    "movq %r13, 80+registers(%rip)\nmovq %r14, 88+registers(%rip)\nmovq %r15, 96+registers(%rip)\n"
    "movq %rsp, 104+registers(%rip)\n"
    "call *136+registers(%rip)\n"
    "movq registers(%rip), %rbx\nmovq 8+registers(%rip), %rbp\nmovq 16+registers(%rip), %r12\n"
    "movq 24+registers(%rip), %r13\nmovq 32+registers(%rip), %r14\nmovq 40+registers(%rip), %r15\n"
    "movq 48+registers(%rip), %rsp\n"
    "pushq 112+registers(%rip)\nret\n.size guarded, .-guarded\n.popsection\n");
extern void guarded(void) __attribute__((visibility("hidden")));

static void guard(void) {
    void (*const fill)(void) = __builtin_cpu_supports("avx512f") ? fill_avx512 : __builtin_cpu_supports("avx") ? fill_avx : do_nothing;
    registers[2 * KEPT + 1] = (uint64_t)(uintptr_t)function;
    registers[2 * KEPT + 2] = (uint64_t)(uintptr_t)fill;
    registers[2 * KEPT + 3] = (uint64_t)(uintptr_t)(fill == do_nothing ? do_nothing : clean_avx);
    called = guarded;
}

/* Return one bit for each register that the last call of `guarded` changed. */
static uint64_t changed_registers(void) {
    uint64_t found = 0;
    for (unsigned each = 0; each < KEPT; each++) {
        const uint64_t right = each < KEPT - 1 ? 0x51ed0b01u + each : registers[each];
        found |= registers[KEPT + each] != right ? 1ull << each : 0;
    }
    return found;
}
#else
static void guard(void) {}
static uint64_t changed_registers(void) { return 0; }
#endif

#define EACH6(X) X(0), X(1), X(2), X(3), X(4), X(5)
#define EACH8(X) EACH6(X), X(6), X(7)
#define WORD(i) at[i]
#define REAL(i) reals[i]
#define TYPE(i) uint64_t
#define FLOAT(i) double

/* Integer and floating-point arguments are passed in registers, and further integers on the stack. Arguments that a
 * kernel does not have are harmless. A float occupies the low half of a register for a double. */
#if defined(__aarch64__)
enum { WORDS = 8 };
#define IN_REGISTERS(X) EACH8(X)
#else
enum { WORDS = 6 };
#define IN_REGISTERS(X) EACH6(X)
#endif
enum { STRIDE = WORDS + STACKED + FLOATS }; /* number of words of the table per set */
typedef void Few(IN_REGISTERS(TYPE));
typedef void Real(IN_REGISTERS(TYPE), EACH8(FLOAT));
typedef void Many(IN_REGISTERS(TYPE), EACH8(FLOAT), EACH8(TYPE), EACH8(TYPE), EACH8(TYPE));

static uint64_t now_ns(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static Modes usual;

/* Return one bit for each mode that differs from that before the call. A kernel may flush subnormal numbers to zero; this
 * mode is restored without a report. */
static uint64_t changed_modes(Modes after) {
    const unsigned control = after.control ^ usual.control, x87 = after.x87 ^ usual.x87;
    return (control & ROUNDING_BITS || x87 & X87_ROUNDING_BITS ? ROUNDING : 0)
        | (control & MASK_BITS || x87 & X87_MASK_BITS ? MASKS : 0) | (x87 & PRECISION_BITS ? X87 : 0)
        | (after.flags != usual.flags ? DIRECTION : 0) | (after.empty != usual.empty ? X87_REGISTERS : 0);
}

/* Page that the runner shares with this process (process/pace.py). */
static struct pace { uint64_t made, apart[15], halt, held; } unshared, *pace = &unshared;
enum { HALT = 1, HOLD = 2, ONE_MORE = 3 }; /* commands of the runner, which the loop reads between two calls */

/* Count a call in memory. A kernel could change the loop's counter, which is in a register. */
static void made(void) { __atomic_store_n(&pace->made, __atomic_load_n(&pace->made, __ATOMIC_RELAXED) + 1, __ATOMIC_RELAXED); }
static int halted(void) {
    uint64_t asked;
    while (__builtin_expect((asked = __atomic_load_n(&pace->halt, __ATOMIC_ACQUIRE)) == HOLD, 0))
        __atomic_store_n(&pace->held, 1, __ATOMIC_RELEASE);
    if (__builtin_expect(asked != ONE_MORE, 1)) return asked != 0;
    __atomic_store_n(&pace->halt, HALT, __ATOMIC_RELAXED);
    return 0;
}

struct meeting { int missing, over; unsigned patience; }; /* patience: number of checks before a thread yields */

struct batch {
    uint64_t calls, first, orders, start, stop, restored_ns; /* orders: number of set indices, 0 for rotation */
    uint64_t jitter; /* state of the random generator for waits between calls, 0 for no waits */
    int behind;
    uint64_t registers; /* one bit per register that calls changed */
    struct meeting *meeting; /* state that two concurrent threads share, each calling on half of the sets; else NULL */
    Modes after;
};

static void write_all(const struct write *each, uint64_t count) {
    for (; count--; each++) {
        char *to = (char *)(uintptr_t)each->to;
        if (each->from) {
            memcpy(to, (const char *)(uintptr_t)each->from, each->bytes);
        } else if (!each->pattern) {
            memset(to, 0, each->bytes);
        } else {
            const uint64_t whole = each->bytes / sizeof each->pattern;
            for (uint64_t word = 0; word < whole; word++) memcpy(to + 8 * word, &each->pattern, 8);
            memcpy(to + 8 * whole, &each->pattern, each->bytes % 8);
        }
    }
}

static void restore(uint64_t set) { write_all(writes + set * (restored + filled), restored); }
static void fill(uint64_t set) { write_all(writes + set * (restored + filled) + restored, filled); }

static uint64_t set_after(const struct batch *batch, uint64_t set, uint64_t *place) {
    if (!batch->orders) return set + 1 == sets ? 0 : set + 1;
    if (++*place == batch->orders) *place = 0;
    return order[*place];
}

static void invoke(const uint64_t *at) {
    double reals[FLOATS];
    if (width <= WORDS && !floats) { ((Few *)called)(IN_REGISTERS(WORD)); return; }
    memcpy(reals, at + WORDS + STACKED, sizeof reals);
    if (width <= WORDS) { ((Real *)called)(IN_REGISTERS(WORD), EACH8(REAL)); return; }
    const uint64_t *words = at + WORDS;
#define NEXT(i) words[i]
#define LATER(i) words[8 + i]
#define LAST(i) words[16 + i]
    ((Many *)called)(IN_REGISTERS(WORD), EACH8(REAL), EACH8(NEXT), EACH8(LATER), EACH8(LAST));
}

static void watch(struct batch *batch, const uint64_t *at) {
    invoke(at);
    if (called != function) batch->registers |= changed_registers();
}

/* Restore the arguments of each set before its call or, if `behind` is set, after the call on the next set, so that the
 * arguments are not in the caches when the set is used again. */
static void make_restored_calls(struct batch *batch) {
    const int behind = batch->behind && sets > 1;
    uint64_t set = batch->first, since = batch->start, place = 0;
    if (behind && stale == UINT64_MAX)
        for (uint64_t each = 0; each < sets; each++) restore(each);
    for (uint64_t call = 0; call < batch->calls && !halted(); made(), call++) {
        if (!behind || stale == set) restore(set);
        const uint64_t begun = now_ns();
        batch->restored_ns += begun - since;
        fill(set);
        watch(batch, table + set * STRIDE);
        since = now_ns();
        if (behind && stale != UINT64_MAX && stale != set) restore(stale);
        stale = behind ? set : UINT64_MAX;
        set = set_after(batch, set, &place);
    }
    batch->restored_ns += now_ns() - since;
}

/* Wait for a random time, at most the duration of a call. Otherwise the calls of two threads would always overlap in the
 * same way. The random numbers are xorshift numbers (Marsaglia, 2003). */
static void wait_at_random(struct batch *batch, uint64_t most_ns) {
    batch->jitter ^= batch->jitter << 13, batch->jitter ^= batch->jitter >> 7, batch->jitter ^= batch->jitter << 17;
    for (const uint64_t until = now_ns() + batch->jitter % (most_ns + 1); now_ns() < until;) {}
}

/* Call the kernel on half of the sets, from batch->first on, at the same time as the other thread. A batch without a
 * number of calls makes at least one call per set, and continues until the other thread has made all its calls. */
static void meet(struct batch *batch) {
    struct meeting *meeting = batch->meeting;
    __atomic_sub_fetch(&meeting->missing, 1, __ATOMIC_ACQ_REL);
    for (unsigned turn = 0; __atomic_load_n(&meeting->missing, __ATOMIC_ACQUIRE) > 0; turn++)
        if (turn > meeting->patience) sched_yield();
    batch->start = now_ns();
    const uint64_t own = sets / 2;
    for (uint64_t call = 0; batch->calls ? call < batch->calls : !__atomic_load_n(&meeting->over, __ATOMIC_ACQUIRE) || call < own; call++) {
        const uint64_t set = batch->first + call % own;
        restore(set);
        fill(set);
        const uint64_t begun = now_ns();
        invoke(table + set * STRIDE);
        if (batch->jitter) wait_at_random(batch, now_ns() - begun);
    }
    batch->stop = now_ns();
    if (batch->calls) __atomic_store_n(&meeting->over, 1, __ATOMIC_RELEASE);
}

static void *make_calls(void *given) {
    struct batch *batch = given;
    uint64_t set = batch->first, place = 0;
    set_modes(usual);
    if (batch->meeting) {
        meet(batch);
        batch->after = modes();
        set_modes(usual);
        return NULL;
    }
    batch->start = now_ns();
    if (restored) {
        make_restored_calls(batch);
    } else {
        for (uint64_t call = 0; call < batch->calls && !halted(); made(), call++) {
            fill(set);
            watch(batch, table + set * STRIDE);
            set = set_after(batch, set, &place);
        }
    }
    batch->stop = now_ns();
    batch->after = modes();
    set_modes(usual);
    return NULL;
}

/* Pin a thread to a core, so that it runs at the same time as this thread. core_and_one is 0 for any core. */
static void place_on(pthread_attr_t *attributes, uint64_t core_and_one) {
#ifdef __linux__
    cpu_set_t cores;
    CPU_ZERO(&cores);
    if (core_and_one == 0) return;
    CPU_SET(core_and_one - 1, &cores);
    pthread_attr_setaffinity_np(attributes, sizeof cores, &cores);
#else
    (void)attributes, (void)core_and_one;
#endif
}

static void run(const struct request *request) {
    struct batch batch = {.calls = request->count, .first = request->first, .behind = (request->flags & BEHIND) != 0};
    if (request->bytes > sizeof order) _exit(1);
    receive(order, request->bytes);
    batch.orders = request->bytes / sizeof *order;
#ifdef M_PERTURB
    static uint64_t perturbed;
    if ((request->flags & PERTURB) != perturbed) mallopt(M_PERTURB, (perturbed = request->flags & PERTURB) ? 0xa5 : 0);
#endif
    called = function;
    if (request->flags & GUARDED) guard();
    if (request->flags & TOGETHER) {
        /* a thread with its own core must not yield soon, because the other thread might end before it continues */
        struct meeting meeting = {.missing = 2, .patience = request->first ? 1u << 20 : 1000};
        pthread_t thread;
        pthread_attr_t attributes;
        struct batch other = {.first = sets / 2, .meeting = &meeting, .jitter = request->stack_bytes};
        batch.first = 0, batch.meeting = &meeting;
        pthread_attr_init(&attributes);
        place_on(&attributes, request->first);
        if (pthread_create(&thread, &attributes, make_calls, &other)) { answer(FAILED, NULL, "no thread can be started"); return; }
        make_calls(&batch);
        pthread_join(thread, NULL);
    } else if (request->flags & OWN_THREAD) {
        pthread_attr_t attributes;
        pthread_t thread;
        pthread_attr_init(&attributes);
        pthread_attr_setstacksize(&attributes, request->stack_bytes);
        if (pthread_create(&thread, &attributes, make_calls, &batch)) { answer(FAILED, NULL, "no thread can be started"); return; }
        pthread_join(thread, NULL);
    } else {
        make_calls(&batch);
    }
    uint64_t values[6] = {batch.start, batch.stop};
    values[2] = changed_modes(batch.after) | batch.registers * SAVED_REGISTERS;
    if (request->flags & EXAMINE) {
        values[3] = changed_handlers();
        values[2] |= (values[3] ? HANDLERS : 0) | (armed_timers() ? TIMERS : 0) | (lost_keys() ? KEYS : 0);
#if defined(__GLIBC__) && __GLIBC_PREREQ(2, 33)
        const struct mallinfo2 heap = mallinfo2();
        values[4] = heap.uordblks + heap.hblkhd;
#endif
    }
    values[5] = batch.restored_ns;
    answer(0, values, NULL);
}

/* --- requests ------------------------------------------------------------------------------------------------------ */

static void load(const struct request *request, const char *library) {
    char entry[1024] = "";
    receive(entry, request->bytes < sizeof entry ? request->bytes : sizeof entry - 1);
    void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    *(void **)&function = handle ? dlsym(handle, entry) : NULL;
    int descriptor;
    if (sscanf(library, "/proc/self/fd/%d", &descriptor) == 1) close(descriptor);
    const uint64_t values[6] = {0, 0, changed_modes(modes())};
    set_modes(usual);
    if (function) answer(0, values, NULL);
    else answer(FAILED, NULL, dlerror());
}

/* Return an address for a mapping, so that a kernel cannot rely on distances between buffers. In half of the processes,
 * all addresses are random, a quarter of them as in the heap of a program; in the others, the system chooses them, so that
 * the buffers are near each other. */
static void *anywhere(void) {
    static uint64_t near = 2; /* not decided */
    uint64_t place = 0;
#ifdef __linux__
    if (near > 1 && getrandom(&near, sizeof near, GRND_NONBLOCK) != sizeof near) return NULL;
    near &= 1;
    if (near || getrandom(&place, sizeof place, GRND_NONBLOCK) != sizeof place) return NULL;
    const uint64_t in_heap = (place >> 62) == 0; /* the remainders do not depend on these bits */
    place = in_heap ? place % HEAP_BYTES + HEAP : place % (HIGHEST - LOWEST) + LOWEST;
    place &= ~(uint64_t)(HUGE_PAGE - 1);
#endif
    return (void *)(uintptr_t)place; /* only a hint for the system */
}

/* Map a segment. The payload contains the offsets of pages that become inaccessible. The file is sent as a descriptor. */
static void map(const struct request *request) {
    uint64_t *pages = malloc(request->bytes + 1);
    char control[CMSG_SPACE(sizeof(int))], byte;
    struct iovec one = {&byte, 1};
    struct msghdr message = {.msg_iov = &one, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    if (!pages || recvmsg(channel, &message, 0) != 1 || !CMSG_FIRSTHDR(&message)) _exit(1);
    int file;
    memcpy(&file, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof file);
    receive(pages, request->bytes);
    const size_t size = request->count;
    if (limited) allow_memory(size + 2 * APRON);
    char *whole = mmap(anywhere(), size + 2 * APRON, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    const int access = request->flags & WRITABLE ? PROT_READ | PROT_WRITE : PROT_READ;
    char *base = whole == MAP_FAILED ? MAP_FAILED : mmap(whole + APRON, size, access, MAP_SHARED | MAP_FIXED, file, 0);
    close(file);
    if (base == MAP_FAILED) {
        answer(FAILED, NULL, strerror(errno));
    } else {
        for (size_t index = 0; index < request->bytes / sizeof *pages; index++) mprotect(base + pages[index], PAGE, PROT_NONE);
        const uint64_t values[6] = {(uint64_t)(uintptr_t)base};
        if (request->flags & PACED) pace = (struct pace *)base;
        answer(0, values, NULL);
    }
    free(pages);
}

/* Store the arguments of calls. The payload contains the arguments for each set, then the memory writes before calls. */
static void take_table(const struct request *request) {
    free(table);
    if (!(table = malloc(request->bytes + 1))) _exit(1);
    receive(table, request->bytes);
    sets = request->count, width = request->flags >> 32, floats = request->flags & 0xffffffffu;
    restored = request->stack_bytes >> 32, filled = request->stack_bytes & 0xffffffffu;
    writes = (const struct write *)(table + sets * STRIDE), stale = UINT64_MAX;
    answer(0, NULL, NULL); /* the runner waits for this reply, so that this processor time is not counted for calls */
}

/* Create page-table entries, so that timed calls cause no page faults. The payload contains pairs of address and size. */
static void populate(const struct request *request) {
    uint64_t *spans = malloc(request->bytes + 1);
    if (!spans) _exit(1);
    receive(spans, request->bytes);
    for (uint64_t span = 0; span < request->count; span++) {
        volatile const char *at = (const char *)(uintptr_t)spans[2 * span];
#ifdef MADV_POPULATE_READ
        char *page = (char *)((uintptr_t)at & ~(uintptr_t)(PAGE - 1));
        const size_t bytes = (size_t)((const char *)at - page) + spans[2 * span + 1];
        if (madvise(page, bytes, MADV_POPULATE_WRITE) == 0 || madvise(page, bytes, MADV_POPULATE_READ) == 0) continue;
#endif
        for (uint64_t byte = 0; byte < spans[2 * span + 1]; byte += PAGE) (void)at[byte];
    }
    free(spans);
    answer(0, NULL, NULL);
}

static void nothing(void) {}

/* Fill the unused stack of this thread. Its pages would otherwise contain zeros, and a kernel that reads a variable before
 * it writes to it would be correct by chance. */
__attribute__((noinline)) static void fill_stack(void) {
    enum { MOST = 8 << 20, IN_USE = 1 << 19 };
    struct rlimit limits;
    if (getrlimit(RLIMIT_STACK, &limits) || limits.rlim_cur <= IN_USE) return;
    const size_t bytes = (limits.rlim_cur < MOST ? (size_t)limits.rlim_cur : MOST) - IN_USE;
    void *unused = __builtin_alloca(bytes);
    memset(unused, 0x5a, bytes); /* as mallopt(M_PERTURB, 0xa5) does for allocated memory */
    __asm__ volatile("" ::"r"(unused) : "memory"); /* keeps the writes */
}

/* Fill free memory of the heap. New memory contains zeros, and a kernel that reads a block before it writes to it would be
 * correct by chance. The blocks become one free block, from which later blocks are taken. */
static void fill_heap(void) {
    enum { BYTES = 32 << 10, BLOCKS = 128 };
    void *blocks[BLOCKS];
    for (int block = 0; block < BLOCKS; block++)
        if ((blocks[block] = malloc(BYTES))) memset(blocks[block], 0x5a, BYTES);
    heap_end = malloc(BYTES); /* without it, free memory at the end of the heap would be returned to the system */
    for (int block = 0; block < BLOCKS; block++) {
        __asm__ volatile("" ::"r"(blocks[block]) : "memory"); /* keeps the writes */
        free(blocks[block]);
    }
}

int main(int count, char **words) {
    if (count < 8) return 2;
    channel = atoi(words[1]);
    own = getpid();
    char library[4096];
    snprintf(library, sizeof library, "%s", words[2]);
#ifdef __linux__
    cpu_set_t cores;
    CPU_ZERO(&cores);
    for (int word = 8; word < count; word++) CPU_SET(atoi(words[word]), &cores);
    if (count > 8) sched_setaffinity(0, sizeof cores, &cores);
#endif
    limit(RLIMIT_CORE, 0);
    limit(RLIMIT_FSIZE, 1 << 20);
    limited = atoll(words[5]) > 0;
    privileged = geteuid() == 0;
    allow_memory((rlim_t)atoll(words[5]));
    const uint64_t level = separate((uid_t)atol(words[3]), (pid_t)atol(words[4]), words[6], words[7], count - 8);
    privileged = privileged && !(level & OTHER_USER);
    usual = modes();
    fill_stack();
    fill_heap();
    function = nothing;
    table = calloc(STRIDE, sizeof *table), sets = 1;
    watch_faults();
    const uint64_t values[6] = {level, WORDS};
    answer(HELLO, values, NULL);
    for (;;) {
        struct request request;
        receive(&request, sizeof request);
        switch (request.kind) {
        case LOAD: load(&request, library); break;
        case MAP: map(&request); break;
        case TABLE: take_table(&request); break;
        case POPULATE: populate(&request); break;
        case RUN: run(&request); break;
        case FINISH: exit(0); /* runs the exit functions of libraries */
        default: return 2;
        }
    }
}
