/* SPDX-License-Identifier: BSD-3-Clause */
/* Inputs -> token file: what `mds_data make` does. */
#ifndef MDS_DATA_MAKE_H
#define MDS_DATA_MAKE_H

#include "base/status.h"
#include "data/reading.h"
#include "data/tokenizer.h"

#include <stdint.h>

/* Tokenizers of bases read FASTA.  Each (record, strand, frame) is one document.
 * Frames count from the strand's own 5' end.  Bases left over at the end are
 * dropped; records too short for one token in each frame are skipped.  bytes makes one
 * document of each input (after decompression), ids one of each line (see
 * data/id_lines.h). */
struct mds_make {
    struct mds_vocabulary vocabulary;
    struct mds_reading reading; /* of FASTA */
    const char *output;
    const char *const *inputs; /* [n_inputs]; "-" is standard input */
    int n_inputs;
    const char *command; /* kept in the file as provenance */
};

struct mds_make_stats {
    int64_t records; /* FASTA records, inputs of bytes, lines of ids */
    int64_t documents, tokens;
    int64_t unknown;         /* <unk> or N tokens */
    int64_t empty;           /* lines of ids that were empty and skipped */
    int64_t empty_line;      /* the first of them, */
    const char *empty_input; /* and its input; borrowed */
    int64_t skipped;         /* records without a whole codon or base in each frame */
};

/* Memory use does not grow with the inputs: the bases of one record at a time are held
 * in an unnamed file in the output's folder.  Logs progress with mds_info. */
enum mds_rc mds_make_tokens(const struct mds_make *m, struct mds_make_stats *out);

#endif
