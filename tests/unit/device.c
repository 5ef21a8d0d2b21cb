/* SPDX-License-Identifier: BSD-3-Clause */
/* device: arenas, the account by tag, the dry device, the host's memory. */
#include "tests/unit/scratch.h"

#include "base/str.h"
#include "device/arena.h"
#include "device/backend.h"
#include "device/profile.h"

#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

static struct mds_dev *open_dev(const char *name, int64_t bytes)
{
    struct mds_dev_spec spec = {.name = name, .threads = 1, .memory_bytes = bytes};
    struct mds_dev *dev = NULL;

    assert_int_equal(mds_dev_create(&spec, &dev), MDS_OK);
    return dev;
}

static void names_are_checked(void **state)
{
    struct mds_dev_spec spec = {.name = "cpuu"};
    struct mds_dev *dev = NULL;

    (void)state;
    assert_int_equal(mds_dev_create(&spec, &dev), MDS_EUSER);
    assert_non_null(strstr(mds_fail_text(), "did you mean cpu"));
}

/* Whatever was built in: without a GPU the program runs, and says what to do. */
static void a_gpu_is_optional(void **state)
{
    struct mds_dev_spec spec = {.name = "auto", .threads = 1};
    struct mds_dev *dev = NULL;

    (void)state;
    if (mds_cuda_count() > 0)
        skip();
    assert_string_equal(mds_dev_resolve("auto"), "cpu");
    assert_int_equal(mds_dev_create(&spec, &dev), MDS_OK);
    assert_string_equal(mds_dev_name(dev), "cpu");
    mds_dev_destroy(dev);
    dev = NULL;
    spec.name = "cuda";
    assert_int_not_equal(mds_dev_create(&spec, &dev), MDS_OK);
    assert_non_null(strstr(mds_fail_text(), "--device cpu"));
    assert_null(dev);
}

static void memory_is_limited(void **state)
{
    struct mds_dev *dev = open_dev("cpu", 1 << 20);
    struct mds_arena a = {0}, b = {0};

    (void)state;
    assert_int_equal(mds_arena_init(&a, dev, "a", 1 << 19), MDS_OK);
    assert_int_equal(mds_arena_init(&b, dev, "b", (1 << 19) + 1), MDS_EMEM);
    assert_non_null(strstr(mds_fail_text(), "512.00 KiB left"));
    mds_arena_fini(&a);
    assert_int_equal(mds_arena_init(&b, dev, "b", (1 << 19) + 1), MDS_OK);
    mds_arena_fini(&b);
    mds_arena_fini(&b);
    mds_dev_destroy(dev);
}

/* Sizes are rounded up, marks restore every tag, peaks stay. */
static void arenas_account(void **state)
{
    static const char *const names[] = {"cpu", "dry"};

    (void)state;
    for (int i = 0; i < 2; i++) {
        struct mds_dev *dev = open_dev(names[i], 0);
        const struct mds_mem_account *m = &mds_dev_ledger(dev)->memory;
        struct mds_arena a = {0};
        struct mds_arena_mark mark;
        void *p, *q, *r;

        assert_int_equal(mds_arena_init(&a, dev, "a", 4096), MDS_OK);
        assert_int_equal(mds_arena_alloc(&a, MDS_MEM_PARAM, 1, &p), MDS_OK);
        mark = mds_arena_mark(&a);
        assert_int_equal(mds_arena_alloc(&a, MDS_MEM_ACT, 257, &q), MDS_OK);
        assert_int_equal((char *)q - (char *)p, 256);
        assert_int_equal(mds_arena_alloc(&a, MDS_MEM_WORK, 0, &r), MDS_OK);
        assert_int_equal(m->now[MDS_MEM_ACT], 512);
        mds_arena_release(&a, mark);
        assert_int_equal(m->now[MDS_MEM_ACT], 0);
        assert_int_equal(mds_arena_alloc(&a, MDS_MEM_WORK, 1024, &r), MDS_OK);
        assert_ptr_equal(r, q);
        assert_int_equal(mds_arena_alloc(&a, MDS_MEM_WORK, 4096, &r), MDS_EBUG);
        assert_int_equal(m->peak[MDS_MEM_ACT], 512);
        assert_int_equal(m->total_peak, 1280);
        assert_int_equal(m->at_total_peak[MDS_MEM_WORK], 1024);
        assert_int_equal(m->at_total_peak[MDS_MEM_ACT], 0);
        assert_int_equal(a.peak, 1280);
        mds_arena_fini(&a);
        assert_int_equal(m->total_now, 0);
        mds_dev_destroy(dev);
    }
}

