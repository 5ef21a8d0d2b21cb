/* SPDX-License-Identifier: BSD-3-Clause */
#include "launch/hosts.h"
#include "base/alloc.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_HOSTS = 100000, MAX_NAME = 256, MAX_DIGITS = 6 };

void mds_hosts_fini(struct mds_hosts *h)
{
    while (h->count > 0)
        free(h->name[--h->count]);
    free(h->name);
    free(h->slots);
    *h = (struct mds_hosts){0};
}

/* Whether b is a, or a with a domain. */
static int is_with_domain(const char *a, const char *b)
{
    size_t n = strlen(a);

    return strncmp(a, b, n) == 0 && (!b[n] || b[n] == '.');
}

int64_t mds_hosts_find(const struct mds_hosts *h, const char *name)
{
    for (size_t i = 0; i < h->count && *name; i++)
        if (is_with_domain(h->name[i], name) || is_with_domain(name, h->name[i]))
            return (int64_t)i;
    return -1;
}

size_t mds_hosts_remove(struct mds_hosts *h, const struct mds_hosts *bad)
{
    size_t kept = 0, before = h->count;

    for (size_t i = 0; i < before; i++) {
        if (mds_hosts_find(bad, h->name[i]) >= 0) {
            free(h->name[i]);
            continue;
        }
        h->name[kept] = h->name[i];
        h->slots[kept++] = h->slots[i];
    }
    h->count = kept;
    return before - kept;
}

static enum mds_rc append_host(struct mds_hosts *h, const char *name, int slots)
{
    if (h->count == MAX_HOSTS)
        return mds_fail(MDS_EUSER, "more than %d nodes", MAX_HOSTS);
    MDS_TRY(mds_grow(&h->name, h->count, sizeof *h->name));
    MDS_TRY(mds_grow(&h->slots, h->count, sizeof *h->slots));
    h->name[h->count] = mds_strdup(name);
    if (!h->name[h->count])
        return MDS_EMEM;
    h->slots[h->count++] = slots;
    return MDS_OK;
}

/* ---- Slurm's form ---- */

/* Of "text" the part before the first comma or + that is outside of brackets. */
static size_t hostlist_item_length(const char *text)
{
    int depth = 0;
    size_t n = 0;

    for (; text[n] && (depth > 0 || !strchr(",+", text[n])); n++)
        depth += (text[n] == '[') - (text[n] == ']');
    return n;
}

static enum mds_rc expand_hostlist_item(const char *head, const char *rest,
                                        struct mds_hosts *out);

static int is_node_name(const char *text)
{
    return !text[strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                              "0123456789._-")];
}

/* "1-3" or "07" of a bracket: each number, then what follows the bracket. */
static enum mds_rc expand_range(const char *head, const char *range, const char *rest,
                                struct mds_hosts *out)
{
    int width = (int)strspn(range, "0123456789"), used = 0;
    long from, to;

    if (width == 0 || width > 9)
        return mds_fail(MDS_EUSER, "'%s' is not a range of numbers", range);
    from = to = strtol(range, NULL, 10);
    if (range[width] == '-') {
        if (sscanf(range + width, "-%9ld%n", &to, &used) != 1 || to < from)
            return mds_fail(MDS_EUSER, "'%s' is not a range of numbers", range);
    }
    if (range[width + used] != '\0')
        return mds_fail(MDS_EUSER, "'%s' is not a range of numbers", range);
    if (to - from >= MAX_HOSTS)
        return mds_fail(MDS_EUSER, "'%s': more than %d nodes", range, MAX_HOSTS);
    for (long i = from; i <= to; i++) {
        char name[MAX_NAME];

        if (snprintf(name, sizeof name, "%s%0*ld", head, width, i) >= MAX_NAME)
            return mds_fail(MDS_EUSER, "a name of more than %d bytes", MAX_NAME - 1);
        MDS_TRY(expand_hostlist_item(name, rest, out));
    }
    return MDS_OK;
}

