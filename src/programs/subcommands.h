/* SPDX-License-Identifier: BSD-3-Clause */
/* Programs with subcommands: PROGRAM SUBCOMMAND [option]... [operand]...
 *
 * One table has the options of all subcommands (config/optset.h), another the
 * subcommands.  An unknown name is an error that suggests the nearest known one. */
#ifndef MDS_PROGRAMS_SUBCOMMANDS_H
#define MDS_PROGRAMS_SUBCOMMANDS_H

#include "config/optset.h"

/* A command line, read. */
struct mds_invocation {
    struct mds_settings settings;
    size_t operand_count; /* after the subcommand */
    char *const *operand;
    int argc; /* the whole command line */
    char **argv;
    int passed_argc; /* what follows "--": options of another program */
    char **passed_argv;
    int *status; /* what the program exits with if the subcommand succeeds; 0 so far */
};

/* The number of operands before the first option that is passed on as an operand. */
size_t mds_invocation_name_count(const struct mds_invocation *c);

struct mds_subcommand {
    const char *name;
    const char
        *synopsis;     /* after the program's name.  If it contains "[-- ", what follows
                             "--" is for another program; else those are operands. */
    const char *about; /* paragraphs of its --help */
    const char *groups; /* headings of its options, separated by blanks; NULL: its name.
                             "General" belongs to every subcommand. */
    size_t least, most; /* number of operands */
    const char *needs;  /* for errors, if least > 0: "one FILE" */
    enum mds_rc (*run)(const struct mds_invocation *c);
    int passes_unknown; /* unknown options are operands, which it passes on */
};

struct mds_program {
    const struct mds_option_set *set;
    const struct mds_subcommand *subcommands; /* ends with a row of zeros */
    /* The subcommand if none is given; its name may then be anywhere among all options.
     * NULL: the first word is the subcommand, and takes only its own options. */
    const char *default_name;
};

/* Read the command line and the environment, then run the subcommand or print what an
 * option such as --help asks for.  values: the zeroed struct of p->set.  Returns the
 * exit status. */
int mds_program_run(const struct mds_program *p, int argc, char **argv, void *values);

#endif
