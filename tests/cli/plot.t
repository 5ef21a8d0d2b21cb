#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# mds_plot: what it draws from a run's JSON lines, and what it says when it cannot.
: "${srcdir:?run by make check, or by hand after: . tests/env.sh}"
plot=$srcdir/scripts/mds_plot
work=$(mktemp -d "${TMPDIR:-/tmp}/mds-plot.XXXXXX") || exit 99
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 99
n=0

# check DESCRIPTION COMMAND...
check() {
    what=$1
    shift
    n=$((n + 1))
    if "$@" > log 2>&1; then
        echo "ok $n - $what"
    else
        echo "not ok $n - $what"
        sed 's/^/# /' log
    fi
}

# refuses STATUS WORDS COMMAND...: ends with it, saying one line with the words
refuses() {
    want=$1 words=$2
    shift 2
    "$@" > said 2>&1
    got=$?
    cat said
    [ $got -eq "$want" ] && [ "$(wc -l < said)" -eq 1 ] && grep -q -- "$words" said
}

cat > run.jsonl << 'EOD'
{"event":"run","wall_time_s":1.0,"parameters":1234567,"train_iters":3,"unigram_entropy_nats":4.0123}
{"event":"step","iteration":1,"lm_loss":4.5,"grad_norm":1.0}
{"event":"step","iteration":2,"lm_loss":null,"grad_norm":null}
{"event":"step","iteration":3,"lm_loss":3.75,"grad_norm":1.0}
{"event":"eval","split":"validation","iteration":3,"lm_loss":3.875}
{"event":"eval","split":"test","iteration":3,"lm_loss":3.9}
{"event":"end","reason":"iterations"}
EOD

echo 1..30
same_version() {
    test "$("$plot" --version)" = "mds_plot $(mds_data --version | cut -d" " -f2)" &&
        grep -q "version=\"mds_from_megatron $(mds_data --version | cut -d" " -f2)\"" "$srcdir/scripts/mds_from_megatron"
}
check '--version is that of the programs' same_version
check "a name that is neither png nor svg" refuses 2 "end in .png or .svg" \
    "$plot" run.jsonl out.jpg
check "a missing run" refuses 1 "none.jsonl: cannot be read" "$plot" none.jsonl out.svg
echo '{"event":"run"}' > empty.jsonl
check "a run without steps" refuses 1 "no training steps" "$plot" empty.jsonl out.svg

# A gnuplot that writes down what it is asked to draw, then a world without one.
mkdir bin none
cat > bin/gnuplot << 'EOD'
#!/bin/sh
tee script | sed -n "s/^set output '\(.*\)'/\1/p" > name
cat "$(sed -n "s/^plot '\([^']*\)'.*/\1/p" script)" > train
echo picture > "$(cat name)"
EOD
chmod +x bin/gnuplot
for tool in sh awk cat cp grep mktemp rm sed tail; do
    ln -s "$(command -v $tool)" none/
done
check "no gnuplot: its own exit status" refuses 3 "no gnuplot" \
    env PATH="$work/none" sh "$plot" run.jsonl out.svg
check "draws" env PATH="$work/bin:$PATH" "$plot" run.jsonl out.svg
check "the picture is put in place" grep -q picture out.svg
cp run.jsonl lr=1.jsonl
check "a run that awk would take for an assignment" \
    env PATH="$work/bin:$PATH" timeout 20 "$plot" lr=1.jsonl out.svg
cp run.jsonl ./-r.jsonl
check "names that begin with a dash" \
    env PATH="$work/bin:$PATH" timeout 20 "$plot" -- -r.jsonl -o.svg
check "and the picture is in place" grep -q picture ./-o.svg
check "training, validation and entropy are in it" \
    grep -q "training, mean.*validation.*4.0123 with lines" script
