/* SPDX-License-Identifier: BSD-3-Clause */
/* comm: what is said, and how the run ends, when a rank does not do its part.
 *
 *   faults silent COLLECTIVE|MESSAGE   the last rank stops answering
 *   faults inside GROUP|END            the same where MPI has no limit of time
 *   faults stopped                     all are stopped inside, for longer than that
 *   faults differ KIND|COUNT|SKIP      the last rank calls something else
 *   faults length                      a message is not as long as awaited
 *   faults die HOW                     the last rank goes away: kill, exit, _exit, ...
 *   faults fail                        the last rank ends the run
 *
 * Where the ranks live on, status 42 says that all is well. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "tests/mpi/ranks.h"

static int last; /* the rank at fault */
static float x[100], work[400];

static void demand(int ok, const char *what)
{
    if (!ok)
        quit(what);
}

static int said(const char *text)
{
    return strstr(mds_fail_text(), text) != NULL;
}

/* The last rank naps for good; the others must learn which one it is. */
static void run_silent(const char *in)
{
    struct mds_comm_p2p m = {0};
    enum mds_rc rc;
    char name[64];

    mds_comm_set_timeout_s(0.5);
    must(mds_comm_barrier(all), "a barrier");
    if (world.rank == last)
        sleep(30);
    if (strcmp(in, "message") == 0) {
        must(mds_comm_recv_start(all, x, sizeof x, last, 7, &m), "recv");
        rc = mds_comm_p2p_wait(&m);
    } else {
        rc = mds_comm_all_reduce(all, x, 100, MDSK_F32, work);
    }
    snprintf(name, sizeof name, "rank %d has been silent", last);
    demand(rc == MDS_ECOMM && said(name), "no word of the silent rank");
    demand(mds_comm_barrier(all) == MDS_ECOMM && said("earlier"),
           "a broken group went on");
    mds_comm_destroy(all);
    if (world.rank == 0)
        mds_world_abort(42);
    sleep(30);
}

/* The last rank naps while MPI keeps the others. */
static void run_inside(const char *in)
{
    int ranks[] = {0, 1, 2};
    struct mds_comm *c = NULL;

    must(mds_comm_barrier(all), "a barrier");
    mds_comm_set_timeout_s(0.5);
    if (world.rank == last)
        sleep(30);
    if (strcmp(in, "group") == 0)
        mds_comm_create_mpi(ranks, 3, "late", &c);
    else
        mds_world_fini(&world);
    exit(42);
}

/* As batch systems do it, to a rank by a child; the last rank comes after that. */
static void run_stopped(void)
{
    int ranks[] = {0, 1, 2};
    struct mds_comm *c = NULL;

    must(mds_comm_barrier(all), "a barrier");
    mds_comm_set_timeout_s(2);
    if (world.rank == last) {
        nap(3500);
    } else if (fork() == 0) {
        nap(200);
        kill(getppid(), SIGSTOP);
        nap(3000);
        kill(getppid(), SIGCONT);
        _exit(0);
    }
    must(mds_comm_create_mpi(ranks, 3, "late", &c), "create");
    must(mds_comm_barrier(c), "a barrier");
    raise(SIGALRM); /* as a thread of MPI's may have one that is late */
    nap(2500);      /* no limit is left over */
    if (world.rank == 0)
        mds_world_abort(42);
    sleep(30);
}

/* One rank waits long after the others gave up on the last one: it must be told. */
static void run_chain(void)
{
    int pair[] = {0, 1};
    struct mds_comm *c = NULL;
    double d = 0;

    if (world.rank < 2)
        must(mds_comm_create_mpi(pair, 2, "pair", &c), "create");
    if (world.rank == 1)
        mds_comm_set_timeout_s(0.5);
    demand(mds_comm_all_reduce_f64(world.rank == 0 ? c : all, &d, 1, MDS_COMM_SUM) ==
               MDS_ECOMM,
           "went on");
    if (world.rank == 0) {
        demand(said("rank 1 timed out first; this rank had waited "), "not told");
        mds_world_abort(42);
    }
    sleep(30);
}

