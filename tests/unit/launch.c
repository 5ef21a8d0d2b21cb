/* SPDX-License-Identifier: BSD-3-Clause */
/* Lists of nodes, placement, quoting. */
#include "tests/unit/scratch.h"

#include "base/clock.h"
#include "launch/capture.h"
#include "launch/hosts.h"
#include "launch/placement.h"
#include "launch/argv.h"

/* The names of a list with blanks between. */
static char *expanded(const char *text)
{
    struct mds_hosts h = {0};
    struct mds_str all = {0};

    if (mds_hosts_expand(text, &h))
        fail_msg("%s", mds_fail_text());
    for (size_t i = 0; i < h.count; i++)
        mds_str_add(&all, "%s%s", i ? " " : "", h.name[i]);
    mds_hosts_fini(&h);
    return all.s;
}

static void slurm_lists_expand(void **state)
{
    static const char *const cases[][2] = {
        {"node[1-3,7]", "node1 node2 node3 node7"},
        {"a,b", "a b"},
        {"n[08-11]", "n08 n09 n10 n11"},
        {"r[1-2]n[0-1],x", "r1n0 r1n1 r2n0 r2n1 x"},
        {"nid[001000-001001,001010]-ib", "nid001000-ib nid001001-ib nid001010-ib"},
        {"n1+n2.site+x[1-2]", "n1 n2.site x1 x2"}, /* as PBS writes them */
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *got = expanded(cases[i][0]);

        assert_string_equal(got, cases[i][1]);
        free(got);
    }
}

