/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/units.h"

#include <ctype.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct unit {
    const char *name;
    double factor;
};

static const struct unit count_units[] = {
    {"", 1},    {"k", 1e3}, {"K", 1e3},  {"M", 1e6},
    {"G", 1e9}, {"B", 1e9}, {"T", 1e12}, {0},
};
static const struct unit byte_units[] = {
    {"", 1},
    {"B", 1},
    {"kB", 1e3},
    {"KB", 1e3},
    {"MB", 1e6},
    {"GB", 1e9},
    {"TB", 1e12},
    {"k", 1e3},
    {"M", 1e6},
    {"G", 1e9},
    {"T", 1e12},
    {"KiB", 1024.0},
    {"MiB", 1048576.0},
    {"GiB", 1073741824.0},
    {"TiB", 1099511627776.0},
    {0},
};
static const struct unit time_units[] = {
    {"", 1},     {"s", 1},    {"sec", 1},   {"m", 60},
    {"min", 60}, {"h", 3600}, {"d", 86400}, {0},
};

/* A number followed by one of units; a space between them is allowed. */
static int parse_with_units(const char *text, const struct unit *units, double *out)
{
    char *end;
    double v;

    if (!isdigit((unsigned char)text[text[0] == '-' || text[0] == '.']))
        return -1;
    v = strtod(text, &end);
    if (end == text || !isfinite(v) || strpbrk(text, "xXpP"))
        return -1;
    while (*end == ' ')
        end++;
    for (; units->name; units++)
        if (strcmp(end, units->name) == 0) {
            *out = v * units->factor;
            return 0;
        }
    return -1;
}

/* truncate: drop the fraction of a number with a unit. */
static int parse_whole(const char *text, const struct unit *units, int truncate,
                       int64_t *out)
{
    char *end;
    long long exact = strtoll(text, &end, 10);
    double v, whole;

    if (parse_with_units(text, units, &v) || fabs(v) > 9.2e18)
        return -1;
    whole = rint(v);
    if (fabs(v - whole) > fabs(v) * DBL_EPSILON) { /* 1.001M is not quite whole */
        if (!truncate || isdigit((unsigned char)text[strlen(text) - 1]))
            return -1;
        whole = trunc(v);
    }
    *out = end != text && *end == '\0' ? (int64_t)exact : (int64_t)whole;
    return 0;
}

int mds_parse_count(const char *text, int64_t *out)
{
    return parse_whole(text, count_units, 0, out);
}

int mds_parse_bytes(const char *text, int64_t *out)
{
    return parse_whole(text, byte_units, 1, out);
}

int mds_parse_seconds(const char *text, double *out)
{
    int h, m, s, used = 0;

    if (sscanf(text, "%7d:%2d:%2d%n", &h, &m, &s, &used) == 3 && text[used] == '\0' &&
        h >= 0 && m >= 0 && m < 60 && s >= 0 && s < 60) {
        *out = 3600.0 * h + 60.0 * m + s;
        return 0;
    }
    return parse_with_units(text, time_units, out);
}

int mds_parse_real(const char *text, double *out)
{
    static const struct unit none[] = {{"", 1}, {0}};

    return parse_with_units(text, none, out);
}

static const char *format_scaled(double v, double step, const char *const *names,
                                 char *buf, size_t size)
{
    int i = 0;

    while (fabs(v) >= step && names[i + 1]) {
        v /= step;
        i++;
    }
    snprintf(buf, size, i == 0 ? "%.0f%s" : "%.2f%s", v, names[i]);
    return buf;
}

const char *mds_format_bytes(double bytes, char *buf, size_t size)
{
    static const char *const names[] = {" B",   " KiB", " MiB", " GiB",
                                        " TiB", " PiB", 0};

    return format_scaled(bytes, 1024, names, buf, size);
}

const char *mds_format_count(double count, char *buf, size_t size)
{
    static const char *const names[] = {"", " k", " M", " G", " T", " P", 0};

    return format_scaled(count, 1000, names, buf, size);
}

const char *mds_format_seconds(double s, char *buf, size_t size)
{
    long t = lround(s);

    if (s < 10)
        snprintf(buf, size, "%.1f s", s);
    else if (t < 60)
        snprintf(buf, size, "%ld s", t);
    else if (t < 3600)
        snprintf(buf, size, "%ld min %02ld s", t / 60, t % 60);
    else
        snprintf(buf, size, "%ld h %02ld min", t / 3600, t / 60 % 60);
    return buf;
}

const char *mds_format_step(double s, char *buf, size_t size)
{
    if (s >= 999.5)
        return mds_format_seconds(s, buf, size);
    if (s >= 1e-3 || s == 0)
        snprintf(buf, size, "%.3g s", s);
    else
        snprintf(buf, size, "%.3g ms", 1e3 * s);
    return buf;
}

const char *mds_format_real(double v, char *buf, size_t size)
{
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(buf, size, "%.*g", digits, v);
        if (strtod(buf, NULL) == v)
            break;
    }
    return buf;
}

const char *mds_plural(int64_t n)
{
    return n == 1 ? "" : "s";
}
