/* Command lines of the small programs: PROGRAM VERB [--option [VALUE]]... [OPERAND]...
 *
 * Each verb has a table of options, stored in one struct for all verbs.  What does not
 * fit is refused in a line that names the nearest thing there is.  (mds_pretrain and
 * mds_launch read files and the environment as well: config/optset.h.) */
#ifndef MDS_PROGRAMS_ARGUMENTS_H
#define MDS_PROGRAMS_ARGUMENTS_H

#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

enum mds_argument_type {
    MDS_ARG_FLAG,   /* int          1 when given */
    MDS_ARG_COUNT,  /* int64_t      a whole number, 0 or more: 42, 128k */
    MDS_ARG_BYTES,  /* int64_t      the same, also 5GB, 32MiB */
    MDS_ARG_REAL,   /* double       0 or more */
    MDS_ARG_TEXT,   /* const char * borrowed from argv */
    MDS_ARG_CHOICE, /* int          index into choices */
};

struct mds_argument {
    const char *name; /* "--keep-last" */
    enum mds_argument_type type;
    size_t offset;              /* of the field in struct mds_arguments */
    const char *const *choices; /* of MDS_ARG_CHOICE, ends with NULL */
};

/* Each program's own; zero, and then what its main sets, are the defaults. */
struct mds_arguments;

struct mds_verb {
    const char *name;
    const struct mds_argument *arguments; /* ends with a row of zeros */
    /* operand[n]: what is neither an option nor the value of one. */
    enum mds_rc (*run)(const struct mds_arguments *a, int n, char **operand);
    /* Options that are in no table here are operands as well, with their values: the
     * verb hands them on. */
    int hands_on;
};

struct mds_program {
    const char *name;
    const char *usage;            /* what --help prints */
    const struct mds_verb *verbs; /* ends with a row of zeros */
};

/* Read the words and run the verb; the program's exit status.  --help and --version are
 * known everywhere. */
int mds_program_run(const struct mds_program *p, int argc, char **argv,
                    struct mds_arguments *a);

/* "VERB: give one NAME, not 3": MDS_EUSER unless n == want. */
enum mds_rc mds_operands_check(const char *verb, const char *name, int n, int want);

#endif
