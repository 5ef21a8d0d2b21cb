/* SPDX-License-Identifier: BSD-3-Clause */
#include "pipeline/split.h"
#include "base/minmax.h"

enum mds_rc mds_pipe_layers(int layers, int stages, int chunks, int stage, int chunk,
                            int *first, int *n)
{
    int count, index, each, rest, plain;

    if (layers < 1 || stages < 1 || chunks < 1 || stage < 0 || stage >= stages ||
        chunk < 0 || chunk >= chunks)
        return mds_fail(MDS_EBUG,
                        "invalid split: chunk %d of %d, stage %d of %d, %d layers",
                        chunk, chunks, stage, stages, layers);
    if (layers / stages < chunks)
        return mds_fail(MDS_EUSER,
                        "%d layers cannot fill %d pipeline stages x %d chunks = %lld "
                        "model chunks: use %d model chunks or fewer",
                        layers, stages, chunks, (long long)stages * chunks, layers);
    count = stages * chunks;
    index = chunk * stages + stage;
    each = layers / count;
    rest = layers % count;
    plain = count - 1 - rest; /* model chunks at the start without an extra layer */
    *first = index * each + (index < plain ? 0 : (int)mds_min(index - plain, rest));
    *n = each + (index >= plain && index < count - 1);
    return MDS_OK;
}
