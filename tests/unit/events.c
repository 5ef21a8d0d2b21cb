/* SPDX-License-Identifier: BSD-3-Clause */
/* Events: written whole, read whole, and what they say of how a run ended. */
#include "tests/unit/scratch.h"

#include "base/events.h"
#include "base/exit_status.h"
#include "launch/events.h"

#include <fcntl.h>
#include <math.h>
#include <sys/stat.h>
#include <sys/wait.h>

/* ---- writing, and reading again ---- */

struct seen {
    int n;
    char event[32], text[MDS_EVENT_SIZE];
    double version, count, real;
    int has_null;
};

static enum mds_rc see(void *to, const char *event, const struct mds_node *record)
{
    struct seen *s = to;
    const char *text = mds_event_text(record, "text");

    s->n++;
    snprintf(s->event, sizeof s->event, "%s", event);
    snprintf(s->text, sizeof s->text, "%s", text ? text : "");
    s->version = mds_event_number(record, "v", -1);
    s->count = mds_event_number(record, "count", -1);
    s->real = mds_event_number(record, "real", -1);
    s->has_null = mds_node_get(record, "nan") && !mds_event_text(record, "nan");
    return MDS_OK;
}

static struct seen read_all(const char *path, int64_t at)
{
    struct seen s = {0};

    assert_int_equal(mds_events_read(path, &at, see, &s), MDS_OK);
    return s;
}

static int write_event(const char *text)
{
    struct mds_event e;

    mds_event_begin(&e, "made");
    mds_event_add_int(&e, "count", INT64_MIN);
    mds_event_add_real(&e, "real", 0.1);
    mds_event_add_real(&e, "nan", NAN);
    mds_event_add_text(&e, "text", text);
    mds_event_add_text(&e, "none", NULL);
    return mds_event_end(&e);
}

static void an_event_is_read_as_it_was_written(void **state)
{
    static const char text[] = "a \"quote\", a \\, a line\nend, \x01 and \xc3\xa9";
    struct seen s;

    (void)state;
    mds_events_open("whole");
    assert_int_equal(write_event(text), 0);
    s = read_all("whole", 0);
    assert_int_equal(s.n, 1);
    assert_string_equal(s.event, "made");
    assert_string_equal(s.text, text);
    assert_true(s.version == MDS_EVENTS_VERSION && s.count == (double)INT64_MIN);
    assert_true(s.real == 0.1 && s.has_null);
}

static void an_event_goes_nowhere_unless_it_is_told_where(void **state)
{
    (void)state;
    mds_events_open(NULL);
    assert_int_equal(write_event("x"), 0);
    mds_events_open("no/such/folder");
    assert_int_equal(write_event("x"), -1);
    mds_events_open("/dev/full");
    assert_int_equal(write_event("x"), -1);
}

/* The record stays one, whatever does not fit. */
static void long_texts_are_cut(void **state)
{
    char text[2 * MDS_EVENT_SIZE];
    struct stat st;
    struct seen s;

    (void)state;
    mds_events_open("long");
    for (int last = 0; last < 2; last++) {
        memset(text, last ? '"' : 'x', sizeof text - 1);
        text[sizeof text - 1] = '\0';
        assert_int_equal(write_event(text), 0);
    }
    s = read_all("long", 0);
    assert_int_equal(s.n, 2);
    assert_true(strlen(s.text) > MDS_EVENT_SIZE / 4);
    assert_int_equal(stat("long", &st), 0);
    assert_true(st.st_size <= 2 * MDS_EVENT_SIZE);
}

static void a_torn_line_hides_no_other(void **state)
{
    static const char torn[] = "{\"v\":1,\"event\":\"sav";
    int64_t at = 0;
    struct seen s = {0};

    (void)state;
    mds_events_open("torn");
    assert_int_equal(write_event("before"), 0);
    assert_int_equal(mds_events_read("torn", &at, see, &s), MDS_OK);
    assert_int_equal(s.n, 1);
    for (int i = 0; i < 2; i++) {
        int fd = open("torn", O_WRONLY | O_APPEND);

        assert_int_equal(write(fd, torn, sizeof torn - 1), sizeof torn - 1);
        close(fd);
        assert_int_equal(mds_events_read("torn", &at, see, &s), MDS_OK);
        assert_int_equal(s.n, 1 + i); /* it may still become a record */
        assert_int_equal(write_event("after"), 0);
        assert_int_equal(mds_events_read("torn", &at, see, &s), MDS_OK);
        assert_int_equal(s.n, 2 + i);
        assert_string_equal(s.text, "after");
    }
    assert_int_equal(read_all("torn", 0).n, 3);
    assert_int_equal(read_all("missing", 0).n, 0);
}

