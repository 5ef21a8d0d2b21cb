#include "tensor/front.h"

#include <string.h>

enum mds_rc mds_front_broken(const char *op, const char *condition)
{
    return mds_fail(MDS_EBUG, "%s: the caller must see to: %s", op, condition);
}

enum mds_rc mds_front_dtype(struct mds_dev *dev, const char *op, enum mdsk_dtype t)
{
    if (t == MDSK_F32)
        return MDS_OK;
    return mds_fail(MDS_ENOSUP, "%s: %s computes f32 only", op, mds_dev_describe(dev));
}

enum mds_rc mds_front_launched(const char *op, int err)
{
    if (err == 0)
        return MDS_OK;
    return mds_fail(MDS_EDEVICE, "%s: %s", op, strerror(-err));
}