/* Rank 0 waits for rank 1, which waits for the silent one, and gives up first. */
static void run_relay(void)
{
    struct mds_comm_p2p m = {0};

    mds_comm_set_timeout_s(world.rank == 0 ? 0.5 : 20);
    must(mds_comm_barrier(all), "a barrier");
    if (world.rank == last)
        sleep(30);
    must(mds_comm_recv_start(all, x, sizeof x, world.rank + 1, 7, &m), "recv");
    demand(mds_comm_p2p_wait(&m) == MDS_ECOMM, "went on");
    mds_error("%s", mds_fail_text());
    if (world.rank == 0) {
        demand(said("rank 2 has been silent for 0.5 s") &&
                   said("rank 1, for which this rank waits, waits for it too"),
               "the wrong rank is blamed");
        mds_world_abort(42);
    }
    sleep(30);
}

static enum mds_rc call_something(const char *what)
{
    const int odd = world.rank == last;
    double d = 0;

    if (odd && strcmp(what, "kind") == 0)
        return mds_comm_barrier(all);
    if (odd && strcmp(what, "count") == 0)
        return mds_comm_all_reduce(all, x, 99, MDSK_F32, work);
    if (!odd && strcmp(what, "skip") == 0)
        MDS_TRY(mds_comm_all_reduce_f64(all, &d, 1, MDS_COMM_MAX));
    return mds_comm_all_reduce(all, x, 100, MDSK_F32, work);
}

static void run_differ(const char *what)
{
    char other[64];

    mds_comm_set_check(1);
    must(mds_comm_barrier(all), "a barrier");
    demand(call_something(what) == MDS_EBUG, "different calls went through");
    snprintf(other, sizeof other, "; rank %d: ", last);
    demand(said("all: collective 2 is not") && said("rank 0: all_reduce") &&
               said(other) && said("faults.c:"),
           "the calls are not named");
    mds_error("%s", mds_fail_text());
    if (world.rank == 0)
        mds_world_abort(42);
    sleep(30);
}

static void run_length(void)
{
    struct mds_comm_p2p m = {0};

    if (world.rank == last)
        must(mds_comm_send_start(all, x, 12, 0, 7, &m), "send");
    if (world.rank == 0) {
        must(mds_comm_recv_start(all, x, 16, last, 7, &m), "recv");
        demand(mds_comm_p2p_wait(&m) == MDS_EBUG && said("expects 16 bytes") &&
                   said("sent 12"),
               "a wrong length went through");
        mds_world_abort(42);
    }
    sleep(30);
}

static void run_die(const char *how)
{
    for (int step = 0;; step++) {
        if (step == 3 && world.rank == last) {
            nap(300); /* the others wait by now */
            if (strcmp(how, "kill") == 0)
                raise(SIGKILL);
            if (strcmp(how, "interrupt") == 0)
                raise(SIGINT);
            if (strcmp(how, "exit") == 0)
                exit(0);
            if (strcmp(how, "fail") == 0)
                quit("step");
            _exit(0);
        }
        must(mds_comm_all_reduce(all, x, 100, MDSK_F32, work), "step");
    }
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "", *how = argc > 2 ? argv[2] : "";

    ranks_init();
    last = world.ranks - 1;
    if (strcmp(what, "silent") == 0)
        run_silent(how);
    else if (strcmp(what, "inside") == 0)
        run_inside(how);
    else if (strcmp(what, "stopped") == 0)
        run_stopped();
    else if (strcmp(what, "relay") == 0)
        run_relay();
    else if (strcmp(what, "chain") == 0)
        run_chain();
    else if (strcmp(what, "differ") == 0)
        run_differ(how);
    else if (strcmp(what, "length") == 0)
        run_length();
    else if (strcmp(what, "die") == 0)
        run_die(how);
    return 1;
}