printf '1 4.5 4.5\n3 3.75 3.75\n' > want
check "NaN steps are left out" diff want train
cat > bin/awk << EOD
#!/bin/sh
[ "\$LC_ALL" = C ] && exec $(command -v awk) "\$@"
EOD
chmod +x bin/awk
check "numbers are not read as the locale has them" \
    env PATH="$work/bin:$PATH" LC_ALL=de_DE.UTF-8 "$plot" run.jsonl out.svg
check "no losses by kind" refuses 1 "no loss by kind" \
    env PATH="$work/bin:$PATH" "$plot" --by-kind run.jsonl out.svg
cat >> run.jsonl << 'EOD'
{"event":"step","iteration":4,"lm_loss":3,"lm_loss_ecoli":2.5,"lm_loss_ecoli:repeat":null}
{"event":"eval","split":"validation","iteration":4,"lm_loss":3,"lm_loss_ecoli":3.5,"lm_loss_tag":1}
{"event":"eval","split":"validation","iteration":6,"lm_loss":3,"lm_loss_ecoli":3.25,"lm_loss_ecoli:repeat":1.25}
EOD
check "losses by kind" env PATH="$work/bin:$PATH" "$plot" --by-kind run.jsonl out.svg
printf '4 3.5\n6 3.25\n' > want
check "of validation, each of its own" diff want train
check "repeats dotted in the colour of their species, tags not at all" \
    grep -q "lc 1 lw 2 ps 0.5 title 'ecoli', .* lc 1 dt 3 [^,]* title 'ecoli:repeat'$" script
tail -n 1 run.jsonl | sed 's/"lm_loss_ecoli":3.25,//; s/^/{"event":"step","iteration":1,"lm_loss":3}\n/' > repeat.jsonl
check "a kind whose name has a colon" env PATH="$work/bin:$PATH" "$plot" --by-kind repeat.jsonl out.svg
echo '6 1.25' > want
check "has its own loss" diff want train

# Several runs.
sed 's/"train_iters":3/&,"data_path":"0.5 \/d\/a.h5 0.5 b.h5"/' run.jsonl > named.jsonl
check "a run says what it is" env PATH="$work/bin:$PATH" "$plot" named.jsonl out.svg
check "its name, parameters and data" \
    grep -q "^set title 'named: ' .*1234567 / 1e6) . ' million parameters, 0.5 a.h5 0.5 b.h5' noenhanced$" script
check "by kind, too" env PATH="$work/bin:$PATH" "$plot" --by-kind named.jsonl out.svg
check "its name and data" \
    grep -q "^set title 'named: validation loss by kind of token, 0.5 a.h5 0.5 b.h5' noenhanced$" script
titled() { # titled TITLE RUN...: that of the plot of these
    want="set title '$1' noenhanced"
    shift
    env PATH="$work/bin:$PATH" "$plot" "$@" out.svg && grep "^set title" script && grep -qxF "$want" script
}
cp named.jsonl other.jsonl
check "several runs on the same data" \
    titled "2 runs (points: validation), 0.5 a.h5 0.5 b.h5" named.jsonl other.jsonl
check "and on different data" titled "3 runs (points: validation)" named.jsonl run.jsonl other.jsonl
mkdir "it's"
cp run.jsonl "it's/metrics.jsonl"
check "several runs, of which one has not begun" \
    env PATH="$work/bin:$PATH" "$plot" run.jsonl empty.jsonl "it's/metrics.jsonl" out.svg
check "a colour each, points where they were validated, the name of the folder" \
    grep -q "lc 1 title 'run', .*valid-1' [^,]* lc 1 notitle, .*lc 2 title 'it''s', .* lc 2 notitle$" script
check "on white" grep -q "^set terminal svg .*background '#ffffff'" script
check "none of which has begun" refuses 1 "no training steps" "$plot" empty.jsonl empty.jsonl out.svg
check "kinds are those of one run" refuses 2 "draws one run" "$plot" --by-kind run.jsonl run.jsonl out.svg