static void broken_lists_are_refused(void **state)
{
    static const char *const cases[][2] = {
        {"node[1-", "[ without ]"},
        {"node1]", "] without ["},
        {"node[3-1]", "not a range"},
        {"node[a]", "not a range"},
        {"node[]", "nothing between"},
        {"a,,b", "empty name"},
        {"", "no names"},
        {"n[1-999999999]", "more than 100000"},
        {"n[1-300][1-1000]", "more than 1"},
        {"n[1-2-3]", "not a range"},
        {"n[1-3],m,n[3-4]", "node n3 is listed twice"},
        {"n1 n2", "'n1 n2' is not the name of a node"},
        {"n1;", "'n1;' is not the name of a node"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct mds_hosts h = {0};

        assert_fails(mds_hosts_expand(cases[i][0], &h), MDS_EUSER, cases[i][1]);
        assert_int_equal(h.count, 0);
    }
}

static void put(const char *path, const char *text)
{
    write_file(path, text, strlen(text));
}

static void files_of_nodes_are_read(void **state)
{
    struct mds_hosts h = {0};

    (void)state;
    put("f", "a\na\nb:3\n# c\nd slots=2 # e\n\n");
    assert_int_equal(mds_hosts_read("f", 0, &h), MDS_OK);
    assert_int_equal(h.count, 3);
    assert_string_equal(h.name[2], "d");
    assert_int_equal(h.slots[0], 2);
    assert_int_equal(h.slots[1], 3);
    assert_int_equal(h.slots[2], 2);
    mds_hosts_fini(&h);
    put("f", "a\nb\n\n");
    assert_int_equal(mds_hosts_read("f", 1, &h), MDS_OK);
    mds_hosts_fini(&h);
}

static void comments_are_no_blank_lines_however_long(void **state)
{
    struct mds_hosts h = {0};
    char text[3000] = "# nodes of the week";

    (void)state;
    memset(text + strlen(text), ' ', 2000);
    memcpy(text + 2000, "bad words\na\n #\nb", sizeof "bad words\na\n #\nb");
    put("f", text);
    assert_int_equal(mds_hosts_read("f", 1, &h), MDS_OK);
    assert_int_equal(h.count, 2);
    assert_string_equal(h.name[0], "a");
    assert_string_equal(h.name[1], "b");
    mds_hosts_fini(&h);
}

static void faulty_files_are_refused(void **state)
{
    struct mds_hosts h = {0};

    (void)state;
    put("f", "a\nb\na\n");
    assert_fails(mds_hosts_read("f", 1, &h), MDS_EUSER, "f:3: node a is listed");
    put("f", "a\n\nb\n");
    assert_fails(mds_hosts_read("f", 1, &h), MDS_EUSER, "f:2: a blank line");
    put("f", "a slots=x\n");
    assert_fails(mds_hosts_read("f", 0, &h), MDS_EUSER, "f:1: must be");
    put("f", "a slots=4294967297\n");
    assert_fails(mds_hosts_read("f", 0, &h), MDS_EUSER, "f:1: must be");
    put("f", "\n");
    assert_fails(mds_hosts_read("f", 0, &h), MDS_EUSER, "no node in it");
    assert_fails(mds_hosts_read(".", 0, &h), MDS_EUSER, "nodes .: Is a directory");
}

/* ---- placement ---- */

/* Only the variables given, and an nvidia-smi that lists `gpus`; "" for none. */
static void surround(const char *const *variables, const char *listed)
{
    char *path = strdup(getenv("PATH"));
    const char *tap = getenv("CMOCKA_MESSAGE_OUTPUT");
    char *output = tap ? strdup(tap) : NULL;
    char text[4096];

    clearenv();
    if (output)
        setenv("CMOCKA_MESSAGE_OUTPUT", output, 1); /* this very report */
    free(output);
    snprintf(text, sizeof text, "%s:%s", scratch, path);
    setenv("PATH", text, 1);
    free(path);
    for (; *variables; variables += 2)
        setenv(variables[0], variables[1], 1);
    snprintf(text, sizeof text, "#!/bin/sh\n%s\n", *listed ? listed : "exit 1");
    put("nvidia-smi", text);
    assert_int_equal(system("chmod +x nvidia-smi"), 0);
}

static struct mds_machine four_gpus = {.name = (char *)"four", .node.gpus = 4};

/* Where that machine's ranks can go, with what nvidia-smi says. */
static enum mds_rc find(const char *hostfile, struct mds_placement *p)
{
    struct mds_gpus here;

    return mds_placement_find(&four_gpus, hostfile, NULL,
                              mds_gpus_detect(&here) ? &here : NULL, p);
}

static void slurm_says_nodes_and_gpus(void **state)
{
    static const char *const variables[] = {"SLURM_JOB_NODELIST",
                                            "n[1-2]",
                                            "SLURM_JOB_NUM_NODES",
                                            "2",
                                            "SLURM_GPUS_ON_NODE",
                                            "2",
                                            NULL};
    struct mds_placement p;

    (void)state;
    surround(variables, "");
    assert_int_equal(find(NULL, &p), MDS_OK);
    assert_int_equal(p.nodes, 2);
    assert_int_equal(p.gpus, 2);
    assert_string_equal(mds_placement_hosts(&p)->name[1], "n2");
    mds_placement_fini(&p);
}

/* The launcher before the batch system, which is another's then. */
static void a_launcher_goes_before_the_batch_system(void **state)
{
    static const char *const variables[] = {"OMPI_COMM_WORLD_RANK",
                                            "1",
                                            "OMPI_COMM_WORLD_SIZE",
                                            "8",
                                            "SLURM_PROCID",
                                            "0",
                                            "SLURM_STEP_ID",
                                            "0",
                                            "SLURM_STEP_NUM_TASKS",
                                            "2",
                                            "SLURM_JOB_NODELIST",
                                            "n1",
                                            NULL};
    struct mds_placement p;

    (void)state;
    surround(variables, "");
    assert_int_equal(find(NULL, &p), MDS_OK);
    assert_string_equal(p.found[0].source, "Open MPI");
    assert_int_equal(p.found[0].ranks, 8);
    assert_int_equal(p.found[0].rank, 1);
    for (int i = 0; i < p.count; i++)
        assert_string_not_equal(p.found[i].source, "srun");
    assert_int_equal(p.nodes, 1);
    mds_placement_fini(&p);
}

/* srun --mpi=pmi2 sets mpiexec's PMI_RANK as well, and ranks may stand unevenly. */
static void srun_says_ranks_of_each_node(void **state)
{
    static const char *const variables[] = {"SLURM_STEP_ID",
                                            "0",
                                            "SLURM_STEP_NUM_TASKS",
                                            "11",
                                            "SLURM_STEP_NUM_NODES",
                                            "4",
                                            "SLURM_STEP_TASKS_PER_NODE",
                                            "3(x2),4,1",
                                            "SLURM_PROCID",
                                            "6",
                                            "SLURM_LOCALID",
                                            "0",
                                            "SLURM_NODEID",
                                            "2",
                                            "PMI_RANK",
                                            "6",
                                            "PMI_SIZE",
                                            "11",
                                            NULL};
    static const struct {
        const char *list, *node;
        int ranks;
    } cases[] = {{"3(x2),4,1", "0", 3}, {"3(x2),4,1", "1", 3},  {"3(x2),4,1", "2", 4},
                 {"3(x2),4,1", "3", 1}, {"3(x2),4,1", "4", -1}, {"4", "0", 4},
                 {"none", "0", -1}};
    struct mds_placement p;

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        surround(variables, "");
        setenv("SLURM_STEP_TASKS_PER_NODE", cases[i].list, 1);
        setenv("SLURM_NODEID", cases[i].node, 1);
        assert_int_equal(find(NULL, &p), MDS_OK);
        assert_string_equal(p.found[0].source, "srun");
        assert_int_equal(p.found[0].nodes, 4);
        assert_int_equal(p.found[0].ranks, 11);
        assert_int_equal(p.found[0].local_ranks, cases[i].ranks);
        mds_placement_fini(&p);
    }
}

