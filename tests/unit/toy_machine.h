/* SPDX-License-Identifier: BSD-3-Clause */
/* A machine's profile that is well, but for what a test changes. */
#ifndef MDS_TESTS_UNIT_TOY_MACHINE_H
#define MDS_TESTS_UNIT_TOY_MACHINE_H

#include "tests/unit/scratch.h"

#include "plan/machine.h"

static const char toy_machine[] =
    "machine: {name: toy, about: a toy, hosts: [toy*, t-?], source: s, date: "
    "2026-01-02}\n"
    "node: {count: 4, gpus: 2, cores: 8, memory: 64GB, source: s,\n"
    "       date: 2026-01-02}\n"
    "gpu: {kind: T-1GB, memory: 1400MiB, source: s, date: 2026-01-02}\n"
    "rates: {matmul_flops: 1e12, matmul_fp32_flops: 1e11, attention_flops: 5e11,\n"
    "        memory_bytes_s: 1e11, source: s, date: 2026-01-02}\n"
    "links: {gpu_bytes_s: 1e10, net_bytes_s: 1e10, host_bytes_s: 1e10,\n"
    "        host_memory_bytes_s: 1e10, source: s, date: 2026-01-02}\n"
    "overhead: {bytes: 100MiB, channels: 1, peer_channels: 1, source: s,\n"
    "           date: 2026-01-02}\n"
    "launcher: {kind: pals, command: mpiexec, flags: [-v, --envall], source: s,\n"
    "           date: 2026-01-02}\n"
    "batch: {scheduler: pbs, directives: [-l a=b, -l c], source: s, date: 2026-01-02}\n"
    "queues: {debug: {max_nodes: 2, walltime: 1h}, source: s, date: 2026-01-02}\n"
    "environment: {A: 1, source: s, date: 2026-01-02}\n";

/* The profile with `more` at its end, loaded. */
static inline enum mds_rc load_toy(const char *more, struct mds_machine **out)
{
    char text[4096];
    struct mds_diag diag = {0};
    enum mds_rc rc;

    snprintf(text, sizeof text, "%s%s", toy_machine, more);
    write_file("m.yaml", text, strlen(text));
    rc = mds_machine_load("m.yaml", &diag, out);
    mds_diag_fini(&diag);
    return rc;
}

#endif
