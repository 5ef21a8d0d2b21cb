/* SPDX-License-Identifier: BSD-3-Clause */
/* Train one configuration after another in one start of the ranks: what mds_pretrain
 * does, without the seconds that starting takes.
 *
 *     mpiexec -n RANKS train_rows FILE
 *
 * A line of FILE: a name, then the options of mds_pretrain, all parted by blanks.
 * Prints "trains NAME", then what training prints, then "trained NAME".  The first
 * failure ends all. */
#include "base/log.h"
#include "programs/finish.h"
#include "train/pretrain.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_WORDS = 255 };

static void say(const struct mds_world *w, const char *what, const char *name)
{
    if (w->rank == 0)
        printf("%s %s\n", what, name);
    fflush(stdout);
}

/* The words of a line, which is changed; NULL behind the last. */
static int split(char *line, char **words)
{
    int n = 0;

    for (char *rest, *word = strtok_r(line, " \n", &rest); word && n < MOST_WORDS;
         word = strtok_r(NULL, " \n", &rest))
        words[n++] = word;
    words[n] = NULL;
    return n;
}

static enum mds_rc train_row(const struct mds_world *w, int n, char *const *words)
{
    struct mds_diag diag = {0};
    struct mds_config_run *run;
    int unfinished;

    say(w, "trains", words[0]);
    MDS_TRY(mds_config_read(n, words, &diag, &run));
    MDS_TRY(mds_pretrain(w, run, &diag, "train_rows", &unfinished));
    mds_config_run_destroy(run);
    mds_diag_fini(&diag);
    say(w, "trained", words[0]);
    return MDS_OK;
}

static enum mds_rc train_file(const struct mds_world *w, const char *path)
{
    char *words[MOST_WORDS + 1], *line = NULL;
    FILE *f = fopen(path, "r");
    enum mds_rc rc = MDS_OK;
    size_t room = 0;

    if (!f)
        return mds_fail(MDS_EIO, "%s: cannot be read", path);
    while (!rc && getline(&line, &room, f) >= 0)
        rc = train_row(w, split(line, words), words);
    free(line);
    fclose(f);
    return rc;
}

static _Noreturn void leave(void)
{
    mds_failure_log();
    mds_world_abort(EXIT_FAILURE);
}

int main(int argc, char **argv)
{
    struct mds_world w = {.ranks = 1};

    if (argc != 2) {
        fputs("usage: train_rows FILE\n", stderr);
        return EXIT_FAILURE;
    }
    if (mds_world_init(&w))
        leave();
    mds_log_init(w.rank, w.ranks, w.host, MDS_LOG_INFO);
    if (train_file(&w, argv[1]))
        leave();
    mds_world_fini(&w);
    return EXIT_SUCCESS;
}