static void gpus_are_counted_where_ranks_run(void **state)
{
    static const char *const login[] = {NULL};
    static const char *const job[] = {"PBS_NODEFILE", "nodes", NULL};
    static const struct {
        const char *devices;
        int gpus;
    } visible[] = {{"", 0},    {"-1", 0},     {"NoDevFiles", 0},   {"all of them", 0},
                   {"0,2", 2}, {"3,-1,2", 1}, {"GPU-a1,MIG-b2", 2}};
    static const char two[] = "echo 'T, 40960'; echo 'T, [N/A]'";
    struct mds_placement p;

    (void)state;
    put("nodes", "a\na\n");
    surround(login, two);
    assert_int_equal(find(NULL, &p), MDS_OK);
    assert_int_equal(p.gpus, 4); /* a login node's own do not count */
    mds_placement_fini(&p);
    surround(job, two);
    assert_int_equal(find(NULL, &p), MDS_OK);
    assert_int_equal(p.gpus, 2);
    assert_int_equal(p.nodes, 1);
    mds_placement_fini(&p);
    for (size_t i = 0; i < sizeof visible / sizeof *visible; i++) {
        const char *const some[] = {"PBS_NODEFILE", "nodes", "CUDA_VISIBLE_DEVICES",
                                    visible[i].devices, NULL};

        surround(some, two);
        assert_int_equal(find(NULL, &p), MDS_OK);
        assert_int_equal(p.gpus, visible[i].gpus);
        mds_placement_fini(&p);
    }
}

/* HOSTFILE=$PBS_NODEFILE, of a job that asked for two ranks on each node. */
static void the_batch_systems_file_may_repeat_nodes(void **state)
{
    static const char *const job[] = {"PBS_NODEFILE", "nodes", NULL};
    struct mds_placement p;

    (void)state;
    put("nodes", "a\na\nb\nb\n");
    put("mine", "a\na\nb\nb\n");
    surround(job, "");
    assert_int_equal(find("nodes", &p), MDS_OK);
    assert_string_equal(p.nodes_from, "HOSTFILE");
    assert_int_equal(p.nodes, 2);
    mds_placement_fini(&p);
    assert_fails(find("mine", &p), MDS_EUSER, "mine:2: node a is listed twice");
}

static void a_rank_is_told_which_it_is(void **state)
{
    static const char *const variables[] = {"PALS_RANKID",
                                            "5",
                                            "PALS_LOCAL_RANKID",
                                            "1",
                                            "PALS_LOCAL_SIZE",
                                            "4",
                                            "PALS_NODEID",
                                            "2",
                                            NULL};
    char *text = NULL;
    size_t size;
    FILE *f = open_memstream(&text, &size);
    struct mds_placement p;

    (void)state;
    surround(variables, "");
    assert_int_equal(find(NULL, &p), MDS_OK);
    mds_placement_print(&p, f);
    fclose(f);
    assert_non_null(strstr(text, "  rank 5, 1 of its node, node 2\n"));
    free(text);
    mds_placement_fini(&p);
}

static void disagreements_are_counted(void **state)
{
    static const char *const variables[] = {
        "PMI_RANK",        "0", "PMI_SIZE", "4", "MPI_LOCALNRANKS", "4",
        "MPI_LOCALRANKID", "0", NULL};
    struct mds_placement p;
    FILE *f = fopen("printed", "w+");

    (void)state;
    put("two", "a slots=2\nb slots=2\n");
    surround(variables, "");
    assert_int_equal(find("two", &p), MDS_OK);
    assert_int_equal(p.nodes, 2);
    assert_int_equal(mds_placement_print(&p, f), 1); /* 2 or 4 ranks a node */
    fclose(f);
    mds_placement_fini(&p);
}

