/* The host that this process runs on. */
#ifndef MDS_BASE_HOST_H
#define MDS_BASE_HOST_H

enum { MDS_HOST_SIZE = 256 };

/* Its name, as `hostname` prints it; "unknown-host" if it cannot be told. */
void mds_host_name(char host[MDS_HOST_SIZE]);

#endif
