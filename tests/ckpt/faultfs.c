/* Preloaded, makes the file system fail under programs:
 *
 *     FAULTFS=full:BYTES    writes beyond so many bytes, all together, find no room
 *     FAULTFS=eio:BYTES     or fail
 *     FAULTFS=once:BYTES    or find no room three times, and then all there is
 *     FAULTFS=short:BYTES   writes of more than so many bytes write only these
 *     FAULTFS=sync          fsync fails
 *
 * in files whose path contains FAULTFS_PATH. */
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

static long long written;
static int failures;

static int is_meant(int fd)
{
    const char *want = getenv("FAULTFS_PATH");
    char link[64], path[4096];
    ssize_t n;

    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    n = readlink(link, path, sizeof path - 1);
    if (n < 0 || !want)
        return 0;
    path[n] = '\0';
    return strstr(path, want) != NULL;
}

/* How many of n bytes may be written; -1 with errno: none. */
static ssize_t allow(int fd, size_t n)
{
    const char *fault = getenv("FAULTFS"), *limit = fault ? strchr(fault, ':') : NULL;
    long long bytes = limit ? atoll(limit + 1) : 0;

    if (!limit || !is_meant(fd))
        return (ssize_t)n;
    if (strncmp(fault, "short", 5) == 0)
        return (long long)n > bytes ? (ssize_t)bytes : (ssize_t)n;
    written += (long long)n;
    if (written <= bytes)
        return (ssize_t)n;
    if (strncmp(fault, "once", 4) == 0 && ++failures > 3)
        return (ssize_t)n;
    errno = strncmp(fault, "eio", 3) == 0 ? EIO : ENOSPC;
    return -1;
}

static void find(const char *name, void *function)
{
    void *p = dlsym(RTLD_NEXT, name);

    memcpy(function, &p, sizeof p);
}

ssize_t pwrite64(int fd, const void *buf, size_t n, off64_t at)
{
    static ssize_t (*next)(int, const void *, size_t, off64_t);
    ssize_t m = allow(fd, n);

    if (!next)
        find("pwrite64", &next);
    return m < 0 ? m : next(fd, buf, (size_t)m, at);
}

ssize_t pwrite(int fd, const void *buf, size_t n, off_t at)
{
    return pwrite64(fd, buf, n, at);
}

ssize_t write(int fd, const void *buf, size_t n)
{
    static ssize_t (*next)(int, const void *, size_t);
    ssize_t m = allow(fd, n);

    if (!next)
        find("write", &next);
    return m < 0 ? m : next(fd, buf, (size_t)m);
}

int fsync(int fd)
{
    static int (*next)(int);
    const char *fault = getenv("FAULTFS");

    if (fault && strcmp(fault, "sync") == 0 && is_meant(fd)) {
        errno = EIO;
        return -1;
    }
    if (!next)
        find("fsync", &next);
    return next(fd);
}
