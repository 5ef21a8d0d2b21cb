#include "data/split.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>

const char *const mds_split_names[MDS_SPLITS] = {"training", "validation", "test"};

static enum mds_rc refuse(const char *text)
{
    return mds_fail(MDS_EUSER,
                    "--split '%s': give up to three shares, as in 949,50,1 (training, "
                    "validation, test)",
                    text);
}

enum mds_rc mds_split_parse(const char *text, double shares[MDS_SPLITS])
{
    double v[MDS_SPLITS] = {0}, total = 0;
    const char *p = text;
    char *end;

    for (int s = 0; s < MDS_SPLITS; s++) {
        if (!isdigit((unsigned char)p[*p == '.']))
            return refuse(text);
        v[s] = strtod(p, &end);
        total += v[s];
        if (*end != ',' && *end != '/')
            break;
        p = end + 1;
    }
    if (*end != '\0' || !isfinite(total) || total <= 0)
        return refuse(text);
    for (int s = 0; s < MDS_SPLITS; s++)
        shares[s] = v[s] / total;
    return MDS_OK;
}

void mds_split_bounds(const double shares[MDS_SPLITS], int64_t tokens,
                      int64_t bounds[MDS_SPLITS + 1])
{
    double share = 0;

    bounds[0] = 0;
    for (int s = 0; s < MDS_SPLITS; s++) {
        int64_t at;

        share += shares[s];
        at = llround(share * (double)tokens);
        bounds[s + 1] = at < tokens ? at : tokens;
    }
    /* What rounding of the shares left over goes to the last split that has any. */
    for (int s = MDS_SPLITS; s > 0 && bounds[s] != tokens; s--) {
        bounds[s] = tokens;
        if (shares[s - 1] > 0)
            break;
    }
}
