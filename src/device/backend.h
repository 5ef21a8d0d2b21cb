/* What a device backend provides.  For device/ alone. */
#ifndef MDS_DEVICE_BACKEND_H
#define MDS_DEVICE_BACKEND_H

#include "device/device.h"

struct mds_dev_ops {
    const char *name;
    const char *missing;              /* why this row cannot be used, NULL if it can */
    const struct mds_dev_ops *beside; /* host memory for it; NULL: memory of its own */

    /* Fill in dev's memory_bytes (if 0), kern, stream and description. */
    enum mds_rc (*open)(struct mds_dev *dev, const struct mds_dev_spec *spec);
    void (*close)(struct mds_dev *dev); /* NULL: nothing to do */
    /* Zeroed and aligned to MDS_ARENA_ALIGN; NULL if refused. */
    void *(*alloc)(struct mds_dev *dev, int64_t bytes);
    void (*free)(struct mds_dev *dev, void *p, int64_t bytes);
    void (*zero)(struct mds_dev *dev, void *p, int64_t bytes);
    void (*copy)(struct mds_dev *dev, void *to, const void *from, int64_t bytes);
    int (*owns)(const struct mds_dev *dev, const void *p); /* NULL: all are its own */
    void (*copy_in)(struct mds_dev *dev, void *to, const void *from, int64_t bytes);
    enum mds_rc (*copy_out)(struct mds_dev *dev, void *to, const void *from,
                            int64_t bytes);
    /* Queued copies to and from memory of the device beside; NULL: the two above. */
    void (*save)(struct mds_dev *dev, void *to, const void *from, int64_t bytes);
    void (*restore)(struct mds_dev *dev, void *to, const void *from, int64_t bytes);
};

struct mds_dev {
    const struct mds_dev_ops *ops;
    const struct mdsk_table *kern;
    void *stream;
    void *own; /* the backend's */
    mds_dev_watch *watch;
    int64_t memory_bytes, taken_bytes;
    int64_t given_bytes; /* dry's: addresses handed out so far */
    char description[160];
    struct mds_ledger ledger;
};

extern const struct mds_dev_ops mds_dev_cpu, mds_dev_dry, mds_dev_cuda;

/* Host memory as the cpu device has it: zeroed; NULL if refused. */
void *mds_dev_map(int64_t bytes);
void mds_dev_unmap(void *p, int64_t bytes);

/* Used by arenas: the account follows what is taken from them. */
void mds_dev_account(struct mds_dev *dev, enum mds_mem_tag tag, int64_t bytes);

#endif
