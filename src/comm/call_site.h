/* SPDX-License-Identifier: BSD-3-Clause */
/* Record the call site (file and line) of each collective: the macros below set it and
 * then call the function of the same name.  comm/comm.h includes this, except in comm's
 * own sources. */
#ifndef MDS_COMM_CALL_SITE_H
#define MDS_COMM_CALL_SITE_H

/* Set the call site of the next call; file is a string literal. */
void mds_comm_set_call_site(const char *file, int line);

#ifndef MDS_COMM_OWN_SOURCE

#define MDS_COMM_HERE(function) (mds_comm_set_call_site(__FILE__, __LINE__), function)

#define mds_comm_all_reduce_start MDS_COMM_HERE(mds_comm_all_reduce_start)
#define mds_comm_reduce_shards_start MDS_COMM_HERE(mds_comm_reduce_shards_start)
#define mds_comm_gather_shards_start MDS_COMM_HERE(mds_comm_gather_shards_start)
#define mds_comm_all_gather_start MDS_COMM_HERE(mds_comm_all_gather_start)
#define mds_comm_reduce_scatter_start MDS_COMM_HERE(mds_comm_reduce_scatter_start)
#define mds_comm_all_to_all_start MDS_COMM_HERE(mds_comm_all_to_all_start)
#define mds_comm_all_reduce MDS_COMM_HERE(mds_comm_all_reduce)
#define mds_comm_all_gather MDS_COMM_HERE(mds_comm_all_gather)
#define mds_comm_all_to_all MDS_COMM_HERE(mds_comm_all_to_all)
#define mds_comm_all_reduce_f64 MDS_COMM_HERE(mds_comm_all_reduce_f64)
#define mds_comm_gather_records MDS_COMM_HERE(mds_comm_gather_records)
#define mds_comm_exchange MDS_COMM_HERE(mds_comm_exchange)
#define mds_comm_broadcast MDS_COMM_HERE(mds_comm_broadcast)
#define mds_comm_barrier MDS_COMM_HERE(mds_comm_barrier)
#define mds_comm_send_start MDS_COMM_HERE(mds_comm_send_start)
#define mds_comm_recv_start MDS_COMM_HERE(mds_comm_recv_start)

#endif
#endif
