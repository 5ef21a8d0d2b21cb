/* SPDX-License-Identifier: BSD-3-Clause */
/* The lines are written by monitor/monitor_process.c, monitor/peer_timeout.c,
 * programs/mds_pretrain.c, metrics/preflight.c, MPI and srun.  A launcher may put a
 * label before them. */
#include "launch/losses.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void mds_losses_add(struct mds_losses *l, int rank, const char *host, const char *why)
{
    struct mds_loss *new = &l->v[l->n];

    if (l->n == MDS_LOSSES)
        return;
    new->rank = rank;
    snprintf(new->host, sizeof new->host, "%.*s", MDS_HOST_SIZE - 1, host);
    snprintf(new->why, sizeof new->why, "%.*s", (int)sizeof new->why - 1, why);
    l->n++;
}

/* "fault: rank 1 on n2: free GPU memory: ..." */
static int read_fault(struct mds_losses *l, const char *line)
{
    const char *at = strstr(line, "fault: rank ");
    char host[256];
    int rank, used = 0;

    if (!at || sscanf(at, "fault: rank %d on %255[^: ]: %n", &rank, host, &used) < 2 ||
        !used)
        return 0;
    if (!l->in_check)
        l->n = 0;
    l->in_check = 1;
    mds_losses_add(l, rank, host, at + used);
    return 1;
}

/* "mds: error: rank 1 (n2, process 12) was killed by signal 9 (Killed) at 10:11:12.013
 * UTC; its last collective: ..." */
static int read_death(struct mds_losses *l, const char *line)
{
    const char *at = strstr(line, "mds: error: rank ");
    char host[256], why[192], *time;
    int rank, used = 0, sig = 0;

    if (!at || sscanf(at, "mds: error: rank %d (%255[^,], process %*d) %n", &rank, host,
                      &used) < 2)
        return 0;
    if (!used ||
        (strncmp(at + used, "was killed", 10) != 0 &&
         strncmp(at + used, "exited", 6) != 0 && strncmp(at + used, "died", 4) != 0))
        return 0;
    l->out_of_memory |= strstr(at, "host memory ran out") != NULL;
    sscanf(at + used, "was killed by signal %d", &sig);
    if (l->may_follow && sig != SIGABRT)
        l->n = l->may_follow = 0;
    if (l->n > 0 || l->failed)
        return 1;
    snprintf(why, sizeof why, "%.*s", (int)strcspn(at + used, ";\n"), at + used);
    if ((time = strstr(why, " at ")) != NULL)
        *time = '\0';
    mds_losses_add(l, rank, host, why);
    l->may_follow = sig == SIGABRT;
    return 1;
}

/* "...: rank 1 has been silent for 600 s, the limit (...): see what it logged last on
 * n2; ..." */
static int read_silence(struct mds_losses *l, const char *line)
{
    static const char silent[] = " has been silent for ", place[] = "logged last on ";
    const char *at = strstr(line, silent), *on = at ? strstr(at, place) : NULL;
    const char *rank = at;
    char host[256] = "", why[192];
    int number;

    if (!at || !strstr(line, "mds: "))
        return 0;
    while (rank > line && rank[-1] >= '0' && rank[-1] <= '9')
        rank--;
    if (sscanf(rank, "%d", &number) != 1)
        return 0;
    if (on)
        sscanf(on + strlen(place), "%255[^;, \n]", host);
    snprintf(why, sizeof why, "%.*s", (int)strcspn(at + 1, ",\n"), at + 1);
    if (l->n == 0)
        mds_losses_add(l, number, host, why);
    l->silent = 1;
    return 1;
}

/* "mds: [rank 0 n1] error: MPI has not started 6 ranks in 600 s (...", "mds: error:
 * MPI_Comm_create_group has not returned within the limit (..." */
static int read_stuck(struct mds_losses *l, const char *line)
{
    int started = strstr(line, "error: MPI has not started ") == NULL;

    if (started && !strstr(line, " has not returned within the limit "))
        return 0;
    l->stuck = started ? 2 : 1;
    l->never_started = !started || strstr(line, "MPI_Comm_create_group") != NULL;
    return 1;
}

/* "mds: [rank 1 n2] error: the device of rank 1 on n2 has failed" */
static int read_device(struct mds_losses *l, const char *line)
{
    const char *at = strstr(line, "the device of rank ");
    char host[256];
    int rank;

    if (!at || !strstr(line, "mds: ") ||
        sscanf(at, "the device of rank %d on %255[^ \n] has failed", &rank, host) != 2)
        return 0;
    if (l->n == 0)
        mds_losses_add(l, rank, host, "has a device that failed");
    return 1;
}

/* "mds: [rank 0 n1] error: iteration 9: loss nan, ...".  Not what ranks say that only
 * notice that another is gone, or that wait for it. */
static int is_own_failure(const char *line)
{
    static const char *const others[] = {" has waited ", " timed out first", ", rank "};
    const char *at = strstr(line, "mds: [rank ");
    const char *text = at ? strstr(at, "] error: ") : NULL;

    for (size_t i = 0; text && i < sizeof others / sizeof *others; i++)
        if (strstr(text, others[i]))
            return 0;
    return text != NULL;
}

/* The status that a rank has exited with, or has given MPI_Abort; 0: the line has none.
 * MPICH: "Abort(1) on node 0 (rank 0 in comm 0): application called
 * MPI_Abort(MPI_COMM_WORLD, 1) - process 0".  Open MPI: "with errorcode 1."
 * srun: "srun: error: n1: task 0: Exited with exit code 1" */
static int read_status(const char *line)
{
    static const char *const before[] = {
        "application called MPI_Abort(MPI_COMM_WORLD, ", "with errorcode ",
        "Exited with exit code "};

    for (size_t i = 0; i < sizeof before / sizeof *before; i++) {
        const char *at = strstr(line, before[i]);

        if (at)
            return atoi(at + strlen(before[i]));
    }
    return 0;
}

void mds_losses_read(struct mds_losses *l, const char *line)
{
    if (l->status == 0)
        l->status = read_status(line);
    if (strstr(line, "done: iteration ")) {
        l->done = strstr(line, " (ended by ") == NULL;
        l->ended_early = !l->done;
    }
    if (read_fault(l, line) || l->in_check)
        return;
    if (!read_death(l, line) && !read_silence(l, line) && !read_device(l, line) &&
        !read_stuck(l, line))
        l->failed |= is_own_failure(line);
}
