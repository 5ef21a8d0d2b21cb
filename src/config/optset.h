/* SPDX-License-Identifier: BSD-3-Clause */
/* A program's options: one table defines the command line, the environment, YAML files,
 * --help and --show-config.
 *
 * A program writes its table and a struct for the values; it calls mds_settings_init
 * and reads each source.  mds_pretrain's table is in
 * options.c, its calls in config_read.c; the others' calls are in
 * programs/subcommands.c. */
#ifndef MDS_CONFIG_OPTSET_H
#define MDS_CONFIG_OPTSET_H

#include "base/str.h"
#include "config/diag.h"
#include "config/tree.h"

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* What a user may write, and the type of the field it is stored in. */
enum mds_option_type {
    MDS_OPT_INT,     /* int64_t  42 */
    MDS_OPT_COUNT,   /* int64_t  42, 128k, 1e9 (powers of 1000) */
    MDS_OPT_BYTES,   /* int64_t  42, 32MiB, 1GB */
    MDS_OPT_REAL,    /* double   1.5e-4 */
    MDS_OPT_SECONDS, /* double   90, 90s, 2h, 1:30:00 */
    MDS_OPT_MINUTES, /* double   in seconds; as above, but a bare number is minutes */
    MDS_OPT_FLAG,    /* int      --x, --no-x; in the environment and in files also
                                 0/1, true/false, yes/no, on/off */
    MDS_OPT_ENUM,    /* int      index into choices; letter case does not matter */
    MDS_OPT_SET,     /* int      bit i: choices[i] is among the words up to the next
                                 --option, between blanks or commas; NULL fallback: 0 */
    MDS_OPT_STRING,  /* char *   owned by the values; NULL if unset; if choices, one */
    MDS_OPT_WORDS,   /* char *   all words up to the next --option, joined by blanks */
    MDS_OPT_ACTION,  /* none     ends in settings.action, see `action` below */
};

/* What an ACTION asks for. */
enum mds_action {
    MDS_ACTION_RUN, /* none was given */
    MDS_ACTION_HELP,
    MDS_ACTION_VERSION,
    MDS_ACTION_SHOW,  /* --show-config */
    MDS_ACTION_TABLE, /* --option-table */
};

/* What a path names, if anything is there already; NONE: the value is no path. */
enum mds_option_path { MDS_PATH_NONE, MDS_PATH_FILE, MDS_PATH_FOLDER, MDS_PATH_EITHER };

enum { MDS_OPT_UNSTORED = -1 }; /* offset of a row without a field */
#define MDS_OPT_NO_MAX 9e18     /* max of a row without an upper bound */

/* One row; all spellings are written out so that grep finds them. */
struct mds_option {
    const char *group; /* heading in --help; rows of a group stand together */
    const char *key;   /* in YAML: "model.layers" is key layers of the map model; NULL:
                          not in files */
    const char *flag;  /* "--num-layers"; NULL: not on the command line */
    const char *env;   /* "NLAYERS"; NULL: not in the environment */
    enum mds_option_type type;
    const char *fallback;       /* default, as a user would write it; NULL: unset
                                   (a number is 0, a text NULL) */
    double min, max;            /* inclusive, of numbers, in the field's unit */
    const char *const *choices; /* NULL-terminated, of ENUM, SET, STRING */
    ptrdiff_t offset;           /* of the field in the values, or MDS_OPT_UNSTORED */
    const char *unit;           /* placeholder of the value: "tokens", "file" */
    const char *help;           /* one sentence, lower case, no full stop */
    int inverted;               /* FLAG: giving --flag stores 0 ("--disable-x") */
    int hidden;                 /* not in --help */
    enum mds_action action;     /* of an ACTION */
    int always;                 /* what it asks for always holds */
    enum mds_option_path path;  /* of STRING */
    int list;                   /* STRING with choices: one, and counts from min to max
                                   of the choices "x=N", between commas */
};

/* Whether the program's struct has it as an int: flags, choices and sets of words. */
static inline int mds_option_is_int(const struct mds_option *o)
{
    return o->type == MDS_OPT_FLAG || o->type == MDS_OPT_ENUM || o->type == MDS_OPT_SET;
}