/* The bracket's ranges, one after the other; open is the first byte in it. */
static enum mds_rc expand_bracket(const char *head, const char *open, const char *close,
                                  struct mds_hosts *out)
{
    while (open < close) {
        char range[MAX_NAME];
        size_t n = strcspn(open, ",]");

        snprintf(range, sizeof range, "%.*s", (int)(n < MAX_NAME ? n : MAX_NAME - 1),
                 open);
        MDS_TRY(expand_range(head, range, close + 1, out));
        open += n + 1;
    }
    return MDS_OK;
}

/* head is expanded, rest is not. */
static enum mds_rc expand_hostlist_item(const char *head, const char *rest,
                                        struct mds_hosts *out)
{
    const char *open = strchr(rest, '['), *close = open ? strchr(open, ']') : NULL;
    char name[MAX_NAME];
    int n = open ? (int)(open - rest) : (int)strlen(rest);

    if (snprintf(name, sizeof name, "%s%.*s", head, n, rest) >= MAX_NAME)
        return mds_fail(MDS_EUSER, "a name of more than %d bytes", MAX_NAME - 1);
    if (!open && strchr(rest, ']'))
        return mds_fail(MDS_EUSER, "'%s': ] without [", rest);
    if (!open)
        return is_node_name(name)
                   ? append_host(out, name, 1)
                   : mds_fail(MDS_EUSER, "'%s' is not the name of a node", name);
    if (!close || close == open + 1)
        return mds_fail(MDS_EUSER, "'%s': %s", rest,
                        close ? "nothing between [ and ]" : "[ without ]");
    return expand_bracket(name, open + 1, close, out);
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static enum mds_rc reject_duplicates(const struct mds_hosts *h)
{
    char **sorted = mds_zalloc(h->count, sizeof *sorted);
    enum mds_rc rc = sorted ? MDS_OK : MDS_EMEM;

    if (rc)
        return rc;
    memcpy(sorted, h->name, h->count * sizeof *sorted);
    qsort(sorted, h->count, sizeof *sorted, compare_names);
    for (size_t i = 1; i < h->count && !rc; i++)
        if (strcmp(sorted[i - 1], sorted[i]) == 0)
            rc = mds_fail(MDS_EUSER, "node %s is listed twice", sorted[i]);
    free(sorted);
    return rc;
}

/* Append the nodes of such a list. */
static enum mds_rc append_hostlist(const char *text, struct mds_hosts *h)
{
    enum mds_rc rc = MDS_OK;

    for (const char *p = text; !rc && *p;) {
        size_t n = hostlist_item_length(p);
        char *word = strndup(p, n);

        if (n == 0 || !word)
            rc = mds_fail(MDS_EUSER, "an empty name");
        else
            rc = expand_hostlist_item("", word, h);
        free(word);
        p += n + (p[n] != '\0');
    }
    return rc;
}

enum mds_rc mds_hosts_expand(const char *text, struct mds_hosts *out)
{
    struct mds_hosts h = {0};
    enum mds_rc rc = append_hostlist(text, &h);
    char why[512];

    if (!rc && h.count == 0)
        rc = mds_fail(MDS_EUSER, "no names");
    if (!rc)
        rc = reject_duplicates(&h);
    if (rc) {
        snprintf(why, sizeof why, "%s", mds_fail_text());
        mds_hosts_fini(&h);
        return mds_fail(rc, "list of nodes '%s': %s", text, why);
    }
    *out = h;
    return MDS_OK;
}

/* ---- files ---- */

struct lines {
    const char *path;
    int strict, line, blank; /* blank: the last blank line, or 0 */
};

static size_t find_host(const struct mds_hosts *h, const char *name)
{
    size_t i = 0;

    /* Repetitions stand together, as a rule. */
    if (h->count > 0 && strcmp(h->name[h->count - 1], name) == 0)
        return h->count - 1;
    while (i < h->count && strcmp(h->name[i], name) != 0)
        i++;
    return i;
}

/* "name", "name slots=N", "name:N"; N in *slots, 0 if none is said. */
static int split_hostfile_line(char *line, char **name, int *slots)
{
    char *more;

    *name = line + strspn(line, " \t");
    *slots = 0;
    more = *name + strcspn(*name, " \t:");
    if (*more) {
        char end = *more;

        *more++ = '\0';
        more += strspn(more, " \t");
        if (strncmp(more, "slots=", 6) == 0)
            more += 6;
        else if (end != ':' && *more)
            return -1;
        if (*more) {
            size_t digits = strspn(more, "0123456789");

            *slots = digits <= MAX_DIGITS ? atoi(more) : 0;
            more += digits;
            return *slots > 0 && !more[strspn(more, " \t")] ? 0 : -1;
        }
    }
    return 0;
}

static enum mds_rc parse_hostfile_line(struct lines *l, char *line,
                                       struct mds_hosts *out)
{
    char *name;
    int slots;
    size_t at;

