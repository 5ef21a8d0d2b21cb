#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2016,SC2034  # test bodies are evaluated by sharness, variables too
test_description='mds_launch report: what runs cost, in what they differ, and a page of them'
# shellcheck source=tests/launch/batch.sh
. "${srcdir:?run by make check, or by hand after: . tests/env.sh}/tests/launch/batch.sh"

# made RUN "ASKED": a run of two steps of 1 s and an evaluation, that began at 1000 s
made() {
    mkdir -p "runs/$1" && printf 'name: %s\nasked: "%s"\n' "$1" "$2" >"runs/$1/run.yaml" &&
        cat >"runs/$1/metrics.jsonl" <<-END
	{"event":"run","model_size_key":"A","ranks":2,"seq_length":64,"global_batch_size":1}
	{"event":"step","wall_time_s":1010,"iteration":1,"elapsed_s":1,"lm_loss":3,"megatron_flops_per_s_per_rank":5e11}
	{"event":"step","wall_time_s":1011,"iteration":2,"elapsed_s":1,"lm_loss":2,"megatron_flops_per_s_per_rank":5e11}
	{"event":"eval","split":"validation","iteration":2,"lm_loss":2.5}
	{"event":"eval","split":"test","iteration":2,"lm_loss":9}
	END
}
# event RUN TIME {EVENT}
event() {
    echo "{\"v\":1,\"time\":$2,$3}" >>"runs/$1/events.jsonl"
}
# column NAME RUN: of report.csv
column() {
    awk -F, -v name="$1" -v run="$2" 'NR == 1 { for (i = 1; i <= NF; i++) if ($i == name) c = i } $1 == run { print c ? $c : "no column" }' runs/report.csv
}

made one "--num-layers 4 --lr 1e-3 --bf16 --data-path 0.5 a.h5 0.5 'b,c.h5' --seq-length 64 --save x" &&
    made two "--num-layers 4 --lr 3e-3 --data-path a.h5 --seq-length 128 --save y" &&
    made three "--num-layers 4 --lr 1e-3 --data-path a.h5 --window-size 8" && mkdir runs/bare &&
    cp runs/one/metrics.jsonl runs/bare

test_expect_success 'the options that differ are columns; outputs and what has a column are not' '
    mds_launch report runs >out && cat out runs/report.csv &&
    head -n 1 runs/report.csv | cut -d, -f 10- | tr , "\n" | sort >got &&
    printf "%s\n" bf16 data-path lr node_hours num-layers validation_loss window-size | sort >want && test_cmp want got &&
    test "$(column lr one) $(column lr two) $(column lr three)" = "1e-3 3e-3 1e-3" &&
    test "$(column bf16 one)" = on && test -z "$(column bf16 two)" && test "$(column window-size three)" = 8 &&
    test "$(column data-path one)" = "0.5 a.h5 0.5 b;c.h5" && test -z "$(column lr bare)" &&
    rm -r runs/bare && mds_launch report runs >out && test "$(column num-layers one)" = "no column"
'
test_expect_success 'a run that was extended has its last --train-iters' '
    made long "--num-layers 4 --train-iters 2" && echo "{\"event\":\"run\",\"train_iters\":2}" >>runs/long/metrics.jsonl &&
    echo "{\"event\":\"run\",\"train_iters\":40}" >>runs/long/metrics.jsonl && mds_launch report runs >out &&
    test "$(column train-iters long)" = 40 && rm -r runs/long
'
test_expect_success 'the validation loss, not that of the test' '
    test "$(column validation_loss one)" = 2.5 && grep "^| one | A | 2 | 64 | 2 | 1 | 32 | 0.5 | 2.0000 | 2.5000 | |" out
'
test_expect_success 'node-hours: of each start until its last sign of life' '
    event one 900 "\"event\":\"submitted\"" && event one 1000 "\"event\":\"launched\",\"nodes\":10" &&
    event one 1005 "\"event\":\"started\"" && event one 5000 "\"event\":\"cancelled\"" &&
    mds_launch report runs >out && test "$(column node_hours one)" = 0.0305556 && test -z "$(column node_hours two)" &&
    event one 8000 "\"event\":\"launched\",\"nodes\":2" && event one 9800 "\"event\":\"finished\",\"status\":0" &&
    mds_launch report runs >out && test "$(column node_hours one)" = 1.03056 && grep "^| one .* | 1.03 |" out
