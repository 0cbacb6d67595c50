/* Preloaded library (LD_PRELOAD) that shifts a worker's wall clock and makes writes fail as on a full disk.
 *
 * SHIM_CLOCK  a file of 8 bytes: nanoseconds to add to the wall clock. The number may change at any time.
 * SHIM_FULL   a folder. Its disk counts as full while the folder contains a file called `full`. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const volatile int64_t *jump_ns;

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("SHIM_CLOCK");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    void *mapped = file < 0 ? MAP_FAILED : mmap(NULL, 8, PROT_READ, MAP_SHARED, file, 0);
    if (file >= 0) close(file);
    if (mapped != MAP_FAILED) jump_ns = mapped;
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real) real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    int status = real(clock, now);
    if (status == 0 && jump_ns && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
        int64_t total = (int64_t)now->tv_sec * 1000000000 + now->tv_nsec + *jump_ns;
        now->tv_sec = total / 1000000000;
        now->tv_nsec = total % 1000000000;
    }
    return status;
}

time_t time(time_t *kept) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (kept) *kept = now.tv_sec;
    return now.tv_sec;
}

int gettimeofday(struct timeval *restrict kept, void *restrict zone) {
    struct timespec now;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &now);
    kept->tv_sec = now.tv_sec;
    kept->tv_usec = now.tv_nsec / 1000;
    return 0;
}

static int on_full_disk(int file) {
    const char *folder = getenv("SHIM_FULL");
    char link[64], path[4096];
    if (!folder) return 0;
    snprintf(path, sizeof path, "%s/full", folder);
    if (access(path, F_OK) != 0) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t length = readlink(link, path, sizeof path - 1);
    return length > 0 && strncmp(path, folder, strlen(folder)) == 0;
}

ssize_t write(int file, const void *bytes, size_t count) {
    static ssize_t (*real)(int, const void *, size_t);
    if (!real) real = (ssize_t (*)(int, const void *, size_t))dlsym(RTLD_NEXT, "write");
    if (on_full_disk(file)) {
        errno = ENOSPC;
        return -1;
    }
    return real(file, bytes, count);
}