    if (!line[strspn(line, " \t\r\n")])
        l->blank = l->line;
    line[strcspn(line, "#\r\n")] = '\0';
    if (!line[strspn(line, " \t")])
        return MDS_OK;
    if (l->blank && l->strict)
        return mds_fail(MDS_EUSER, "%s:%d: a blank line between nodes; delete it",
                        l->path, l->blank);
    if (split_hostfile_line(line, &name, &slots))
        return mds_fail(MDS_EUSER, "%s:%d: must be a node's name, or NAME slots=N",
                        l->path, l->line);
    at = find_host(out, name);
    out->has_slots |= slots > 0 || at < out->count;
    if (at == out->count)
        return append_host(out, name, slots ? slots : 1);
    if (l->strict)
        return mds_fail(MDS_EUSER, "%s:%d: node %s is listed twice; delete one line",
                        l->path, l->line, name);
    out->slots[at] += slots ? slots : 1;
    return MDS_OK;
}

/* Lists of nodes, and comments. */
static enum mds_rc parse_excluded_line(struct lines *l, char *line,
                                       struct mds_hosts *out)
{
    char *rest = line, *word, why[512];
    enum mds_rc rc = MDS_OK;

    line[strcspn(line, "#")] = '\0';
    while (!rc && (word = strtok_r(rest, " \t\r\n", &rest)))
        rc = append_hostlist(word, out);
    if (!rc)
        return MDS_OK;
    snprintf(why, sizeof why, "%s", mds_fail_text());
    return mds_fail(rc, "%s:%d: %s", l->path, l->line, why);
}

static enum mds_rc read_lines(struct lines *l,
                              enum mds_rc (*parse)(struct lines *l, char *line,
                                                   struct mds_hosts *out),
                              struct mds_hosts *out)
{
    enum mds_rc rc = MDS_OK;
    FILE *f = fopen(l->path, "re");
    char *line = NULL;
    size_t size = 0;

    *out = (struct mds_hosts){0};
    if (!f)
        return mds_fail(MDS_EUSER, "list of nodes %s: %s", l->path, strerror(errno));
    while (!rc && getline(&line, &size, f) > 0) {
        l->line++;
        rc = parse(l, line, out);
    }
    if (!rc && !feof(f))
        rc = mds_fail(MDS_EUSER, "list of nodes %s: %s", l->path, strerror(errno));
    free(line);
    fclose(f);
    if (rc)
        mds_hosts_fini(out);
    return rc;
}

enum mds_rc mds_hosts_read(const char *path, int strict, struct mds_hosts *out)
{
    struct lines l = {.path = path, .strict = strict};

    MDS_TRY(read_lines(&l, parse_hostfile_line, out));
    return out->count > 0
               ? MDS_OK
               : mds_fail(MDS_EUSER, "list of nodes %s: no node in it", path);
}

enum mds_rc mds_hosts_read_excluded(const char *path, struct mds_hosts *out)
{
    struct lines l = {.path = path};

    *out = (struct mds_hosts){0};
    return access(path, F_OK) ? MDS_OK : read_lines(&l, parse_excluded_line, out);
}