'
test_expect_success 'ranks that were lost: the first of each start, and nodes found unfit' '
    test_must_fail grep "^one:" out &&
    event one 9900 "\"event\":\"launched\",\"nodes\":2" &&
    event one 1795428672 "\"event\":\"rank_lost\",\"rank\":1,\"host\":\"n4\",\"reason\":\"was killed by signal 9 (Killed)\"" &&
    event one 1795428673 "\"event\":\"rank_lost\",\"rank\":2,\"host\":\"n5\",\"reason\":\"was killed by signal 15 (Terminated)\"" &&
    mds_launch report runs >out && grep -x "one: on 2026-11-23 10:11:12 UTC rank 1 on n4 was killed by signal 9 (Killed)" out runs/report.md &&
    test_must_fail grep n5 out
'
test_expect_success 'a run.yaml that cannot be read is a warning' '
    cp runs/two/run.yaml keep && echo "a: [" >runs/two/run.yaml &&
    mds_launch report runs 2>err >out && grep "warn: .*two/run.yaml" err && grep "^| two " out && cp keep runs/two/run.yaml
'
test_expect_success 'losses of all runs in one plot' '
    if command -v gnuplot; then
        mds_launch report runs && for run in one two three; do grep "<text>$run</text>" runs/losses.svg || return 1; done
    fi
'
# What a page needs, with no other file and no network.
cat >parse.py <<'END'
import html.parser, re, sys

class Page(html.parser.HTMLParser):
    void = {"meta"}

    def __init__(self):
        super().__init__()
        self.open, self.ids, self.cells, self.plots = [], set(), [], 0

    def handle_starttag(self, tag, attributes):
        self.open.append(tag)
        self.plots += tag == "svg"
        for name, value in attributes:
            if name == "id":
                assert value not in self.ids, value
                self.ids.add(value)
            assert name not in ("src", "href", "data") and (name != "xlink:href" or value.startswith("#")), (name, value)

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        self.open.pop()

    def handle_endtag(self, tag):
        assert self.open.pop() == tag, tag

    def handle_data(self, text):
        if self.open and self.open[-1] in ("td", "th"):
            self.cells.append(text)

text = open(sys.argv[1], encoding="utf-8").read()
page = Page()
page.feed(text)
page.close()
assert text.startswith("<!DOCTYPE html>") and not page.open, page.open
assert "@import" not in text and not re.search(r"url\((?!#)", text)
for used in re.findall(r"(?:href=['\"]|url\()#([^'\")]*)", text):
    assert used in page.ids, used
print(page.plots, *page.cells)
END
test_expect_success 'a page: well-formed, of this file alone, with the tables and plots' '
    made "a&b" "--lr '"'"'<i>2</i>'"'"'" && mds_launch report runs --html page.html >out &&
    grep -F "<p>one: on 2026-11-23 10:11:12 UTC rank 1 on n4" page.html &&
    if command -v xmllint; then xmllint --noout --nonet page.html || return 1; fi
    command -v python3 || return 0
    python3 parse.py page.html >got && cat got &&
    grep "run model ranks .* valid node-hours .*lr" got && grep "one A 2 64 .* 2.0000 2.5000 9.97e+05" got && grep -F "a&b" got && grep -F "<i>2</i>" got &&
    if command -v gnuplot; then grep "^3 " got; else grep "^0 " got; fi
'
test_expect_success 'it opens in a browser' '
    if command -v chromium; then
        HOME=$PWD timeout 120 chromium --headless --no-sandbox --disable-gpu --host-resolver-rules="MAP * ~NOTFOUND" \
            --dump-dom "file://$PWD/page.html" >dom 2>browser.log &&
            test "$(grep -o "<td>" dom | wc -l)" -eq "$(grep -o "<td>" page.html | wc -l)" &&
            test "$(grep -c "<svg" dom)" -eq "$(grep -c "<svg" page.html)" && grep ">one<" dom
    fi
'
test_expect_success 'a page that cannot be written is an error' '
    test_must_fail mds_launch report runs --html nowhere/page.html 2>err && grep "nowhere/page.html cannot be written" err &&
    test_must_fail mds_launch report runs --html runs 2>err && grep -e "--html" err
'
test_expect_success 'plots of an earlier report do not stay' '
    if command -v gnuplot; then test -s runs/stragglers.svg || touch runs/stragglers.svg; fi &&
    mds_launch report runs >out && test ! -e runs/stragglers.svg
'

test_done
