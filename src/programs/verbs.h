/* SPDX-License-Identifier: BSD-3-Clause */
/* Programs of verbs: PROGRAM VERB [option]... [word]...
 *
 * One table has the options of all verbs (config/optset.h), another the verbs.  What
 * does not fit is refused in a line that names the nearest thing there is. */
#ifndef MDS_PROGRAMS_VERBS_H
#define MDS_PROGRAMS_VERBS_H

#include "config/optset.h"

/* What was asked for. */
struct mds_call {
    struct mds_settings settings;
    size_t words; /* behind the verb */
    char *const *word;
    int argc; /* the whole line */
    char **argv;
    int behind_count; /* what stands behind "--", where another program's options do */
    char **behind;
};

/* How many names stand before the first option that a verb hands on. */
size_t mds_call_names(const struct mds_call *c);

struct mds_verb {
    const char *name;
    const char *synopsis; /* behind the program's name; "[-- " in it: what stands behind
                             "--" is another program's; else words, as "-x" is there */
    const char *about;    /* paragraphs of its --help */
    const char *groups;   /* headings of its options, with blanks between; NULL: its
                             name.  Those under "General" are every verb's. */
    size_t least, most;   /* words */
    const char *needs;    /* what they are, if there must be any: "one FILE" */
    enum mds_rc (*run)(const struct mds_call *c);
    int hands_on; /* options that are not its own are words: it hands them on */
};

struct mds_program {
    const struct mds_option_set *set;
    const struct mds_verb *verbs; /* ends with a row of zeros */
    const char *otherwise;        /* the verb where none is given: then verbs stand
                                     anywhere, and options of others are let pass; NULL:
                                     the first word is a verb, and takes its own */
};

/* Read the line and the environment and run the verb, or print what --help and its like
 * ask for; the program's exit status.  values: the struct of p->set, zeroed. */
int mds_program_run(const struct mds_program *p, int argc, char **argv, void *values);

#endif
