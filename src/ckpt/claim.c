#include "ckpt/claim.h"
#include "base/clock.h"
#include "io/exact.h"
#include "io/folder.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* A batch system may start the next job while the one before is being killed. */
static const double patience_s = 5;

/* POSIX locks, which network file systems know best; the kernel takes them back when
 * the process ends, however it ends.  0 or errno. */
static int lock(int fd)
{
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};

    return fcntl(fd, F_SETLK, &whole) == 0 ? 0 : errno;
}

static int is_held(int err)
{
    return err == EAGAIN || err == EACCES;
}

static int lock_patiently(int fd)
{
    const struct timespec often = {.tv_nsec = 100000000};
    double begin = mds_clock_s();
    int err = lock(fd);

    while (is_held(err) && mds_clock_s() - begin < patience_s) {
        nanosleep(&often, NULL);
        err = lock(fd);
    }
    return err;
}

/* For whoever comes and has to be sent away.  Without room it stays empty. */
static void sign(int fd)
{
    char host[256] = "unknown-host", when[32] = "", line[320];
    time_t now = time(NULL);
    struct tm utc;
    int n;

    (void)gethostname(host, sizeof host - 1);
    if (gmtime_r(&now, &utc))
        strftime(when, sizeof when, "%Y-%m-%d %H:%M:%S", &utc);
    n = snprintf(line, sizeof line, "process %d on %s, since %s UTC\n", (int)getpid(),
                 host, when);
    if (ftruncate(fd, 0) == 0)
        (void)mds_write_exact(fd, 0, line, n);
}

static enum mds_rc refuse(int fd, const char *dir, const char *path)
{
    char who[320] = "";
    ssize_t n = pread(fd, who, sizeof who - 1, 0);

    who[n > 0 ? n : 0] = '\0';
    who[strcspn(who, "\n")] = '\0';
    return mds_fail(MDS_EUSER,
                    "%s: another run saves there (%s): wait for its end, or name "
                    "another folder; if it is gone for sure, remove %s",
                    dir, who[0] ? who : "which, it could not write", path);
}

enum mds_rc mds_ckpt_claim(const char *dir)
{
    char path[MDS_PATH_SIZE];
    int fd, err;

    MDS_TRY(mds_path_join(dir, ".lock", path));
    fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (fd < 0)
        return MDS_OK; /* whoever writes there next will say why */
    err = lock_patiently(fd);
    if (is_held(err)) {
        enum mds_rc rc = refuse(fd, dir, path);

        close(fd);
        return rc;
    }
    if (err == 0)
        sign(fd);
    return MDS_OK; /* open, and locked, until the process ends */
}