static void copies_arrive(void **state)
{
    struct mds_dev *dev = open_dev("cpu", 0);
    struct mds_arena a = {0};
    int32_t in[3] = {1, -2, 3}, out[3];
    void *p;

    (void)state;
    assert_int_equal(mds_arena_init(&a, dev, "a", 4096), MDS_OK);
    assert_int_equal(mds_arena_alloc(&a, MDS_MEM_WORK, sizeof in, &p), MDS_OK);
    mds_dev_copy_in(dev, p, in, sizeof in);
    mds_dev_copy_out(dev, out, p, sizeof out);
    assert_memory_equal(in, out, sizeof in);
    mds_dev_zero(dev, p, sizeof in);
    mds_dev_copy_out(dev, out, p, sizeof out);
    assert_int_equal(out[0] | out[1] | out[2], 0);
    assert_int_equal(mds_dev_ledger(dev)->op[MDS_OP_COPY_OUT].calls, 2);
    mds_arena_fini(&a);
    mds_dev_destroy(dev);
}

/* Of as many parts as a GPU's copies have, and more than it has under way at a time. */
static void large_copies_arrive(void **state)
{
    static const int64_t sizes[] = {(1 << 20) - 1, 1 << 20, (4 << 20) + 1,
                                    (9 << 20) + 5};
    enum { MOST = (9 << 20) + 5 };
    struct mds_dev *dev = open_dev("auto", 0);
    char *in = malloc(MOST), *out = malloc(MOST);
    struct mds_arena a = {0};
    void *p;

    (void)state;
    assert_true(in && out);
    assert_int_equal(mds_arena_init(&a, dev, "a", 10 << 20), MDS_OK);
    assert_int_equal(mds_arena_alloc(&a, MDS_MEM_WORK, MOST, &p), MDS_OK);
    for (int k = 0; k < 4; k++) {
        for (int64_t i = 0; i < MOST; i++)
            in[i] = (char)(i * 7 + i / 4099 + k);
        mds_dev_copy_in(dev, p, in, sizes[k]);
        memset(out, 0, MOST);
        assert_int_equal(mds_dev_copy_out(dev, out, p, sizes[k]), MDS_OK);
        assert_memory_equal(in, out, (size_t)sizes[k]);
    }
    mds_arena_fini(&a);
    mds_dev_destroy(dev);
    free(in);
    free(out);
}