static void lines_of_many_processes_do_not_mix(void **state)
{
    enum { WRITERS = 8, EACH = 50 };
    char text[1000];

    (void)state;
    memset(text, 'y', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    mds_events_open("many");
    for (int i = 0; i < WRITERS; i++)
        if (fork() == 0) {
            int bad = 0;

            for (int k = 0; k < EACH; k++)
                bad |= write_event(text);
            _exit(bad != 0);
        }
    for (int i = 0; i < WRITERS; i++) {
        int status;

        wait(&status);
        assert_int_equal(status, 0);
    }
    assert_int_equal(read_all("many", 0).n, WRITERS * EACH);
}

/* ---- how a run ended ---- */

static struct mds_losses losses_of(const char *lines)
{
    struct mds_losses l = {.n = 0};
    int64_t at = 0;

    write_file("losses", lines, strlen(lines));
    mds_losses_read(&l, "losses", &at);
    return l;
}

static void assert_loss(const char *lines, int rank, const char *host, const char *why)
{
    struct mds_losses l = losses_of(lines);

    assert_int_equal(l.n, rank >= 0);
    if (rank >= 0) {
        assert_int_equal(l.v[0].rank, rank);
        assert_string_equal(l.v[0].host, host);
        assert_string_equal(l.v[0].why, why);
    }
}

#define DIED(rank, host, signal, name)                                                 \
    "{\"event\":\"rank_lost\",\"rank\":" rank ",\"host\":\"" host                      \
    "\",\"cause\":\"signal\",\"signal\":" signal                                       \
    ",\"out_of_memory\":0,\"reason\":\"was killed by signal " signal " (" name         \
    ")\"}\n"
#define KILLED(rank, host) DIED(rank, host, "9", "Killed")
#define FAILED(status) "{\"event\":\"failed\",\"rank\":0,\"status\":" status "}\n"

static void the_first_loss_counts(void **state)
{
    (void)state;
    assert_loss(KILLED("5", "n2"), 5, "n2", "was killed by signal 9 (Killed)");
    assert_loss(DIED("5", "n2.site", "11", "Segmentation fault") KILLED("1", "n1"), 5,
                "n2.site", "was killed by signal 11 (Segmentation fault)");
    assert_loss(DIED("1", "n1", "6", "Aborted") /* it may have followed another */
                KILLED("5", "n2") KILLED("1", "n1"),
                5, "n2", "was killed by signal 9 (Killed)");
    assert_loss(
        "{\"event\":\"rank_lost\",\"rank\":12,\"host\":\"n7\",\"cause\":"
        "\"silent\",\"reason\":\"has been silent for 600 s\"}\n" KILLED("1", "n1"),
        12, "n7", "has been silent for 600 s");
    assert_loss(FAILED("1") KILLED("5", "n2") /* by the launcher */, -1, "", "");
    assert_loss(FAILED("75")
                    KILLED("5", "n2") /* rank 0 noticed that, and was faster */,
                5, "n2", "was killed by signal 9 (Killed)");
    assert_loss("{\"event\":\"rank_lost\",\"rank\":3,\"host\":null}\n", 3, "",
                "is lost");
}

#define SILENT(rank, host)                                                             \
    "{\"event\":\"rank_lost\",\"rank\":" rank ",\"host\":\"" host                      \
    "\",\"cause\":\"silent\"}\n"

static void all_silent_ranks_count(void **state)
{
    struct mds_losses l =
        losses_of(SILENT("0", "n1") KILLED("2", "n2") SILENT("4", "n3"));

    (void)state;
    assert_int_equal(l.n, 2);
    assert_string_equal(l.v[0].host, "n1");
    assert_string_equal(l.v[1].host, "n3");
    assert_true(l.silent && l.v[0].silent && l.v[1].silent);
    l = losses_of(KILLED("2", "n2") SILENT("4", "n3"));
    assert_int_equal(l.n, 1);
}

static void the_status_is_that_of_the_first_end(void **state)
{
    struct mds_losses l = losses_of(FAILED("1") FAILED("75"));

    (void)state;
    assert_int_equal(l.status, MDS_EXIT_REPEATS);
    assert_int_equal(l.failed, 1);
    l = losses_of(FAILED("75"));
    assert_int_equal(l.status, MDS_EXIT_LOST);
    assert_int_equal(l.failed, 0);
    l = losses_of("{\"event\":\"started\"}\n{\"event\":\"finished\",\"status\":85}\n");
    assert_true(l.started && l.has_status && !l.failed);
    assert_int_equal(l.status, MDS_EXIT_UNFINISHED);
    assert_int_equal(losses_of("").has_status, 0);
    l = losses_of("{\"event\":\"stuck\",\"rank\":-1}\n");
    assert_int_equal(l.stuck, 1);
    l = losses_of("{\"event\":\"started\"}\n{\"event\":\"stuck\",\"rank\":2}\n");
    assert_int_equal(l.stuck, 2);
    assert_int_equal(l.n + l.failed, 0);
}

static void faults_of_the_preflight_all_count(void **state)
{
    struct mds_losses l = losses_of(
        "{\"event\":\"unfit\",\"rank\":2,\"host\":\"n2\",\"group\":0,\"reason\":"
        "\"--save: ck/x: Input/output error\"}\n"
        "{\"event\":\"unfit\",\"rank\":3,\"host\":\"n2\",\"group\":0}\n"
        "{\"event\":\"unfit\",\"rank\":0,\"host\":\"n1\",\"group\":1}\n"
        "{\"event\":\"unfit\",\"rank\":6,\"host\":\"n4\",\"group\":0}\n" KILLED("0",
                                                                                "n1"));

    (void)state;
    assert_int_equal(l.n, 3);
    assert_int_equal(l.in_check, 1);
    assert_string_equal(l.v[0].why, "--save: ck/x: Input/output error");
    assert_string_equal(l.v[2].host, "n4");
    l = losses_of("{\"event\":\"rank_lost\",\"rank\":1,\"host\":\"n1\",\"signal\":9,"
                  "\"out_of_memory\":1}\n");
    assert_int_equal(l.out_of_memory, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_event_is_read_as_it_was_written),
        cmocka_unit_test(an_event_goes_nowhere_unless_it_is_told_where),
        cmocka_unit_test(long_texts_are_cut),
        cmocka_unit_test(a_torn_line_hides_no_other),
        cmocka_unit_test(lines_of_many_processes_do_not_mix),
        cmocka_unit_test(the_first_loss_counts),
        cmocka_unit_test(all_silent_ranks_count),
        cmocka_unit_test(the_status_is_that_of_the_first_end),
        cmocka_unit_test(faults_of_the_preflight_all_count),
    };

    return cmocka_run_group_tests(tests, go_to_scratch, leave_scratch);
}
