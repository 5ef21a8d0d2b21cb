/* SPDX-License-Identifier: BSD-3-Clause */
#include "launch/history.h"
#include "base/alloc.h"
#include "base/log.h"
#include "io/folder.h"
#include "launch/events.h"
#include "launch/run_folder.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <wordexp.h>

/* ---- events.jsonl ---- */

static enum mds_rc begin_stint(struct mds_history *h, const struct mds_node *record)
{
    struct mds_stint *more = mds_grow(h->stint, h->stints, sizeof *more);
    double time = mds_event_number(record, "time", NAN);

    if (!more)
        return MDS_EMEM;
    h->stint = more;
    more[h->stints++] =
        (struct mds_stint){.nodes = mds_event_number(record, "nodes", 1),
                           .began_s = time,
                           .ended_s = time};
    return MDS_OK;
}

static void add_loss(struct mds_history *h, const struct mds_node *record)
{
    const char *host = mds_event_text(record, "host");
    const char *reason = mds_event_text(record, "reason");
    time_t at = (time_t)mds_event_number(record, "time", 0);
    char when[64];
    struct tm tm;

    strftime(when, sizeof when, "%Y-%m-%d %H:%M:%S UTC", gmtime_r(&at, &tm));
    mds_argv_add(&h->losses, "on %s rank %d on %s %s", when,
                 (int)mds_event_number(record, "rank", -1), host ? host : "?",
                 reason ? reason : "was lost");
}

/* Of several ranks that die the first is the cause: the launcher then ends the others.
 */
static void take_loss(struct mds_history *h, const struct mds_node *record)
{
    struct mds_stint *last = &h->stint[h->stints - 1];

    if (!last->has_loss)
        add_loss(h, record);
    last->has_loss = 1;
}

static enum mds_rc take_event(void *to, const char *event,
                              const struct mds_node *record)
{
    struct mds_history *h = to;
    int of_ranks = strcmp(event, "submitted") != 0 && strcmp(event, "cancelled") != 0;

    if (strcmp(event, "launched") == 0)
        return begin_stint(h, record);
    if (h->stints == 0 || !of_ranks)
        return MDS_OK;
    mds_history_note_step(h, mds_event_number(record, "time", NAN));
    if (strcmp(event, "rank_lost") == 0)
        take_loss(h, record);
    if (strcmp(event, "unfit") == 0)
        add_loss(h, record);
    return MDS_OK;
}

/* The latest start before that time. */
void mds_history_note_step(struct mds_history *h, double wall_s)
{
    for (size_t i = h->stints; i-- > 0;)
        if (h->stint[i].began_s <= wall_s) {
            h->stint[i].ended_s = fmax(h->stint[i].ended_s, wall_s);
            return;
        }
}

double mds_history_node_hours(const struct mds_history *h)
{
    double s = h->stints > 0 ? 0 : NAN;

    for (size_t i = 0; i < h->stints; i++)
        s += h->stint[i].nodes * (h->stint[i].ended_s - h->stint[i].began_s);
    return s / 3600;
}

/* ---- run.yaml ---- */

/* Split at blanks, quotes removed, as a shell does. */
static void add_shell_words(struct mds_argv *to, const char *text)
{
    wordexp_t words;

    if (wordexp(text, &words, WRDE_NOCMD | WRDE_UNDEF))
        return; /* nobody but a shell's user writes such options */
    for (size_t i = 0; i < words.we_wordc; i++)
        mds_argv_add(to, "%s", words.we_wordv[i]);
    wordfree(&words);
}

static enum mds_rc read_asked(const char *folder, struct mds_argv *out)
{
    const struct mds_node *asked;
    struct mds_tree *tree = NULL;
    char path[MDS_PATH_SIZE];

    MDS_TRY(mds_path_join(folder, "run.yaml", path));
    if (access(path, R_OK))
        return MDS_OK;
    if (mds_run_folder_read(folder, &tree)) {
        mds_warn("%s", mds_fail_text()); /* the run's results count all the same */
        return MDS_OK;
    }
    asked = mds_node_get(tree->root, "asked");
    if (asked && asked->text)
        add_shell_words(out, asked->text);
    mds_tree_destroy(tree);
    return MDS_OK;
}

int mds_history_option(const struct mds_argv *asked, const char *flag,
                       struct mds_str *out)
{
    size_t i = 0;

    while (i < asked->n && strcmp(asked->v[i], flag) != 0)
        i++;
    if (i == asked->n)
        return 0;
    if (++i == asked->n || strncmp(asked->v[i], "--", 2) == 0)
        mds_str_add(out, "on");
    for (int n = 0; i < asked->n && strncmp(asked->v[i], "--", 2) != 0; i++, n++)
        mds_str_add(out, "%s%s", n ? " " : "", asked->v[i]);
    return 1;
}

enum mds_rc mds_history_read(const char *folder, struct mds_history *out)
{
    char path[MDS_PATH_SIZE];
    int64_t at = 0;

    *out = (struct mds_history){0};
    MDS_TRY(mds_path_join(folder, "events.jsonl", path));
    MDS_TRY(mds_events_read(path, &at, take_event, out));
    MDS_TRY(read_asked(folder, &out->asked));
    return out->losses.failed || out->asked.failed
               ? mds_fail(MDS_EMEM, "no host memory for the history of %s", folder)
               : MDS_OK;
}

void mds_history_fini(struct mds_history *h)
{
    free(h->stint);
    mds_argv_fini(&h->losses);
    mds_argv_fini(&h->asked);
    *h = (struct mds_history){0};
}