static void nodes_are_left_out(void **state)
{
    static const char *const variables[] = {NULL};
    struct mds_placement p;

    (void)state;
    put("five", "n1.site slots=2\nn2.site slots=4\nn21.site slots=2\nn3\nn4\n");
    surround(variables, "");
    assert_int_equal(mds_placement_find(
                         &four_gpus, "five",
                         &(struct mds_exclusions){.list = "n[1-2],n4,other"}, NULL, &p),
                     MDS_OK);
    assert_int_equal(p.nodes, 2);
    assert_string_equal(mds_placement_hosts(&p)->name[0], "n21.site");
    assert_int_equal(mds_placement_hosts(&p)->slots[0], 2);
    assert_string_equal(mds_placement_hosts(&p)->name[1], "n3");
    mds_placement_fini(&p);
    assert_int_equal(mds_placement_find(&four_gpus, "five",
                                        &(struct mds_exclusions){.list = "n[1-4],n21"},
                                        NULL, &p),
                     MDS_EUSER);
    assert_int_equal(mds_placement_find(&four_gpus, NULL,
                                        &(struct mds_exclusions){.list = "n1"}, NULL,
                                        &p),
                     MDS_EUSER);
}

/* A list in a file is kept to only while there are enough other nodes. */
static void nodes_of_a_file_are_left_out(void **state)
{
    static const char *const variables[] = {NULL};
    struct mds_exclusions e = {.file = "bad", .nodes = 2};
    struct mds_placement p;

    (void)state;
    put("five", "n1\nn2\nn3\nn4\nn5\n");
    put("bad", "n1 # 2026-11-23: rank 0 was killed\nn7\nn3.site # silent\n");
    surround(variables, "");
    assert_int_equal(mds_placement_find(&four_gpus, "five", &e, NULL, &p), MDS_OK);
    assert_int_equal(p.nodes, 3);
    assert_int_equal(p.excluded, 2);
    assert_string_equal(mds_placement_hosts(&p)->name[0], "n2");
    assert_int_equal(mds_placement_leave_out(&p, "n4"), MDS_OK);
    assert_string_equal(mds_placement_hosts(&p)->name[1], "n5");
    mds_placement_fini(&p);
    e.nodes = 4; /* the one that was listed last is worse */
    assert_int_equal(mds_placement_find(&four_gpus, "five", &e, NULL, &p), MDS_OK);
    assert_int_equal(p.nodes, 4);
    assert_int_equal(mds_hosts_find(mds_placement_hosts(&p), "n3"), -1);
    mds_placement_fini(&p);
    e.nodes = 0; /* all but the spare ones */
    e.spare = 1;
    assert_int_equal(mds_placement_find(&four_gpus, "five", &e, NULL, &p), MDS_OK);
    assert_int_equal(p.nodes, 4);
    mds_placement_fini(&p);
    put("bad", "");
    e.spare = 0;
    assert_int_equal(mds_placement_find(&four_gpus, "five", &e, NULL, &p), MDS_OK);
    assert_int_equal(p.nodes, 5);
    mds_placement_fini(&p);
    e.file = "none";
    assert_int_equal(mds_placement_find(&four_gpus, "five", &e, NULL, &p), MDS_OK);
    mds_placement_fini(&p);
}

/* One is as good a number as others, and the least counts. */
static void slots_count_where_they_are_said(void **state)
{
    static const char *const none[] = {NULL};
    static const struct {
        const char *file;
        int slots;
    } rows[] = {{"a slots=1\nb slots=1\n", 1},
                {"a slots=1\nb slots=4\n", 1},
                {"a:4\nb:2\n", 2},
                {"a\nb\n", 0}};
    struct mds_placement p;

    (void)state;
    surround(none, "");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        put("some", rows[i].file);
        assert_int_equal(find("some", &p), MDS_OK);
        assert_int_equal(p.slots, rows[i].slots);
        mds_placement_fini(&p);
    }
}

/* mpiprocs of PBS: how often a node stands there. */
static void slots_of_pbs_count(void **state)
{
    static const char *const job[] = {"PBS_NODEFILE", "nodes", NULL};
    static const struct {
        const char *file, *note;
        int slots;
    } rows[] = {
        {"a\na\nb\nb\n", "", 2},
        {"a\nb\n", "", 0},
        {"a\na\na\nb\nb\n", "2 to 3 slots, and all get 2 ranks", 2},
        {"a\na\na\na\na\nb\nb\nb\nb\nb\n", "5 slots, and a rank for each GPU, 4", 4}};
    struct mds_placement p;

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (int named = 0; named < 2; named++) { /* HOSTFILE=$PBS_NODEFILE, too */
            surround(job, "");
            put("nodes", rows[i].file);
            assert_int_equal(find(named ? "nodes" : NULL, &p), MDS_OK);
            assert_int_equal(p.slots, rows[i].slots);
            assert_non_null(strstr(p.found[0].note, rows[i].note));
            mds_placement_fini(&p);
        }
    put("mine", "c\n"); /* another list says nothing of slots */
    assert_int_equal(find("mine", &p), MDS_OK);
    assert_int_equal(p.slots, 0);
    mds_placement_fini(&p);
}

