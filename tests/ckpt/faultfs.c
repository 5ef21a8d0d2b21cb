/* SPDX-License-Identifier: BSD-3-Clause */
/* Preloaded, makes the file system fail under programs:
 *
 *     FAULTFS=full:BYTES    writes beyond so many bytes, all together, find no room
 *     FAULTFS=unreserved:BYTES  the same, and nothing can be reserved
 *     FAULTFS=quota:BYTES   or meet the user's limit
 *     FAULTFS=eio:BYTES     or fail
 *     FAULTFS=blink:N       the Nth write alone finds no room (from 0 on)
 *     FAULTFS=once:BYTES    or find no room in one folder, and in all others they do
 *     FAULTFS=short:BYTES   writes of more than so many bytes write only these
 *     FAULTFS=sync          fsync fails
 *     FAULTFS=late:MS       fsync takes so long
 *     FAULTFS=readonly      no folder or file can be made
 *     FAULTFS=read:BYTES    reads beyond so many bytes, all together, fail
 *     FAULTFS=slow:MS       each read by HDF5 takes so long, whatever the file
 *     FAULTFS=hold          fflush makes a file held, and waits while there is a hold
 *     FAULTFS=gone          files and folders are not there
 *     FAULTFS=flush:N       fflush finds no room, from the call after the Nth on
 *     FAULTFS=noexchange    names cannot change places
 *     FAULTFS=norename:N    nor be given, the Nth time (from 0 on)
 *     FAULTFS=room:BYTES    so many bytes are said to be free
 *     FAULTFS=unlockable    nobody can lock anything
 *     FAULTFS=memory:BYTES  so many bytes of memory and more are refused
 *     FAULTFS=nth:N         the program itself is refused memory the Nth time (from 0
 *                           on), which makes a file refused
 *
 * in files whose path contains FAULTFS_PATH, and with FAULTFS_RANK on that rank alone.
 * Memory is refused once such a file was asked for; without FAULTFS_PATH always.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/types.h>
#include <unistd.h>

static long long written;

/* What launchers call the rank. */
static int is_the_rank(void)
{
    static const char *const names[] = {"PMI_RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK",
                                        "SLURM_PROCID"};
    const char *wanted = getenv("FAULTFS_RANK");

    for (size_t i = 0; wanted && i < sizeof names / sizeof *names; i++)
        if (getenv(names[i]))
            return strcmp(getenv(names[i]), wanted) == 0;
    return !wanted;
}