/* By SIGSEGV; or by SIGBUS, if x86-64 addresses through the frame pointer. */
static int access_kills(volatile char *p)
{
    int status = 0;
    pid_t child = fork();

    if (child == 0) {
        signal(SIGSEGV, SIG_DFL);
        signal(SIGBUS, SIG_DFL);
        *p = 1;
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFSIGNALED(status) &&
           (WTERMSIG(status) == SIGSEGV || WTERMSIG(status) == SIGBUS);
}

/* Petabytes can be allocated, but not accessed. */
static void dry_memory_cannot_be_accessed(void **state)
{
    const int64_t pebibyte = INT64_C(1) << 50;
    struct mds_dev *dev = open_dev("dry", 0);
    struct mds_arena a = {0}, b = {0}, c = {0};
    int32_t out = 7;

    (void)state;
    assert_int_equal(mds_arena_init(&a, dev, "a", 1), MDS_OK);
    assert_int_equal(mds_arena_init(&b, dev, "b", 15 * pebibyte), MDS_OK);
    assert_int_equal((uintptr_t)b.base % MDS_ARENA_ALIGN, 0);
    assert_true(b.base >= a.base + 1);
    mds_dev_copy_in(dev, a.base, &out, sizeof out);
    mds_dev_copy_out(dev, &out, a.base, sizeof out);
    assert_int_equal(out, 0);
    assert_true(access_kills(a.base));
    assert_true(access_kills(b.base));
    assert_true(access_kills(b.base + 15 * pebibyte - 1));
    assert_int_equal(mds_arena_init(&c, dev, "c", pebibyte), MDS_EMEM);
    assert_non_null(strstr(mds_fail_text(), "dry memory: 1.00 PiB requested"));
    mds_arena_fini(&b);
    mds_arena_fini(&a);
    mds_dev_destroy(dev);
}

/* One operation of the step: what it takes is charged, and it takes some time. */
static void operate(struct mds_dev *dev, enum mds_op op, double flops)
{
    const struct timespec nap = {.tv_nsec = 1000000};

    mds_dev_charge(dev, op, NULL, (struct mdsk_cost){flops, 8});
    nanosleep(&nap, NULL);
    mds_dev_launched(dev);
}

static void a_profile_adds_up(void **state)
{
    struct mds_dev *dev = open_dev("cpu", 0);
    struct mds_profile *p = NULL;
    const struct mds_profile_step *s;

    (void)state;
    operate(dev, MDS_OP_ROPE, 0); /* nobody wants to know */
    assert_int_equal(mds_profile_start(dev, 2), MDS_OK);
    assert_int_equal(mds_profile_start(dev, 2), MDS_EBUG);
    operate(dev, MDS_OP_LINEAR_FWD, 6);
    operate(dev, MDS_OP_LINEAR_FWD, 9);
    operate(dev, MDS_OP_LINEAR_FWD, 6);
    operate(dev, MDS_OP_COPY_IN, 0);
    mds_profile_step(dev);
    operate(dev, MDS_OP_ADD, 0);
    mds_profile_begin(dev, MDS_PROFILE_WAIT, 3, (struct mdsk_cost){0, 0}, NULL);
    mds_profile_end(dev, MDS_PROFILE_WAIT, NULL);
    mds_profile_add(dev, MDS_PROFILE_HOST, MDS_OP_ADAMW, (struct mdsk_cost){0, 7}, 99);
    mds_profile_step(dev);
    operate(dev, MDS_OP_ADD, 0); /* after the last step */
    mds_profile_add(dev, MDS_PROFILE_HOST, MDS_OP_ADAMW, (struct mdsk_cost){0, 7}, 99);
    assert_int_equal(mds_profile_stop(dev, &p), MDS_OK);
    assert_int_equal(p->steps, 2);
    assert_int_equal(p->rows, 6); /* host; the product's two shapes, copy, add, wait */
    assert_true(p->row[0].kind == MDS_PROFILE_HOST && p->row[0].s == 99);
    assert_true(p->row[0].calls == 1 && p->row[0].cost.bytes == 7);
    assert_true(p->row[1].calls == 2 && p->row[1].cost.flops == 12);
    assert_true(p->row[2].calls == 1 && p->row[2].cost.flops == 9);
    assert_true(p->row[1].s >= 2e-3);
    assert_int_equal(p->row[4].member, MDS_OP_ADD);
    assert_int_equal(p->row[4].calls, 1);
    s = p->step;
    assert_true(s[0].compute_s >= 3e-3 && s[0].copy_s >= 1e-3 && s[0].wait_s == 0);
    assert_true(s[1].compute_s >= 1e-3 && s[1].copy_s == 0 && s[1].wait_s > 0);
    for (int i = 0; i < 2; i++) {
        double parts = s[i].compute_s + s[i].copy_s + s[i].wait_s + s[i].idle_s;

        assert_true(s[i].idle_s >= 0);
        assert_float_equal(s[i].total_s, parts, 1e-9);
    }
    mds_profile_destroy(p);
    mds_dev_destroy(dev);
}

static void a_profile_of_waits_has_nothing_else(void **state)
{
    struct mds_dev *dev = open_dev("cpu", 0);
    struct mds_profile *p = NULL;
    const struct timespec nap = {.tv_nsec = 2000000};

    (void)state;
    assert_int_equal(mds_profile_start_waits(dev, 1), MDS_OK);
    operate(dev, MDS_OP_LINEAR_FWD, 6);
    mds_profile_add(dev, MDS_PROFILE_HOST, MDS_OP_ADAMW, (struct mdsk_cost){0, 7}, 99);
    mds_profile_begin(dev, MDS_PROFILE_WAIT, 3, (struct mdsk_cost){0, 0}, NULL);
    nanosleep(&nap, NULL);
    mds_profile_end(dev, MDS_PROFILE_WAIT, NULL);
    mds_profile_step(dev);
    assert_int_equal(mds_profile_stop(dev, &p), MDS_OK);
    assert_int_equal(p->rows, 1);
    assert_true(p->step[0].wait_s >= 2e-3);
    assert_true(p->step[0].total_s >= p->step[0].wait_s + 1e-3); /* the operation */
    mds_profile_destroy(p);
    mds_dev_destroy(dev);
}

/* More marks than there is room for, a wait open all the while, more shapes than rows.
 */
static void a_long_profile_is_complete(void **state)
{
    const int calls = 20000;
    struct mds_dev *dev = open_dev("cpu", 0);
    struct mds_profile *p = NULL;
    int64_t seen = 0;
    double flops = 0;

    (void)state;
    assert_int_equal(mds_profile_start(dev, 1), MDS_OK);
    mds_profile_begin(dev, MDS_PROFILE_WAIT, 0, (struct mdsk_cost){0, 0}, NULL);
    for (int i = 0; i < calls; i++) {
        mds_dev_charge(dev, (enum mds_op)(i % 5), NULL, (struct mdsk_cost){i, 0});
        mds_dev_launched(dev);
    }
    mds_profile_end(dev, MDS_PROFILE_WAIT, NULL);
    mds_profile_step(dev);
    assert_int_equal(mds_profile_stop(dev, &p), MDS_OK);
    assert_true(p->rows <= MDS_PROFILE_ROWS);
    for (int i = 0; i < p->rows; i++) {
        seen += p->row[i].calls;
        flops += p->row[i].cost.flops;
    }
    assert_int_equal(seen, calls + 1);
    assert_true(flops == calls * (calls - 1.0) / 2);
    assert_true(p->step[0].wait_s > p->step[0].compute_s);
    mds_profile_destroy(p);
    mds_dev_destroy(dev);
}

static void memory_has_a_table(void **state)
{
    const struct mds_mem_account m = {
        .now = {[MDS_MEM_PARAM] = 1 << 20},
        .peak = {[MDS_MEM_PARAM] = 1 << 20, [MDS_MEM_ACT] = 3 << 20},
        .total_peak = 4 << 20};
    struct mds_str s = {0};

    (void)state;
    mds_mem_table(&m, &s);
    assert_string_equal(s.s, "  purpose                 now         peak  of peak\n"
                             "  params             1.00 MiB     1.00 MiB   25.0 %\n"
                             "  activations             0 B     3.00 MiB   75.0 %\n"
                             "  all                1.00 MiB     4.00 MiB  100.0 %\n");
    mds_str_fini(&s);
}

static void every_operation_has_a_name(void **state)
{
    (void)state;
    for (int i = 0; i < MDS_OPS; i++)
        assert_non_null(mds_op_name((enum mds_op)i));
    for (int i = 0; i < MDS_MEM_TAGS; i++)
        assert_non_null(mds_mem_tag_name((enum mds_mem_tag)i));
    assert_true(mds_host_cores() >= 1);
    assert_true(mds_host_memory_available() > 0);
}

/* ---- the host's memory ---- */

/* A file below `root`, in folders that are made for it. */
static void put(const char *root, const char *path, const char *text)
{
    char all[256];

    snprintf(all, sizeof all, "%s/%s", root, path);
    for (char *p = all; (p = strchr(p, '/')); *p++ = '/') {
        *p = '\0';
        (void)mkdir(all, 0700);
    }
    write_file(all, text, strlen(text));
}

static void meminfo(const char *root)
{
    put(root, "proc/meminfo", "MemTotal:  9000 kB\nMemAvailable:   4000 kB\n");
}

/* A job's group has the limit, the step's in it none; files that it has read can go. */
static void a_job_may_have_less_memory_than_its_node(void **state)
{
    (void)state;
    meminfo("v2");
    assert_int_equal(mds_host_memory_below("v2"), 4000 << 10);
    put("v2", "proc/self/cgroup", "0::/slurm/job_5/step_0\n");
    put("v2", "sys/fs/cgroup/slurm/job_5/step_0/memory.max", "max\n");
    put("v2", "sys/fs/cgroup/slurm/job_5/step_0/memory.current", "4096\n");
    assert_int_equal(mds_host_memory_below("v2"), 4000 << 10);
    put("v2", "sys/fs/cgroup/slurm/job_5/memory.max", "1000000\n");
    put("v2", "sys/fs/cgroup/slurm/job_5/memory.current", "900000\n");
    assert_int_equal(mds_host_memory_below("v2"), 100000);
    put("v2", "sys/fs/cgroup/slurm/job_5/memory.stat",
        "anon 100000\nfile 800000\ninactive_file 600000\nactive_file 150000\n");
    assert_int_equal(mds_host_memory_below("v2"), 850000);
    put("v2", "sys/fs/cgroup/slurm/job_5/memory.stat", "active_file 990000\n");
    assert_int_equal(mds_host_memory_below("v2"), 1000000);
    put("v2", "sys/fs/cgroup/slurm/job_5/memory.current", "2990000\n");
    assert_int_equal(mds_host_memory_below("v2"), 0);
    /* a container shows its own group as the top one, whatever the path says */
    put("container", "proc/self/cgroup", "0::/docker/1f\n");
    put("container", "sys/fs/cgroup/memory.max", "700000\n");
    put("container", "sys/fs/cgroup/memory.current", "0\n");
    meminfo("container");
    assert_int_equal(mds_host_memory_below("container"), 700000);
}

static void groups_of_version_1_count_too(void **state)
{
    const char *job = "sys/fs/cgroup/memory/slurm/uid_7/job_5/memory.limit_in_bytes";

    (void)state;
    meminfo("v1");
    put("v1", "proc/self/cgroup",
        "9:name=systemd:/\n4:memory:/slurm/uid_7/job_5/step_0\n3:cpuset:/\n0::/\n");
    put("v1", job, "9223372036854771712\n");
    put("v1", "sys/fs/cgroup/memory/slurm/uid_7/job_5/memory.usage_in_bytes", "90\n");
    assert_int_equal(mds_host_memory_below("v1"), 4000 << 10);
    put("v1", job, "3000\n");
    assert_int_equal(mds_host_memory_below("v1"), 2910);
    put("v1", "sys/fs/cgroup/memory/slurm/uid_7/job_5/memory.stat",
        "inactive_file 5\ntotal_inactive_file 20\ntotal_active_file 30\n");
    assert_int_equal(mds_host_memory_below("v1"), 2960);
}

/* A Grace Hopper: nodes without a core are GPUs' where NVIDIA's driver is loaded, and
 * the host's, as of a Xeon Max, where it is not. */
static void gpu_memory_is_not_host_memory(void **state)
{
    (void)state;
    meminfo("gh");
    put("gh", "sys/devices/system/node/node0/cpulist", "0-71\n");
    put("gh", "sys/devices/system/node/node0/meminfo", "Node 0 MemFree:  2000 kB\n");
    put("gh", "sys/devices/system/node/node12/cpulist", "\n");
    put("gh", "sys/devices/system/node/node12/meminfo",
        "Node 12 MemTotal:  2500 kB\nNode 12 MemFree:   1500 kB\n");
    put("gh", "sys/devices/system/node/node13/cpulist", "\n");
    put("gh", "sys/devices/system/node/node13/meminfo", "Node 13 MemFree:  200 kB\n");
    assert_int_equal(mds_host_memory_below("gh"), 4000 << 10);
    put("gh", "proc/driver/nvidia/version", "NVRM version: ...\n");
    assert_int_equal(mds_host_memory_below("gh"), 2300 << 10);
    put("gh", "sys/devices/system/node/node13/meminfo", "Node 13 MemFree:  9200 kB\n");
    assert_int_equal(mds_host_memory_below("gh"), 0);
}

/* ---- cores near GPUs ---- */

/* As lists of CPUs have them: "0-3,8". */
static void assert_near(const char *root, mds_bus_id *gpu, int ranks, int rank,
                        const char *want)
{
    char got[256] = "";
    cpu_set_t set;

    mds_host_cores_near(root, gpu, ranks, rank, &set);
    for (int i = 0; i < CPU_SETSIZE; i++)
        if (CPU_ISSET(i, &set))
            snprintf(got + strlen(got), sizeof got - strlen(got), "%s%d",
                     *got ? "," : "", i);
    assert_string_equal(got, want);
}

static void put_near(const char *root, const char *gpu, const char *cpus)
{
    char path[256];

    snprintf(path, sizeof path, "sys/bus/pci/devices/%s/local_cpulist", gpu);
    put(root, path, cpus);
}

/* Eight cores of two threads: the first four are near the first three GPUs. */
static void ranks_share_the_cores_near_their_gpus(void **state)
{
    mds_bus_id gpu[] = {"0000:07:00.0", "0000:0b:00.0", "0000:48:00.0", "0000:c8:00.0",
                        "0000:00:00.0"};
    mds_bus_id reversed[] = {"0000:c8:00.0", "0000:48:00.0"};
    char path[256], threads[16];

    (void)state;
    for (int i = 0; i < 16; i++) {
        snprintf(path, sizeof path,
                 "sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", i);
        snprintf(threads, sizeof threads, "%d,%d\n", i % 8, i % 8 + 8);
        put("dgx", path, threads);
    }
    for (int i = 0; i < 3; i++)
        put_near("dgx", gpu[i], "0-3,8-11\n");
    put_near("dgx", gpu[3], "4-7,12-15\n");
    assert_near("dgx", gpu, 2, 0, "0,1,8,9");
    assert_near("dgx", gpu, 2, 1, "2,3,10,11");
    assert_near("dgx", gpu, 4, 2, "2,3,10,11"); /* of four cores three ranks */
    assert_near("dgx", gpu, 4, 3, "4,5,6,7,12,13,14,15");
    assert_near("dgx", reversed, 2, 0, "4,5,6,7,12,13,14,15");
    assert_near("dgx", gpu, 5, 4, ""); /* not known */
    assert_near("nowhere", gpu, 4, 0, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_checked),
        cmocka_unit_test(a_gpu_is_optional),
        cmocka_unit_test(memory_is_limited),
        cmocka_unit_test(arenas_account),
        cmocka_unit_test(copies_arrive),
        cmocka_unit_test(large_copies_arrive),
        cmocka_unit_test(dry_memory_cannot_be_accessed),
        cmocka_unit_test(a_profile_adds_up),
        cmocka_unit_test(a_profile_of_waits_has_nothing_else),
        cmocka_unit_test(a_long_profile_is_complete),
        cmocka_unit_test(every_operation_has_a_name),
        cmocka_unit_test(memory_has_a_table),
        cmocka_unit_test(a_job_may_have_less_memory_than_its_node),
        cmocka_unit_test(groups_of_version_1_count_too),
        cmocka_unit_test(gpu_memory_is_not_host_memory),
        cmocka_unit_test(ranks_share_the_cores_near_their_gpus),
    };

    return cmocka_run_group_tests(tests, go_to_scratch, leave_scratch);
}
