# SPDX-License-Identifier: BSD-3-Clause
# For report: reads the runs of a folder, and writes tables of them and what gnuplot draws.
# Standard input: the runs' names.  ENVIRON["dir"] has their folders, metrics.jsonl with
# events.jsonl and run.yaml (docs/events.md); ENVIRON["tmp"] gets report.csv, report.md,
# table.html, report.gp, and a file `losses` if there is any.  An array of runs has the run's
# number as first index.

# As CSV, Markdown and gnuplot all take it.
function plain_name(text) {
    gsub(/[,"'|\\\t\n]/, "_", text)
    return text
}

# ---- one run: what happened to it ----

# The latest start of ranks before that time lived then.
function note_life(r, time,    k) {
    for (k = time == "" ? 0 : starts[r]; k > 0; k--)
        if (began[r, k] <= time + 0) {
            if (ended[r, k] < time + 0)
                ended[r, k] = time + 0
            return
        }
}

# Seconds since 1970 as "2026-11-23 10:11:12 UTC".
function date_text(s,    command, text) {
    command = sprintf("date -u -d @%d '+%%Y-%%m-%%d %%H:%%M:%%S UTC'", s)
    command | getline text
    close(command)
    return text
}

function note_loss(r,    rank, host, reason) {
    rank = value("rank")
    host = value("host")
    reason = value("reason")
    lost[r, ++losses[r]] = "on " date_text(value("time")) " rank " (rank == "" ? -1 : rank) " on " \
        (host == "" ? "?" : host) " " (reason == "" ? "was lost" : reason)
}

# Of several ranks that die the first is the cause: the launcher then ends the others.
function read_events(r, path,    event, time, k) {
    while ((event = next_event(path)) != "") {
        time = value("time")
        if (event == "launched") {
            k = ++starts[r]
            began[r, k] = ended[r, k] = time + 0
            nodes[r, k] = value("nodes") == "" ? 1 : value("nodes")
        } else if (starts[r] > 0 && event != "submitted" && event != "cancelled") {
            note_life(r, time)
            if (event == "unfit" || (event == "rank_lost" && !has_loss[r, starts[r]]++))
                note_loss(r)
        }
    }
}

function node_hours(r,    k, s) {
    for (k = 1; k <= starts[r]; k++)
        s += nodes[r, k] * (ended[r, k] - began[r, k])
    return starts[r] > 0 ? s / 3600 : ""
}

# ---- one run: its options ----

# A word goes to the option before it; the first of several alike counts.
function take_word(r, word,    eq) {
    if (word ~ /^--/) {
        eq = index(word, "=")
        flag = eq ? substr(word, 1, eq - 1) : word
        is_first = !((r, flag) in option)
        if (is_first) {
            flags[r, ++flag_count[r]] = flag
            option[r, flag] = eq ? substr(word, eq + 1) : ""
        }
    } else if (is_first) {
        option[r, flag] = option[r, flag] (option[r, flag] == "" ? "" : " ") word
    }
}

# Words as a shell reads them, in single quotes or with a backslash where that is needed.
function take_words(r, text,    word, c, end) {
    while (text != "") {
        c = substr(text, 1, 1)
        text = substr(text, 2)
        if (c == " ") {
            take_word(r, word)
            word = ""
        } else if (c == "'") {
            end = index(text "'", "'")
            word = word substr(text, 1, end - 1)
            text = substr(text, end + 1)
        } else if (c == "\\") {
            word = word substr(text, 1, 1)
            text = substr(text, 2)
        } else {
            word = word c
        }
    }
    take_word(r, word)
}

function read_options(r, path,    any, known) {
    is_first = 0
    while ((getline line < path) > 0) {
        any = 1
        if (sub(/^asked: "/, "", line)) {
            known = 1
            take_words(r, unquote(line))
        }
    }
    close(path)
    if (any && !known)
        print "mds: warn: report: " path ": does not say what was asked for" > "/dev/stderr"
}

# ---- one run: its steps ----

# The k-th least of v[1..n], which it reorders.  Source: Hoare 1961, algorithm 65, FIND.
function find(v, n, k,    low, high, i, j, pivot, t) {
    low = 1
    high = n
    while (low < high) {
        pivot = v[k]
        i = low
        j = high
        do {
            while (v[i] < pivot)
                i++
            while (pivot < v[j])
                j--
            if (i <= j) {
                t = v[i]
                v[i++] = v[j]
                v[j--] = t
            }
        } while (i <= j)
        if (j < k)
            low = i
        if (k < i)
            high = j
    }
    return v[k]
}

function note_slow_rank(r) {
    slow_step[r, ++slows[r]] = value("iteration")
    slow_rank[r, slows[r]] = value("rank") " on " plain_name(value("host"))
    slow_excess[r, slows[r]] = value("excess") + 0
}

# The first step of each job warms up, so it counts only where there is no other.  Of all
# others the median: one that saves or evaluates says little of them.  Batches, and FLOPs of
# rows with documents, may change: the mean.
function read_metrics(r, path,    event, warm, s, n, all, before, consumed, first_s, samples, sum) {
    split("", step_s)
    model[r] = loss[r] = valid_loss[r] = "" # gawk 5.2 must not copy what was never set
    ranks[r] = seq[r] = steps[r] = flops[r] = tokens[r] = slows[r] = 0
    while ((event = next_event(path)) != "") {
        if (event == "straggler") {
            note_slow_rank(r)
        } else if (event == "eval" && value("split") == "validation") {
            valid_loss[r] = value("lm_loss")
        } else if (event == "run") {
            model[r] = value("model_size_key") == "" ? "gpt" : plain_name(value("model_size_key"))
            ranks[r] = value("ranks") + 0
            seq[r] = value("seq_length") + 0
            global[r] = value("global_batch_size") + 0
            if ((r, "--train-iters") in option && value("train_iters") != "")
                option[r, "--train-iters"] = value("train_iters") # a later job may go on further
            warm = 0
        } else if (event == "step") {
            s = value("elapsed_s") + 0
            before = consumed + 0
            consumed = value("consumed_samples") + 0
            sum += value("megatron_flops_per_s_per_rank") * s * ranks[r]
            all++
            note_life(r, value("wall_time_s"))
            steps[r] = value("iteration") + 0
            loss[r] = value("lm_loss")
            if (loss[r] != "")
                printf "" > (tmp "/losses")
            if (warm++) {
                step_s[++n] = s
                samples += consumed > before ? consumed - before : global[r]
            } else {
                first_s = s
            }
        }
    }
    elapsed_s[r] = first_s + 0
    if (n) {
        elapsed_s[r] = (find(step_s, n, int((n + 1) / 2)) + find(step_s, n, int(n / 2) + 1)) / 2
        global[r] = samples / n
    }
    if (elapsed_s[r] > 0 && ranks[r] > 0) {
        flops[r] = sum / all / elapsed_s[r] / ranks[r]
        tokens[r] = global[r] * seq[r] / elapsed_s[r] / ranks[r]
    }
}

# ---- the table ----

function goes_before(a, b) {
    if (model[a] "" != model[b] "")
        return model[a] "" < model[b] ""
    if (ranks[a] != ranks[b])
        return ranks[a] < ranks[b]
    if (seq[a] != seq[b])
        return seq[a] < seq[b]
    return name[a] "" < name[b] ""
}

# sorted[1..runs] = their numbers.
function sort_runs(    i, k) {
    for (i = 1; i <= runs; i++) {
        for (k = i; k > 1 && goes_before(i, sorted[k - 1]); k--)
            sorted[k] = sorted[k - 1]
        sorted[k] = i
    }
}

# Columns for what a has and b has not, or has otherwise.
function vary(a, b,    i, flag) {
    for (i = 1; i <= flag_count[a]; i++) {
        flag = flags[a, i]
        if (!(flag in same) && !(flag in varies) &&
            (!((b, flag) in option) || option[a, flag] "" != option[b, flag] "")) {
            varies[flag]
            varied[++columns] = flag
        }
    }
}

function add(text) {
    cell[++cells] = text
}

# A number by the format, a short one for people; "" is not known.
function add_number(x, exact, brief) {
    add(x == "" ? "" : sprintf(is_exact ? exact : brief, x))
}

function add_row(r,    i, text) {
    add(name[r])
    add(model[r])
    add(ranks[r])
    add(seq[r])
    if (!steps[r]) {
        add(is_exact ? 0 : "no step yet")
        for (i = 0; i < 4; i++)
            add("")
    } else {
        add(steps[r])
        add_number(elapsed_s[r], "%.6g", "%.4g")
        add_number(tokens[r], "%.6g", "%.0f")
        add_number(flops[r] / 1e12, "%.6g", "%.4g")
        if (loss[r] == "")
            add("nan")
        else
            add_number(loss[r], "%.6g", "%.4f")
    }
    add_number(valid_loss[r], "%.6g", "%.4f")
    add_number(node_hours(r), "%.6g", "%.3g")
    for (i = 1; i <= columns; i++) {
        text = (r, varied[i]) in option ? option[r, varied[i]] : ""
        if (text == "" && (r, varied[i]) in option)
            text = "on"
        gsub(/,/, ";", text)
        gsub(/["|\t\n]/, " ", text)
        add(text)
    }
}

function make_table(exact,    i, n, heads) {
    is_exact = exact
    cells = 0
    n = split(exact ? "run,model,ranks,seq_length,steps,step_s,tokens_per_s_per_rank," \
        "tflops_per_rank,lm_loss,validation_loss,node_hours" : \
        "run,model,ranks,sequence,steps,step s,tokens/s/rank,TFLOP/s/rank,loss,valid,node-hours",
        heads, ",")
    for (i = 1; i <= n; i++)
        add(heads[i])
    for (i = 1; i <= columns; i++)
        add(substr(varied[i], 3))
    width = cells
    for (i = 1; i <= runs; i++)
        add_row(sorted[i])
}

# A rank that was slow in more than half of the measured steps.
function add_straggler_note(r,    i, sum, n, of) {
    for (i = 1; i <= slows[r]; i++)
        if (slow_excess[r, i] > 0.1) {
            n[slow_rank[r, i]]++
            sum[slow_rank[r, i]] += slow_excess[r, i]
        }
    for (of in n)
        if (2 * n[of] > slows[r])
            note[++notes] = sprintf("%s: the other ranks waited for rank %s in %d of %d measured " \
                "steps; it took %.0f %% longer than the median.", name[r], of, n[of], slows[r],
                100 * sum[of] / n[of])
}

function make_notes(    i, k) {
    for (i = 1; i <= runs; i++)
        add_straggler_note(sorted[i])
    for (i = 1; i <= runs; i++)
        for (k = 1; k <= losses[sorted[i]]; k++)
            note[++notes] = name[sorted[i]] ": " lost[sorted[i], k]
}

function print_csv(f,    i) {
    for (i = 1; i <= cells; i++)
        printf "%s%s", cell[i], (i % width ? "," : "\n") > f
}

function print_markdown(f,    i, k) {
    for (i = 1; i <= cells; i++) {
        printf "|%s%s%s", (cell[i] == "" ? "" : " "), cell[i], (i % width ? " " : " |\n") > f
        for (k = 1; i == width && k <= width; k++)
            printf "|---%s", (k < width ? "" : "|\n") > f
    }
    for (i = 1; i <= notes; i++)
        printf "\n%s\n", note[i] > f
}

function escaped(text) {
    gsub(/&/, "\\&amp;", text)
    gsub(/</, "\\&lt;", text)
    return text
}

function print_html(f,    i, tag) {
    print "<table>" > f
    for (i = 1; i <= cells; i++) {
        tag = i <= width ? "th" : "td"
        printf "%s<%s>%s</%s>%s", (i % width == 1 ? "<tr>" : ""), tag, escaped(cell[i]), tag,
            (i % width ? "" : "</tr>\n") > f
    }
    print "</table>" > f
    for (i = 1; i <= notes; i++)
        print "<p>" escaped(note[i]) "</p>" > f
}

# ---- plots ----

# A bar for each model, by the number of ranks: the longest sequence that made a step.
function plot_longest(f,    i, r, n, models, most, seen, list, lists, k) {
    print "set terminal svg size 720,432 background '#ffffff'\nset output 'longest.svg'" > f
    print "set style data histogram\nset style histogram clustered gap 1" > f
    print "set style fill solid 0.8 border -1\nset key top left noenhanced" > f
    print "set xlabel 'ranks'\nset ylabel 'longest sequence, k tokens'" > f
    print "set yrange [0:*]\n$bars << EOD" > f
    for (i = 1; i <= runs; i++) {
        r = sorted[i]
        if (i == 1 || model[r] != models[n])
            models[++n] = model[r]
        if (steps[r] > 0 && seq[r] > most[ranks[r], n])
            most[ranks[r], n] = seq[r]
        if (!seen[ranks[r]]++) {
            for (k = ++lists; k > 1 && ranks[r] < list[k - 1]; k--)
                list[k] = list[k - 1]
            list[k] = ranks[r]
        }
    }
    for (k = 1; k <= lists; k++) {
        printf "%d", list[k] > f
        for (i = 1; i <= n; i++)
            printf " %.6g", most[list[k], i] / 1e3 > f
        print "" > f
    }
    printf "EOD\nplot" > f
    for (i = 1; i <= n; i++)
        printf "%s $bars using %d:xtic(1) title '%s'", (i > 1 ? "," : ""), i + 1, models[i] > f
    print "" > f
}

# A line for each model on as many ranks: of runs of a length the fastest.
function plot_speed(f,    i, r, most, done, least, longest, lines, title, is) {
    for (i = 1; i <= runs; i++) {
        r = sorted[i]
        line_of[r] = model[r] ", " ranks[r] " rank" (ranks[r] == 1 ? "" : "s")
        if (flops[r] > most[line_of[r], seq[r]])
            most[line_of[r], seq[r]] = flops[r]
    }
    for (i = 1; i <= runs; i++) {
        r = sorted[i]
        is = line_of[r] SUBSEP seq[r]
        if (!(most[is] > 0) || done[is]++)
            continue
        if (line_of[r] != title[lines]) {
            printf "%s$line%d << EOD\n", (lines ? "EOD\n" : ""), lines + 1 > f
            title[++lines] = line_of[r]
        }
        printf "%d %.6g\n", seq[r], most[is] / 1e12 > f
        if (seq[r] > 0 && (!least || seq[r] < least))
            least = seq[r]
        if (seq[r] > longest)
            longest = seq[r]
    }
    print "EOD\nset output 'speed.svg'\nset logscale x 2\nset key below" > f
    print "set xlabel 'sequence length, tokens'\nset ylabel 'TFLOP/s per rank'" > f
    if (longest > 0) # of a single length gnuplot would make no range, and warn
        printf "set xrange [%g:%g]\n", least / 1.2, longest * 1.2 > f
    for (i = 1; i <= lines; i++)
        printf "%s $line%d using 1:2 with linespoints pt 7 title '%s'", (i > 1 ? "," : "plot"), i,
            title[i] > f
    print "" > f
}

# A curve for each run in which a rank was measured.
function plot_stragglers(f,    i, k, r, plots) {
    for (i = 1; i <= runs; i++) {
        r = sorted[i]
        if (!slows[r])
            continue
        print "$slow" i " << EOD" > f
        for (k = 1; k <= slows[r]; k++)
            printf "%d %.4g\n", slow_step[r, k], 100 * slow_excess[r, k] > f
        print "EOD" > f
        plots = plots (plots == "" ? "plot" : ",") " $slow" i \
            " using 1:2 with linespoints pt 7 title '" name[r] "'"
    }
    if (plots == "")
        return
    print "set output 'stragglers.svg'\nunset logscale x\nset xrange [0:*]\nset yrange [0:*]" > f
    print "set xlabel 'iteration'\nset ylabel 'slowest rank above the median, %'" > f
    print plots > f
}

# ---- all ----

BEGIN {
    tmp = ENVIRON["tmp"]
    while ((getline line < (tmp "/same")) > 0)
        same[line]
}

{
    folder = ENVIRON["dir"] "/" $0
    name[++runs] = plain_name($0)
    read_events(runs, folder "/events.jsonl")
    read_options(runs, folder "/run.yaml")
    read_metrics(runs, folder "/metrics.jsonl")
    any_step += flops[runs] > 0
}

END {
    sort_runs()
    for (i = 2; i <= runs; i++) { # what is the same in all is the same as in the first
        vary(sorted[1], sorted[i])
        vary(sorted[i], sorted[1])
    }
    make_notes()
    make_table(1)
    print_csv(tmp "/report.csv")
    make_table(0)
    print_markdown(tmp "/report.md")
    print_html(tmp "/table.html")
    if (any_step) {
        plot_longest(tmp "/report.gp")
        plot_speed(tmp "/report.gp")
        plot_stragglers(tmp "/report.gp")
    }
}
