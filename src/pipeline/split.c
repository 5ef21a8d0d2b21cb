/* SPDX-License-Identifier: BSD-3-Clause */
#include "pipeline/split.h"

static int smaller(int a, int b)
{
    return a < b ? a : b;
}

enum mds_rc mds_pipe_layers(int layers, int stages, int chunks, int stage, int chunk,
                            int *first, int *n)
{
    int pieces, piece, each, rest, plain;

    if (layers < 1 || stages < 1 || chunks < 1 || stage < 0 || stage >= stages ||
        chunk < 0 || chunk >= chunks)
        return mds_fail(MDS_EBUG,
                        "layers of chunk %d of %d, stage %d of %d: %d in the model",
                        chunk, chunks, stage, stages, layers);
    if (layers / stages < chunks)
        return mds_fail(MDS_EUSER,
                        "%d layers cannot fill %d pipeline stages x %d chunks = %lld "
                        "pieces: use %d pieces or fewer",
                        layers, stages, chunks, (long long)stages * chunks, layers);
    pieces = stages * chunks;
    piece = chunk * stages + stage;
    each = layers / pieces;
    rest = layers % pieces;
    plain = pieces - 1 - rest; /* leading pieces without an extra layer */
    *first = piece * each + (piece < plain ? 0 : smaller(piece - plain, rest));
    *n = each + (piece >= plain && piece < pieces - 1);
    return MDS_OK;
}