/* Rows that every program's table has, under its heading. */
#define MDS_OPT_HELP_AND_VERSION(heading)                                              \
    {.group = heading,                                                                 \
     .flag = "--help",                                                                 \
     .type = MDS_OPT_ACTION,                                                           \
     .offset = MDS_OPT_UNSTORED,                                                       \
     .help = "print this help and exit",                                               \
     .action = MDS_ACTION_HELP},                                                       \
        {.group = heading,                                                             \
         .flag = "--version",                                                          \
         .type = MDS_OPT_ACTION,                                                       \
         .offset = MDS_OPT_UNSTORED,                                                   \
         .help = "print the version and exit",                                         \
         .action = MDS_ACTION_VERSION},                                                \
    {                                                                                  \
        .group = heading, .flag = "--option-table", .type = MDS_OPT_ACTION,            \
        .offset = MDS_OPT_UNSTORED, .help = "print the options for programs and exit", \
        .hidden = 1, .action = MDS_ACTION_TABLE                                        \
    }

/* Another spelling of a row: "--x" on the command line, "X" in the environment, "a.b"
 * in a file.  With `on`, the name works like a flag: true means `on`, false means `off`
 * (NULL: leaves the option alone); without, its value is the option's value. */
struct mds_option_alias {
    const char *name;
    const char *means; /* flag of the row */
    const char *on, *off;
};

/* What the program that this one stands in for takes, and has no place here.  A flag is
 * accepted without effect, or is a fault that says what this program lacks; a variable
 * is a warning. */
struct mds_option_foreign {
    const char *name; /* "--deepspeed"; "--fp8-*" is all that begin so; or "NO_LLAMA" in
                         the environment */
    const char *why;  /* why it has no effect; of what is lacking, the words behind
                         "there is no" */
};

/* Such a flag as it was given. */
struct mds_foreign_flag {
    char *name;
    const char *why;
    int lacking; /* else accepted without effect */
};

struct mds_option_example {
    const char *what; /* a sentence */
    const char *line; /* for a shell; its lines end in a backslash but for the last */
};

struct mds_option_set {
    const char *program;  /* "mds_pretrain" */
    const char *version;  /* "0.1.0" */
    const char *synopsis; /* after the program's name: "[option]..." */
    const char *about;    /* paragraphs for --help's head */
    const char *operands; /* name for operands, or NULL: words without -- are faults */
    int passes_unknown;   /* options that nobody knows are operands */
    const struct mds_option_set *passed_to; /* whose options follow "--", or NULL */
    const struct mds_option *others;        /* of the program's other subcommands, whose
                                               groups name them; may be NULL */
    const struct mds_option *options;       /* ends with a row of zeros */
    const struct mds_option_alias *aliases; /* ends with a row of zeros; may be NULL */
    const struct mds_option_alias *hints; /* likewise: names that are not read, for whom
                                             a message names the option */
    const struct mds_option_foreign *accepted; /* ends with a row of zeros; or NULL */
    const struct mds_option_foreign *unsupported; /* likewise */
    const struct mds_option_foreign *gone; /* keys and variables of earlier versions, in
                                              whose files they are; likewise */
    const struct mds_option_example *examples; /* ends with a row of zeros; or NULL */
    const char *env_prefix; /* environment names that start so must be known; or NULL */
    const char *const *env_others; /* NULL-terminated names in the environment that
                                      belong to other programs; may be NULL */
};

/* The rows of a subcommand: those whose heading is in `groups` (NULL: in none), and
 * those under "General".  *out is theirs to free. */
enum mds_rc mds_option_set_select(const struct mds_option_set *set, const char *groups,
                                  struct mds_option **out);

/* Who wins: the higher. */
enum mds_level {
    MDS_LEVEL_DEFAULT,
    MDS_LEVEL_DERIVED, /* filled in from other values */
    MDS_LEVEL_MACHINE,
    MDS_LEVEL_CHECKPOINT, /* of --load, for the model */
    MDS_LEVEL_MODEL,
    MDS_LEVEL_FILE,
    MDS_LEVEL_ENV,
    MDS_LEVEL_CLI,
};

/* Where one value came from. */
struct mds_setting {
    enum mds_level level;
    char *origin;  /* "default", "command line", "run.yaml:12", "derived: 4 x hidden" */
    char *spelled; /* the name used there: "--fp16", "SEQ", "model.layers" */
    char *text;    /* the value as written there; NULL if unset or derived */
};

struct mds_settings {
    const struct mds_option_set *set;
    void *values;           /* the program's struct; borrowed, its strings owned here */
    struct mds_setting *of; /* one per row */
    size_t rows;
    enum mds_action action; /* the first on the command line */
    const char *topic;      /* of --help, borrowed from argv; or NULL */
    char **operands;        /* borrowed from argv */
    size_t operand_count;
    struct mds_foreign_flag *foreign; /* each name once */
    size_t foreign_count;
};

