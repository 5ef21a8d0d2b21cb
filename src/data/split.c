#include "data/split.h"
#include "base/minmax.h"

#include <math.h>

const char *const mds_split_names[MDS_SPLITS] = {"training", "validation", "test"};

void mds_split_bounds(const double shares[MDS_SPLITS], int64_t tokens,
                      int64_t bounds[MDS_SPLITS + 1])
{
    double share = 0;

    bounds[0] = 0;
    for (int s = 0; s < MDS_SPLITS; s++) {
        int64_t at;

        share += shares[s];
        at = llround(share * (double)tokens);
        bounds[s + 1] = mds_min(at, tokens);
    }
    /* What rounding of the shares left over goes to the last split that has any. */
    for (int s = MDS_SPLITS; s > 0 && bounds[s] != tokens; s--) {
        bounds[s] = tokens;
        if (shares[s - 1] > 0)
            break;
    }
}