static void an_unreachable_pmix_is_noted(void **state)
{
    static const char *const variables[] = {"PMIX_NAMESPACE", "nowhere", NULL};
    struct mds_placement p;

    (void)state;
    surround(variables, "");
    assert_int_equal(find(NULL, &p), MDS_OK);
    assert_string_equal(p.found[0].source, "PMIx");
    assert_true(strlen(p.found[0].note) > 0);
    assert_int_equal(p.nodes, 1);
    mds_placement_fini(&p);
}

/* ---- quoting ---- */

/* What a shell makes of the line is what went in. */
static void a_shell_takes_lines_apart(void **state)
{
    static const char *const words[] = {
        "plain",     "a b", "it's", "",    "$HOME", "a\"b", "back\\slash", "x;y",
        "new\nline", "~",   "*",    "a=b", "--x=1", "`id`", "#no",
    };
    enum { N = sizeof words / sizeof *words };
    struct mds_argv w = {0};
    struct mds_str line = {0}, want = {0};
    char command[4096], got[4096];
    FILE *f;
    size_t n;

    (void)state;
    for (int i = 0; i < N; i++) {
        mds_argv_add(&w, "%s", words[i]);
        mds_str_add(&want, "<%s>", words[i]);
    }
    mds_argv_format(&w, NULL, &line);
    snprintf(command, sizeof command, "printf '<%%s>' %s", line.s);
    f = popen(command, "r");
    n = fread(got, 1, sizeof got - 1, f);
    got[n] = '\0';
    assert_int_equal(pclose(f), 0);
    assert_string_equal(got, want.s);
    mds_str_fini(&line);
    mds_str_fini(&want);
    mds_argv_fini(&w);
}

/* By a shell.  limit_s: at most 1, and it is not waited for any longer. */
static int ask(const char *script, double limit_s, struct mds_str *answer)
{
    const char *const command[] = {"/bin/sh", "-c", script, NULL};
    double begin = mds_clock_s();
    int rc = mds_capture_output(command, limit_s, answer);

    assert_true(mds_clock_s() - begin < limit_s + 4);
    return rc;
}

static void a_program_that_hangs_is_not_waited_for(void **state)
{
    static const char *const none[] = {"no-such-program", NULL};
    struct mds_str answer = {0};

    (void)state;
    assert_int_equal(ask("echo one; echo two; echo three >&2", 5, &answer), 0);
    assert_string_equal(answer.s, "one\ntwo\n");
    mds_str_fini(&answer);
    assert_int_equal(ask("echo one; exit 3", 5, &answer), -1);
    assert_int_equal(ask("echo one; exec sleep 20", 0.2, &answer), -1);
    assert_int_equal(ask("exec >&-; exec sleep 20", 0.2, &answer), -1);
    assert_int_equal(mds_capture_output(none, 5, &answer), -1);
    assert_null(answer.s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slurm_lists_expand),
        cmocka_unit_test(broken_lists_are_refused),
        cmocka_unit_test(files_of_nodes_are_read),
        cmocka_unit_test(comments_are_no_blank_lines_however_long),
        cmocka_unit_test(faulty_files_are_refused),
        cmocka_unit_test(slurm_says_nodes_and_gpus),
        cmocka_unit_test(a_launcher_goes_before_the_batch_system),
        cmocka_unit_test(srun_says_ranks_of_each_node),
        cmocka_unit_test(gpus_are_counted_where_ranks_run),
        cmocka_unit_test(the_batch_systems_file_may_repeat_nodes),
        cmocka_unit_test(a_rank_is_told_which_it_is),
        cmocka_unit_test(disagreements_are_counted),
        cmocka_unit_test(nodes_are_left_out),
        cmocka_unit_test(nodes_of_a_file_are_left_out),
        cmocka_unit_test(slots_count_where_they_are_said),
        cmocka_unit_test(slots_of_pbs_count),
        cmocka_unit_test(an_unreachable_pmix_is_noted),
        cmocka_unit_test(a_shell_takes_lines_apart),
        cmocka_unit_test(a_program_that_hangs_is_not_waited_for),
    };

    return cmocka_run_group_tests(tests, go_to_scratch, leave_scratch);
}
