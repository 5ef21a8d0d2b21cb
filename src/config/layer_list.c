/* SPDX-License-Identifier: BSD-3-Clause */
#include "config/layer_list.h"

#include <stdlib.h>

enum { DEPTH = 8, MOST = 100000 };

/* What is left of the text, and which item is looked for. */
struct reader {
    const char *at;
    int64_t layer; /* -1: none */
    int *item;
    int depth;
};

static char next(struct reader *r)
{
    while (*r->at == ' ')
        r->at++;
    return *r->at;
}

/* Whether the next character is this one: then it is read. */
static int skip(struct reader *r, char c)
{
    int is_next = next(r) == c;

    r->at += is_next;
    return is_next;
}

/* "1,0,0]" */
static int64_t read_items(struct reader *r)
{
    int64_t n = 0;

    do {
        char c = next(r);

        if (c != '0' && c != '1')
            return -1;
        if (n++ == r->layer)
            *r->item = c == '1';
        r->at++;
    } while (skip(r, ','));
    return skip(r, ']') ? n : -1;
}

static int64_t read_sum(struct reader *r);

/* A list, or a sum in parentheses. */
static int64_t read_factor(struct reader *r)
{
    int64_t n;

    if (skip(r, '['))
        return read_items(r);
    if (!skip(r, '(') || ++r->depth > DEPTH)
        return -1;
    n = read_sum(r);
    r->depth--;
    return skip(r, ')') ? n : -1;
}

/* A factor, or so many times one. */
static int64_t read_term(struct reader *r)
{
    struct reader again = *r, count = *r;
    int64_t times = 1, n;
    char *end;

    count.layer = -1;
    n = read_factor(&count);
    if (n >= 0 && skip(&count, '*')) {
        next(&count);
        times = strtol(count.at, &end, 10);
        n = end == count.at || times < 0 || times > MOST ? -1 : n;
        count.at = end;
    }
    if (n < 0 || n * times > MOST)
        return -1;
    if (r->layer >= 0 && r->layer < n * times) {
        again.layer = r->layer % n;
        read_factor(&again);
    }
    r->at = count.at;
    return n * times;
}

static int64_t read_sum(struct reader *r)
{
    const int64_t layer = r->layer;
    int64_t sum = 0;

    do {
        int64_t n;

        r->layer = layer < sum ? -1 : layer - sum;
        n = read_term(r);
        if (n < 0 || sum + n > MOST)
            return -1;
        sum += n;
    } while (skip(r, '+'));
    return sum;
}

int64_t mds_layer_list(const char *text, int64_t layer, int *item)
{
    struct reader r = {.at = text, .layer = item ? layer : -1, .item = item};
    int64_t n = read_sum(&r);

    return next(&r) ? -1 : n;
}
