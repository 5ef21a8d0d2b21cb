/* --help of one verb: what it does, and the options that concern it. */
#include "base/str.h"
#include "launch/options.h"

#include <string.h>

static const struct verb {
    const char *name, *synopsis, *about;
    const char *groups; /* headings of options.c, with blanks between */
} verbs[] = {
    {"run", "[run] [option]... [-- mds_pretrain's option...]",
     "Starts mds_pretrain on the nodes of this job: finds nodes and GPUs, chooses a "
     "layout where none is given, checks by a dry run that it fits in memory, prints "
     "the launcher's line and becomes it. --print prints it only.",
     "General Where Planning"},
    {"where", "where [option]...",
     "Prints what each source says of nodes, ranks and GPUs, what is taken, every "
     "disagreement, and which cores are near each GPU of this host.",
     "General Where"},
    {"plan", "plan [option]... [-- mds_pretrain's option...]",
     "Rehearses every layout of the ranks that divides, and prints those that fit, "
     "fastest first, and why others do not. What is set stays as it is.\n"
     "Example: MODEL_SIZE_KEY=GPT25B SEQ_LEN=128000 mds_launch plan --machine polaris "
     "--nodes 8",
     "General Where Planning"},
    {"check-profile", "check-profile FILE",
     "Names all that is missing or wrong in a machine's profile, with lines. "
     "docs/new-machine.md tells how to write one.",
     "General"},
    {"submit",
     "submit [QUEUE [NODES [WALLTIME [PROJECT]]]] [option]... [-- mds_pretrain's "
     "option...]",
     "Checks the queue's limits, plans, makes a folder for the run with its job.sh, "
     "and calls qsub or sbatch. The job saves, leaves before the walltime, and goes "
     "on until the run is done.\n"
     "Example: MODEL_SIZE_KEY=GPT25B SEQ_LEN=128000 TRAIN_ITERS=1000 mds_launch "
     "submit prod 16 6:00:00 MyProject",
     "General Where Planning Jobs"},
    {"sweep", "sweep FILE [option]... [-- mds_pretrain's option...]",
     "FILE is a map from variables to lists, such as SEQ_LEN: [32k, 64k]. Each "
     "combination is planned; those that fit are submitted, as arrays where they ask "
     "for the same.",
     "General Where Planning Jobs"},
    {"report", "report DIR",
     "Reads metrics.jsonl of every run folder in DIR; writes report.md, report.csv "
     "and, with gnuplot, longest.svg and speed.svg there.",
     "General"},
};

int mds_launch_help(const char *name, FILE *f)
{
    struct mds_option rows[64];
    struct mds_option_set set = mds_launch_options;
    size_t n = 0;

    for (size_t i = 0; i < sizeof verbs / sizeof *verbs; i++) {
        if (strcmp(verbs[i].name, name) != 0)
            continue;
        for (const struct mds_option *o = set.options; o->help && n < 63; o++)
            if (strstr(verbs[i].groups, o->group))
                rows[n++] = *o;
        rows[n] = (struct mds_option){.help = NULL};
        set.options = rows;
        set.synopsis = verbs[i].synopsis;
        set.about = verbs[i].about;
        mds_settings_help(&set, f);
        return 1;
    }
    return 0;
}
