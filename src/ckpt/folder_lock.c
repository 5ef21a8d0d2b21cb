/* SPDX-License-Identifier: BSD-3-Clause */
#include "ckpt/folder_lock.h"
#include "base/clock.h"
#include "base/host.h"
#include "base/log.h"
#include "io/exact.h"
#include "io/folder.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* How long to wait for another run's lock.  A batch system may start the next job while
 * the previous one is being killed.  A file server keeps the lock of a dead node for a
 * while: NFS 4 for a lease (RFC 7530, section 9.5), by default 90 s on Linux. */
static const double same_host_timeout_s = 5, other_host_timeout_s = 120;

/* The file that this process has locked last. */
static struct {
    char path[MDS_PATH_SIZE]; /* "": none */
    dev_t dev;
    ino_t ino;
} held;

/* With a POSIX lock: network file systems support it best, and the kernel releases it
 * whenever the process ends.  0 or errno. */
static int try_lock(int fd)
{
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};

    return fcntl(fd, F_SETLK, &whole) == 0 ? 0 : errno;
}

static int lock_is_held(int err)
{
    return err == EAGAIN || err == EACCES;
}

/* who = the owner, as the lock file says. */
static void read_owner(int fd, char *who, size_t size)
{
    ssize_t n = pread(fd, who, size - 1, 0);

    who[n > 0 ? n : 0] = '\0';
    who[strcspn(who, "\n")] = '\0';
    if (!who[0])
        snprintf(who, size, "of unknown name");
}

/* "n5" and "n5.site.org" are the same.  *pid: the owner. */
static int owner_is_on(const char *who, const char *host, int *pid)
{
    char its[256] = "";
    size_t n = strcspn(host, ".");

    return sscanf(who, "process %d on %255[^,]", pid, its) == 2 &&
           strcspn(its, ".") == n && strncmp(its, host, n) == 0;
}

static int owner_lives_on_this_host(const char *who)
{
    char host[MDS_HOST_SIZE];
    int pid;

    mds_host_name(host);
    return owner_is_on(who, host, &pid) && (kill(pid, 0) == 0 || errno == EPERM);
}

/* who = the owner, if another process holds the lock. */
static int lock_with_timeout(int fd, const char *dir, char *who, size_t size)
{
    const struct timespec often = {.tv_nsec = 100000000};
    double begin = mds_clock_s(), timeout_s;
    int err = try_lock(fd);

    if (!lock_is_held(err))
        return err;
    read_owner(fd, who, size);
    timeout_s =
        owner_lives_on_this_host(who) ? same_host_timeout_s : other_host_timeout_s;
    mds_warn("%s: another run saves there (%s): waiting up to %g s for it to end", dir,
             who, timeout_s);
    while (lock_is_held(err) && mds_clock_s() - begin < timeout_s) {
        nanosleep(&often, NULL);
        err = try_lock(fd);
    }
    return err;
}

/* Name this process in the lock file, for the message of a second run.  On a full disk
 * the file stays empty. */
static void write_owner(int fd)
{
    char host[MDS_HOST_SIZE], when[32] = "", line[320];
    time_t now = time(NULL);
    struct tm utc;
    int n;

    mds_host_name(host);
    if (gmtime_r(&now, &utc))
        strftime(when, sizeof when, "%Y-%m-%d %H:%M:%S", &utc);
    n = snprintf(line, sizeof line, "process %d on %s, since %s UTC\n", (int)getpid(),
                 host, when);
    if (ftruncate(fd, 0) == 0)
        (void)mds_write_exact(fd, 0, line, n);
}

/* Open or create the lock file.  *fd < 0, with errno, if neither works: the next write
 * to the folder will report why.  A link or a special file is not overwritten. */
static enum mds_rc open_lock_file(const char *path, int *fd)
{
    struct stat st;

    *fd = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0666);
    if (*fd < 0 && errno == ELOOP)
        return mds_fail(MDS_EUSER,
                        "%s: a symbolic link, so locking would overwrite the file "
                        "that it points to: remove the link",
                        path);
    if ((*fd < 0 && errno == EISDIR) ||
        (*fd >= 0 && fstat(*fd, &st) == 0 && !S_ISREG(st.st_mode)))
        return mds_fail(MDS_EUSER, "%s: not a regular file: remove it", path);
    return MDS_OK;
}

static void remember(const char *path, int fd)
{
    struct stat st;

    if (fstat(fd, &st))
        return;
    snprintf(held.path, sizeof held.path, "%s", path);
    held.dev = st.st_dev;
    held.ino = st.st_ino;
}

static void warn_cannot_lock(const char *path, int err)
{
    mds_warn("%s: cannot be locked (%s): make sure that no other run saves there, or "
             "both would damage each other's checkpoints",
             path, strerror(err));
}

enum mds_rc mds_ckpt_lock_folder(const char *dir)
{
    char path[MDS_PATH_SIZE], who[320];
    int fd, err;

    MDS_TRY(mds_path_join(dir, ".lock", path));
    MDS_TRY(open_lock_file(path, &fd));
    err = fd < 0 ? errno : lock_with_timeout(fd, dir, who, sizeof who);
    if (fd >= 0 && lock_is_held(err)) {
        close(fd);
        return mds_fail(MDS_EUSER,
                        "%s: another run saves there (%s): wait for it to end, or give "
                        "another folder; if that run is surely gone, remove %s",
                        dir, who, path);
    }
    if (err == 0) {
        write_owner(fd);
        remember(path, fd);
    } else if (fd >= 0 || access(path, F_OK) == 0)
        warn_cannot_lock(path, err);
    return MDS_OK; /* open, and locked, until the process ends */
}

enum mds_rc mds_ckpt_break_lock(const char *dir, const char *host)
{
    char path[MDS_PATH_SIZE], new[MDS_PATH_SIZE], who[320];
    int fd, pid;

    MDS_TRY(mds_path_join(dir, ".lock", path));
    MDS_TRY(mds_path_join(dir, ".lock.new", new));
    fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return MDS_OK;
    read_owner(fd, who, sizeof who);
    close(fd);
    if (!owner_is_on(who, host, &pid))
        return MDS_OK;
    fd = open(new, O_RDWR | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (fd < 0)
        return mds_fail(MDS_EIO, "%s: %s", new, strerror(errno));
    close(fd);
    return rename(new, path) ? mds_fail(MDS_EIO, "%s: %s", path, strerror(errno))
                             : MDS_OK;
}

enum mds_rc mds_ckpt_check_lock(const char *dir)
{
    char path[MDS_PATH_SIZE];
    struct stat st;

    MDS_TRY(mds_path_join(dir, ".lock", path));
    if (strcmp(path, held.path) != 0 || stat(path, &st) ||
        (st.st_dev == held.dev && st.st_ino == held.ino))
        return MDS_OK;
    return mds_fail(MDS_ECOMM,
                    "%s: another run saves there now, because this one's host did not "
                    "answer: nothing more is saved",
                    dir);
}
