/* SPDX-License-Identifier: BSD-3-Clause */
#include "data/reading.h"

#include <stddef.h>
#include <string.h>

const char *const mds_frame_names[] = {"0", "1", "2", "all", NULL};
const char *const mds_strand_names[] = {"forward", "reverse", "both", NULL};

unsigned mds_reading_frames(int name)
{
    return name == MDS_FRAMES ? (1u << MDS_FRAMES) - 1 : 1u << name;
}

unsigned mds_reading_strands(int name)
{
    return (unsigned)name + 1;
}

int mds_reading_documents(const struct mds_reading *r)
{
    return __builtin_popcount(r->frames) * __builtin_popcount(r->strands);
}

void mds_reading_document(const struct mds_reading *r, int i, int *frame, int *reverse)
{
    for (*reverse = 0; *reverse < 2; ++*reverse)
        for (*frame = 0; *frame < MDS_FRAMES; ++*frame)
            if (r->strands >> *reverse & r->frames >> *frame & 1 && i-- == 0)
                return;
}

void mds_reading_write(const struct mds_reading *r, int codon, struct mds_str *out)
{
    int frame = 0;

    while (mds_reading_frames(frame) != r->frames)
        frame++;
    if (codon)
        mds_str_add(out, "frame %s, ", mds_frame_names[frame]);
    mds_str_add(out, "strand %s", mds_strand_names[r->strands - 1]);
}

/* The index of the name after `word` in *text, and move *text past it; -1 if there is
 * no known name. */
static int parse_named_value(const char **text, const char *word,
                             const char *const *names)
{
    size_t n = strlen(word);

    if (strncmp(*text, word, n) != 0)
        return -1;
    for (int i = 0; names[i]; i++) {
        size_t m = strlen(names[i]);

        if (strncmp(*text + n, names[i], m) == 0) {
            *text += n + m;
            return i;
        }
    }
    return -1;
}

struct mds_reading mds_reading_read(const char *text)
{
    int frame = parse_named_value(&text, "frame ", mds_frame_names), strand;

    if (frame >= 0)
        text += strspn(text, ", ");
    strand = parse_named_value(&text, "strand ", mds_strand_names);
    return (struct mds_reading){.frames = mds_reading_frames(frame < 0 ? 0 : frame),
                                .strands = strand < 0 ? MDS_STRAND_FORWARD
                                                      : mds_reading_strands(strand)};
}
