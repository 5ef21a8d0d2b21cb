/* SPDX-License-Identifier: BSD-3-Clause */
/* The list of backends, and creating a device of one of them. */
#include "base/alloc.h"
#include "base/str.h"
#include "device/backend.h"

#include <stdlib.h>
#include <string.h>

static const struct mds_dev_ops *const backends[] = {&mds_dev_cpu, &mds_dev_cuda,
                                                     &mds_dev_dry};
enum { BACKENDS = sizeof backends / sizeof backends[0] };

static enum mds_rc find_backend(const char *name, const struct mds_dev_ops **out)
{
    const char *names[BACKENDS], *near;

    for (int i = 0; i < BACKENDS; i++) {
        names[i] = backends[i]->name;
        if (strcmp(name, names[i]) != 0)
            continue;
        if (backends[i]->missing)
            return mds_fail(MDS_ENOSUP, "device %s: %s", name, backends[i]->missing);
        *out = backends[i];
        return MDS_OK;
    }
    near = mds_str_nearest(name, names, BACKENDS);
    return mds_fail(MDS_EUSER, "device %s: unknown, use auto, cpu or cuda%s%s", name,
                    near ? "; did you mean " : "", near ? near : "");
}

const char *mds_dev_resolve(const char *name)
{
    if (strcmp(name, "auto") != 0)
        return name;
    return !mds_dev_cuda.missing && mds_cuda_count() > 0 ? "cuda" : "cpu";
}

enum mds_rc mds_dev_create(const struct mds_dev_spec *spec, struct mds_dev **out)
{
    const struct mds_dev_ops *ops = NULL;
    struct mds_dev *dev;
    enum mds_rc rc;

    MDS_TRY(find_backend(mds_dev_resolve(spec->name), &ops));
    if (spec->host_side && ops->host_ops)
        ops = ops->host_ops;
    dev = mds_zalloc(1, sizeof *dev);
    if (!dev)
        return MDS_EMEM;
    dev->ops = ops;
    dev->memory_bytes = spec->memory_bytes;
    rc = ops->open(dev, spec);
    if (rc) {
        free(dev);
        return rc;
    }
    *out = dev;
    return MDS_OK;
}