static int is(const char *fault)
{
    const char *wanted = getenv("FAULTFS");

    return wanted && strncmp(wanted, fault, strlen(fault)) == 0 && is_the_rank();
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
    static long long calls;
    char path[4096];

    if (is("blink:") && is_meant(path_of(fd, path)) && calls++ == amount()) {
        errno = ENOSPC;
        return -1;
    }
    if (!is("full") && !is("unreserved") && !is("quota") && !is("eio") && !is("once") &&
        !is("short"))
        return (ssize_t)n;
    if (!is_meant(path_of(fd, path)))
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

/* HDF5 keeps what it has read, so few of its reads call pread.  It has 64-bit ids and
 * answers with an int (hid_t, herr_t). */
int H5Dread(int64_t set, int64_t type, int64_t memory, int64_t span, int64_t plist,
            void *out)
{
    static int (*next)(int64_t, int64_t, int64_t, int64_t, int64_t, void *);

    if (!next)
        find("H5Dread", &next);
    if (is("slow:"))
        usleep((useconds_t)amount() * 1000);
    return next(set, type, memory, span, plist, out);
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

int fallocate64(int fd, int mode, off64_t at, off64_t n)
{
    static int (*next)(int, int, off64_t, off64_t);
    char path[4096];

    if (is("full:") && is_meant(path_of(fd, path)) && n > amount()) {
        errno = ENOSPC;
        return -1;
    }
    if (is("unreserved") && is_meant(path_of(fd, path))) {
        errno = EOPNOTSUPP;
        return -1;
    }
    if (!next)
        find("fallocate64", &next);
    return next(fd, mode, at, n);
}

int fallocate(int fd, int mode, off_t at, off_t n)
{
    return fallocate64(fd, mode, at, n);
}

/* Signals interrupt a sleep, not the wait. */
static void wait_while_held(void)
{
    while (access("hold", F_OK) == 0) {
        mknod("held", S_IFREG | 0600, 0);
        usleep(10000);
    }
}

int fflush(FILE *f)
{
    static int (*next)(FILE *);
    static long long calls;
    char path[4096];

    if (f && is("hold") && is_meant(path_of(fileno(f), path)))
        wait_while_held();
    if (f && is("flush:") && is_meant(path_of(fileno(f), path)) &&
        calls++ >= amount()) {
        errno = ENOSPC;
        return EOF;
    }
    if (!next)
        find("fflush", &next);
    return next(f);
}

int fcntl64(int fd, int what, ...)
{
    static int (*next)(int, int, ...);
    char path[4096];
    va_list more;
    void *with;

    va_start(more, what);
    with = va_arg(more, void *); /* an int is where a pointer would be */
    va_end(more);
    if (what == F_SETLK && is("unlockable") && is_meant(path_of(fd, path))) {
        errno = ENOSYS;
        return -1;
    }
    if (!next)
        find("fcntl64", &next);
    return next(fd, what, with);
}

int fcntl(int fd, int what, ...)
{
    va_list more;
    void *with;

    va_start(more, what);
    with = va_arg(more, void *);
    va_end(more);
    return fcntl64(fd, what, with);
}

/* ---- names ---- */

static int touched; /* something that was meant */

/* errno, if a path may not be looked at, or not be made; else 0. */
static int refuse(const char *path, int making)
{
    if (!is_meant(path))
        return 0;
    touched = 1;
    if (is("gone"))
        return ENOENT;
    return making && is("readonly") ? EROFS : 0;
}

/* open's last argument, which is there where a file may be made. */
static mode_t mode_of(int flags, va_list more)
{
    int makes = (flags & O_CREAT) || (flags & O_TMPFILE) == O_TMPFILE;

    return makes ? va_arg(more, mode_t) : 0;
}

int open64(const char *path, int flags, ...)
{
    static int (*next)(const char *, int, ...);
    va_list more;
    mode_t mode;

    va_start(more, flags);
    mode = mode_of(flags, more);
    va_end(more);
    errno = refuse(path, flags & O_CREAT);
    if (errno)
        return -1;
    if (!next)
        find("open64", &next);
    return next(path, flags, mode);
}

int open(const char *path, int flags, ...)
{
    va_list more;
    mode_t mode;

    va_start(more, flags);
    mode = mode_of(flags, more);
    va_end(more);
    return open64(path, flags, mode);
}

int mkostemp64(char *path, int flags)
{
    static int (*next)(char *, int);

    errno = refuse(path, 1);
    if (errno)
        return -1;
    if (!next)
        find("mkostemp64", &next);
    return next(path, flags);
}

int mkostemp(char *path, int flags)
{
    return mkostemp64(path, flags);
}

int stat(const char *path, struct stat *st)
{
    static int (*next)(const char *, struct stat *);

    errno = refuse(path, 0);
    if (errno)
        return -1;
    if (!next)
        find("stat", &next);
    return next(path, st);
}

int renameat2(int from_fd, const char *from, int to_fd, const char *to, unsigned flags)
{
    static int (*next)(int, const char *, int, const char *, unsigned);

    if (is("no") && is_meant(from)) {
        errno = EINVAL;
        return -1;
    }
    if (!next)
        find("renameat2", &next);
    return next(from_fd, from, to_fd, to, flags);
}

/* The same as statvfs where both are 64 bits wide. */
int statvfs64(const char *path, struct statvfs64 *s)
{
    static int (*next)(const char *, struct statvfs64 *);
    int rc;

    if (!next)
        find("statvfs64", &next);
    rc = next(path, s);
    if (rc == 0 && is("room:") && is_meant(path)) {
        s->f_frsize = 1;
        s->f_bavail = (fsblkcnt64_t)amount();
    }
    return rc;
}

int statvfs(const char *path, struct statvfs *s)
{
    return statvfs64(path, (struct statvfs64 *)s);
}

int rename(const char *from, const char *to)
{
    static int (*next)(const char *, const char *);
    static long long calls;

    if (is("norename:") && is_meant(to) && calls++ == amount()) {
        errno = EIO;
        return -1;
    }
    if (!next)
        find("rename", &next);
    return next(from, to);
}

int mkdir(const char *path, mode_t mode)
{
    static int (*next)(const char *, mode_t);

    errno = refuse(path, 1);
    if (errno)
        return -1;
    if (!next)
        find("mkdir", &next);
    return next(path, mode);
}

/* ---- memory ---- */

/* Libraries do not stand it. */
static int is_of_program(const void *caller)
{
    Dl_info program, at;

    return dladdr((const void *)getauxval(AT_ENTRY), &program) && dladdr(caller, &at) &&
           at.dli_fbase == program.dli_fbase;
}

static int is_nth(const void *caller)
{
    static long long calls;

    if (!is("nth:") || !is_of_program(caller) || calls++ != amount())
        return 0;
    mknod("refused", S_IFREG | 0600, 0);
    errno = ENOMEM;
    return 1;
}

static int is_refused(size_t n)
{
    if (!is("memory:") || n < (size_t)amount() || (getenv("FAULTFS_PATH") && !touched))
        return 0;
    errno = ENOMEM;
    return 1;
}

/* The first call is dlsym's own. */
void *calloc(size_t n, size_t size)
{
    static void *(*next)(size_t, size_t);
    static int finding;

    if (!next && finding)
        return NULL;
    finding = 1;
    if (!next)
        find("calloc", &next);
    if (is_refused(n * size) || is_nth(__builtin_return_address(0)))
        return NULL;
    return next(n, size);
}

void *realloc(void *p, size_t n)
{
    static void *(*next)(void *, size_t);

    if (!next)
        find("realloc", &next);
    if (is_refused(n) || is_nth(__builtin_return_address(0)))
        return NULL;
    return next(p, n);
}

void *mmap64(void *at, size_t n, int protection, int flags, int fd, off64_t from)
{
    static void *(*next)(void *, size_t, int, int, int, off64_t);

    if (fd < 0 && is_refused(n))
        return MAP_FAILED;
    if (!next)
        find("mmap64", &next);
    return next(at, n, protection, flags, fd, from);
}

void *mmap(void *at, size_t n, int protection, int flags, int fd, off_t from)
{
    return mmap64(at, n, protection, flags, fd, from);
}
