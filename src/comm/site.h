/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls know their place in the source: each name below notes it and is then the
 * function itself.  comm/comm.h includes this; comm's own sources do without. */
#ifndef MDS_COMM_SITE_H
#define MDS_COMM_SITE_H

/* The next call is made at this line of this file, a literal. */
void mds_comm_at(const char *file, int line);

#ifndef MDS_COMM_OWN_SOURCE

#define MDS_COMM_HERE(function) (mds_comm_at(__FILE__, __LINE__), function)

#define mds_comm_all_reduce_start MDS_COMM_HERE(mds_comm_all_reduce_start)
#define mds_comm_reduce_slices_start MDS_COMM_HERE(mds_comm_reduce_slices_start)
#define mds_comm_gather_slices_start MDS_COMM_HERE(mds_comm_gather_slices_start)
#define mds_comm_all_gather_start MDS_COMM_HERE(mds_comm_all_gather_start)
#define mds_comm_reduce_scatter_start MDS_COMM_HERE(mds_comm_reduce_scatter_start)
#define mds_comm_all_to_all_start MDS_COMM_HERE(mds_comm_all_to_all_start)
#define mds_comm_all_reduce MDS_COMM_HERE(mds_comm_all_reduce)
#define mds_comm_all_gather MDS_COMM_HERE(mds_comm_all_gather)
#define mds_comm_all_to_all MDS_COMM_HERE(mds_comm_all_to_all)
#define mds_comm_all_reduce_f64 MDS_COMM_HERE(mds_comm_all_reduce_f64)
#define mds_comm_broadcast MDS_COMM_HERE(mds_comm_broadcast)
#define mds_comm_barrier MDS_COMM_HERE(mds_comm_barrier)
#define mds_comm_send_start MDS_COMM_HERE(mds_comm_send_start)
#define mds_comm_recv_start MDS_COMM_HERE(mds_comm_recv_start)

#endif
#endif