/* Store the defaults.  values must be zeroed, and live until mds_settings_fini, which
 * frees the strings in it. */
enum mds_rc mds_settings_init(struct mds_settings *s, const struct mds_option_set *set,
                              void *values);
void mds_settings_fini(struct mds_settings *s);

/* Whether the command line has this flag of set->accepted. */
int mds_settings_accepted(const struct mds_settings *s, const char *name);

/* Read one source.  They may be read in any order: the level decides.  At one level,
 * two spellings of an option with different values are a fault; the same spelling twice
 * on the command line is not, and the last one counts. */
void mds_settings_read_args(struct mds_settings *s, int argc, char *const *argv,
                            struct mds_diag *diag);
void mds_settings_read_env(struct mds_settings *s, struct mds_diag *diag);
void mds_settings_read_tree(struct mds_settings *s, enum mds_level level,
                            const struct mds_tree *t, struct mds_diag *diag);

/* Store the value in text, unless a higher level has set it already.  spelled is the
 * option's name as written, for messages. */
void mds_settings_put(struct mds_settings *s, size_t row, const char *text,
                      enum mds_level level, const char *origin, const char *spelled,
                      struct mds_diag *diag);

/* Add a fault for each folder given where a file is expected, and vice versa. */
void mds_settings_check_paths(const struct mds_settings *s, struct mds_diag *diag);

/* Whether an environment variable of that name is read.  If not, *near is the name that
 * was probably meant, or NULL. */
int mds_option_set_reads(const struct mds_option_set *set, const char *name,
                         const char **near);

/* The argument that sets what the environment variable `name` sets, too; or NULL. */
const char *mds_option_set_overrides(const struct mds_option_set *set, const char *name,
                                     int argc, char *const *argv);

/* The option with that YAML key, which must exist. */
const struct mds_option *mds_option_of(const struct mds_option_set *set,
                                       const char *key);

/* Append "--flag value", after a blank unless out is empty.  The option is a flag, or
 * stored as an integer (enum, set, int, count, bytes). */
void mds_option_text(const struct mds_option *o, int64_t value, struct mds_str *out);

/* The row whose YAML key is `key`, or s->rows. */
size_t mds_settings_row(const struct mds_settings *s, const char *key);

/* The setting of that row; key must exist. */
const struct mds_setting *mds_settings_of(const struct mds_settings *s,
                                          const char *key);

/* "--num-layers": its flag. */
const char *mds_settings_flag(const struct mds_settings *s, const char *key);

/* After the program changed the field of `key` itself: origin becomes "derived: how".
 */
void mds_settings_derived(struct mds_settings *s, const char *key, const char *how);

/* Print the help text (88 columns; topic: of these options alone, or NULL), the version
 * or the table of options, if the action asks for it; whether it does. */
int mds_settings_print_action(const struct mds_option_set *set, enum mds_action action,
                              const char *topic, FILE *f);

/* A line for each option: "option", group, flag, other flags, key, variables, "flag"
 * (--no-x is one, too), "none" or the name of its value, choices, default, help; with
 * tabs between, and blanks between several of one kind.  A name that stands for a value
 * has that in parentheses behind it. */
void mds_option_table_print(const struct mds_option_set *set, FILE *f);

/* Every value with its origin, as YAML that mds_settings_read_tree accepts. */
void mds_settings_show(const struct mds_settings *s, FILE *f);

/* Whether a line (n bytes) of that output has a derived value. */
int mds_settings_is_derived(const char *line, size_t n);

/* Append each value as a line, "--flag value", except keys in `but` (NULL-terminated).
 * For a path only whether it is set. */
void mds_settings_lines(const struct mds_settings *s, const char *const *but,
                        struct mds_str *out);

/* Append the value as one gives it behind its flag: every digit of a number, the words
 * of a list or a set with blanks between, "true" or "false".  Nothing if it is unset.
 */
void mds_settings_flag_value(const struct mds_settings *s, size_t row,
                             struct mds_str *out);

/* What mds_settings_show prints, to be freed; or NULL after mds_fail(MDS_EMEM). */
char *mds_settings_text(const struct mds_settings *s);

/* Print such a text with its derived values as comments: whoever reads it back, on
 * other ranks perhaps, derives them anew. */
void mds_settings_show_text(const char *text, FILE *f);

#endif
