/* Preloaded, makes the file system fail under programs:
 *
 *     FAULTFS=full:BYTES    writes beyond so many bytes, all together, find no room
 *     FAULTFS=quota:BYTES   or meet the user's limit
 *     FAULTFS=eio:BYTES     or fail
 *     FAULTFS=once:BYTES    or find no room in one folder, and in all others they do
 *     FAULTFS=short:BYTES   writes of more than so many bytes write only these
 *     FAULTFS=sync          fsync fails
 *     FAULTFS=late:MS       fsync takes so long
 *     FAULTFS=readonly      no folder can be made
 *     FAULTFS=read:BYTES    reads beyond so many bytes, all together, fail
 *
 * in files whose path contains FAULTFS_PATH. */
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

static long long written;

static int is(const char *fault)
{
    const char *wanted = getenv("FAULTFS");

    return wanted && strncmp(wanted, fault, strlen(fault)) == 0;
}

static long long amount(void)
{
    const char *fault = getenv("FAULTFS"), *colon = fault ? strchr(fault, ':') : NULL;

    return colon ? atoll(colon + 1) : 0;
}

/* Whether a path is meant; NULL is not. */
static int is_meant(const char *path)
{
    const char *want = getenv("FAULTFS_PATH");

    return path && want && strstr(path, want) != NULL;
}

static const char *path_of(int fd, char path[4096])
{
    char link[64];
    ssize_t n;

    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    n = readlink(link, path, 4095);
    path[n < 0 ? 0 : n] = '\0';
    return path;
}

/* The folder of the first file that is asked for, for good. */
static int in_first_folder(const char *path)
{
    static char folder[4096];
    size_t n = (size_t)(strrchr(path, '/') - path);

    if (!folder[0])
        memcpy(folder, path, n);
    return strncmp(path, folder, n) == 0 && folder[n] == '\0';
}

/* How many of n bytes may be written; -1 with errno: none. */
static ssize_t allow(int fd, size_t n)
{
    char path[4096];

    if (is("sync") || is("late") || is("read") || !is_meant(path_of(fd, path)))
        return (ssize_t)n;
    if (is("short"))
        return (long long)n > amount() ? (ssize_t)amount() : (ssize_t)n;
    written += (long long)n;
    if (written <= amount() || (is("once") && !in_first_folder(path)))
        return (ssize_t)n;
    errno = is("eio") ? EIO : is("quota") ? EDQUOT : ENOSPC;
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

ssize_t pread64(int fd, void *buf, size_t n, off64_t at)
{
    static ssize_t (*next)(int, void *, size_t, off64_t);
    static long long given;
    char path[4096];

    if (!next)
        find("pread64", &next);
    if (!is("read:") || !is_meant(path_of(fd, path)))
        return next(fd, buf, n, at);
    if (__atomic_add_fetch(&given, (long long)n, __ATOMIC_RELAXED) <= amount())
        return next(fd, buf, n, at);
    errno = EIO;
    return -1;
}

ssize_t pread(int fd, void *buf, size_t n, off_t at)
{
    return pread64(fd, buf, n, at);
}

int fsync(int fd)
{
    static int (*next)(int);
    char path[4096];

    if (is("sync") && is_meant(path_of(fd, path))) {
        errno = EIO;
        return -1;
    }
    if (is("late") && is_meant(path_of(fd, path)))
        usleep((useconds_t)amount() * 1000);
    if (!next)
        find("fsync", &next);
    return next(fd);
}

int mkdir(const char *path, mode_t mode)
{
    static int (*next)(const char *, mode_t);

    if (is("readonly") && is_meant(path)) {
        errno = EROFS;
        return -1;
    }
    if (!next)
        find("mkdir", &next);
    return next(path, mode);
}
