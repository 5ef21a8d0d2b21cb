/* SPDX-License-Identifier: BSD-3-Clause */
#include "launch/events.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *mds_event_text(const struct mds_node *record, const char *key)
{
    const struct mds_node *n = mds_node_get(record, key);

    return n && n->text && strcmp(n->text, "null") != 0 ? n->text : NULL;
}

double mds_event_number(const struct mds_node *record, const char *key,
                        double otherwise)
{
    const char *text = mds_event_text(record, key);

    return text ? strtod(text, NULL) : otherwise;
}

/* JSON is YAML. */
static enum mds_rc read_line(const char *path, const char *line, mds_event_reader *f,
                             void *to)
{
    struct mds_tree *tree = NULL;
    const char *event;
    enum mds_rc rc = MDS_OK;

    if (line[0] != '{' || mds_tree_parse(line, strlen(line), path, &tree))
        return MDS_OK;
    event = mds_event_text(tree->root, "event");
    if (event)
        rc = f(to, event, tree->root);
    mds_tree_destroy(tree);
    return rc;
}

enum mds_rc mds_events_read(const char *path, int64_t *at, mds_event_reader *f,
                            void *to)
{
    FILE *file = fopen(path, "re");
    enum mds_rc rc = MDS_OK;
    char *line = NULL;
    size_t size = 0;
    ssize_t n;

    if (!file)
        return MDS_OK;
    if (fseeko(file, (off_t)*at, SEEK_SET) == 0)
        while (!rc && (n = getline(&line, &size, file)) > 0 && line[n - 1] == '\n') {
            *at += n;
            rc = read_line(path, line, f, to);
        }
    free(line);
    fclose(file);
    return rc;
}

/* ---- how a start of the ranks ended ---- */

void mds_losses_add(struct mds_losses *l, int rank, const char *host, const char *why)
{
    struct mds_loss *new = &l->v[l->n];

    if (l->n == MDS_LOSSES)
        return;
    *new = (struct mds_loss){.rank = rank};
    snprintf(new->host, sizeof new->host, "%.*s", MDS_HOST_SIZE - 1, host ? host : "");
    snprintf(new->why, sizeof new->why, "%.*s", (int)sizeof new->why - 1,
             why ? why : "is lost");
    l->n++;
}

static void add_record(struct mds_losses *l, const struct mds_node *record)
{
    mds_losses_add(l, (int)mds_event_number(record, "rank", -1),
                   mds_event_text(record, "host"), mds_event_text(record, "reason"));
}

/* One of a group of ranks is no node to leave out. */
static void take_unfit(struct mds_losses *l, const struct mds_node *record)
{
    if (mds_event_number(record, "group", 0) != 0)
        return;
    if (!l->in_check)
        l->n = 0;
    l->in_check = 1;
    add_record(l, record);
}

/* A rank that was aborted (SIGABRT) may have died because a peer did, which then has
 * still to come.  A host that is cut off says that the others are silent, and they say
 * so of it: who is right is not known yet. */
static void take_loss(struct mds_losses *l, const struct mds_node *record)
{
    const char *cause = mds_event_text(record, "cause");
    int aborted = mds_event_number(record, "signal", 0) == SIGABRT;
    int silent = cause && strcmp(cause, "silent") == 0;

    l->silent |= silent;
    l->out_of_memory |= mds_event_number(record, "out_of_memory", 0) != 0;
    if (l->may_follow && !aborted && !silent)
        l->n = l->may_follow = 0;
    if (l->failed || l->n == MDS_LOSSES || (l->n > 0 && !(silent && l->v[0].silent)))
        return;
    add_record(l, record);
    l->v[l->n - 1].silent = silent;
    l->may_follow = aborted;
}

/* A rank that noticed another's end says 75, and may be the first to write. */
static void take_end(struct mds_losses *l, const char *event,
                     const struct mds_node *record)
{
    int status = (int)mds_event_number(record, "status", EXIT_FAILURE);

    l->failed |= strcmp(event, "failed") == 0 && status == EXIT_FAILURE;
    if (!l->has_status)
        l->status = status;
    l->has_status = 1;
}

static enum mds_rc take_event(void *to, const char *event,
                              const struct mds_node *record)
{
    struct mds_losses *l = to;

    if (strcmp(event, "started") == 0)
        l->started = 1;
    else if (strcmp(event, "cancelled") == 0)
        l->cancelled = 1;
    else if (strcmp(event, "unfit") == 0)
        take_unfit(l, record);
    else if (strcmp(event, "rank_lost") == 0 && !l->in_check)
        take_loss(l, record);
    else if (strcmp(event, "stuck") == 0)
        l->stuck = mds_event_number(record, "rank", -1) < 0 ? 1 : 2;
    else if (strcmp(event, "failed") == 0 || strcmp(event, "finished") == 0)
        take_end(l, event, record);
    return MDS_OK;
}

void mds_losses_read(struct mds_losses *l, const char *path, int64_t *at)
{
    (void)mds_events_read(path, at, take_event, l);
}
