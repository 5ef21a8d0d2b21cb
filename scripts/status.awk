# SPDX-License-Identifier: BSD-3-Clause
# For status: what is known of runs from their folders (docs/events.md) and the batch system.
# Standard input: the folders.  Prints a table; or if ENVIRON["facts"] is set, of one run its
# state, the commands that submit and cancel its jobs, and those that wait, a line each.

function reset_run() {
    phase = "written"
    system_name = "none"
    jobs = last = iteration = last_iteration = loss = valid_loss = leaves_at = step_s = rate = ""
    last_at = active_at = 0
}

# ---- events ----

# "failed: gone.h5: No such file or directory", "saved at 120"
function describe(event,    at, host, reason) {
    at = value("iteration")
    host = value("host")
    reason = value("reason")
    sub(/\t.*/, "", reason) # its first line
    gsub(/_/, " ", event)
    last = event (at != "" && event != "started" ? " at " at : "") \
        (host != "" && event == "rank lost" ? " on " host : "") (reason != "" ? ": " reason : "")
}

function take_start() {
    phase = "running"
    last_iteration = value("last_iteration")
    leaves_at = value("leaves_after_s") == "" ? "" : last_at + value("leaves_after_s")
}

function take_finish(    status) {
    status = value("status") == "" ? 1 : value("status") + 0
    phase = status == 0 ? "done" : status >= 85 ? "saved" : "failed"
    if (value("training_loss") != "")
        loss = value("training_loss")
    if (value("validation_loss") != "")
        valid_loss = value("validation_loss")
}

function take_event(event) {
    if (value("time") != "")
        last_at = active_at = value("time") + 0
    if (event == "submitted") {
        jobs = value("jobs")
        if (phase !~ /^(starting|running|done)$/) # it may have been faster than this record
            phase = "queued"
    } else if (event == "launched" || event == "restarted") {
        phase = "starting"
    } else if (event == "started") {
        take_start()
    } else if (event == "evaluated" && value("split") == "validation") {
        valid_loss = value("loss")
    } else if (event == "walltime" || event == "cancelled") {
        phase = "leaving"
    } else if (event == "finished") {
        take_finish()
    } else if (event == "failed" || event == "rank_lost" || event == "stuck") {
        phase = "failed"
    }
    if ((event == "started" || event == "finished") && value("iteration") != "")
        iteration = value("iteration")
    if (event != "data") # it follows another at once
        describe(event)
}

# The last step is at the end of a long file.
function read_last_step(path,    command) {
    command = "tail -c 65536 " quoted(path) " 2> /dev/null"
    while ((command | getline line) > 0)
        if (line ~ /^\{.*\}$/ && value("event") == "step") {
            iteration = value("iteration")
            loss = value("lm_loss")
            step_s = value("elapsed_s")
            rate = value("tokens_per_s")
            if (value("wall_time_s") + 0 > active_at)
                active_at = value("wall_time_s") + 0
        }
    close(command)
}

function read_run(folder,    event) {
    reset_run()
    while ((getline line < (folder "/run.yaml")) > 0)
        if (sub(/^scheduler: */, "", line)) {
            gsub(/"/, "", line)
            system_name = line in submit ? line : "none"
        }
    close(folder "/run.yaml")
    while ((event = next_event(folder "/events.jsonl")) != "")
        take_event(event)
    read_last_step(folder "/metrics.jsonl")
}

# ---- the batch system ----

# ENVIRON["systems"]: lines of name, command that submits, that cancels, that prints the state
# of $job, states in which it runs, and in which it waits, with tabs between.
function read_systems(    i, n, row, part) {
    n = split(ENVIRON["systems"], row, "\n")
    for (i = 1; i <= n; i++) {
        split(row[i], part, "\t")
        submit[part[1]] = part[2]
        cancel[part[1]] = part[3]
        state_of[part[1]] = part[4]
        runs[part[1]] = part[5]
        waits[part[1]] = part[6]
    }
}

function is_one_of(words, word) {
    return index(" " words " ", " " word " ") > 0
}

function quoted(text) {
    gsub(/'/, "'\\''", text)
    return "'" text "'"
}

# 2: it runs, 1: it waits, 0: it is not there, or no answer.
function job_state(job,    command, word) {
    command = "timeout 15 sh -c " quoted("job=" quoted(job) "; " state_of[system_name]) \
        " 2> /dev/null < /dev/null"
    command | getline word
    close(command)
    gsub(/ /, "", word)
    return word == "" ? 0 : is_one_of(runs[system_name], word) ? 2 : is_one_of(waits[system_name], word)
}

# What the folder says may be old: a node that is lost with all processes of a run leaves no
# event.  Sets `waiting`, jobs that wait.
function compare_with_now(    i, n, id, state, best, patience_s) {
    patience_s = 10 * step_s < 120 ? 120 : 10 * step_s
    waiting = ""
    n = phase == "done" || phase == "written" ? 0 : split(jobs, id, /[ ,]+/)
    for (i = 1; i <= n; i++) {
        state = job_state(id[i])
        if (state == 1)
            waiting = waiting (waiting == "" ? "" : "\n") id[i]
        if (state > best)
            best = state
    }
    if (best == 1 && (phase == "saved" || phase == "failed"))
        phase = "queued"
    if (phase == "queued" && best != 1)
        phase = best == 2 ? "starting" : "silent"
    if (phase ~ /^(running|starting|leaving)$/ && best != 2 && now - active_at > patience_s)
        phase = "silent"
}

# ---- the table ----

function seconds_text(s) {
    if (s == "")
        return "-"
    if (s < 0)
        s = 0
    if (s < 10)
        return sprintf("%.1f s", s)
    s = int(s + 0.5)
    if (s < 60)
        return s " s"
    return s < 3600 ? sprintf("%d min %02d s", s / 60, s % 60) : \
        sprintf("%d h %02d min", s / 3600, s / 60 % 60)
}

function count_text(x,    i) {
    if (x == "")
        return "-"
    for (i = 0; x + 0 >= 1000 && i < 5; i++)
        x /= 1000
    return i ? sprintf("%.2f %s", x, substr("kMGTP", i, 1)) : sprintf("%.0f", x)
}

function loss_text(x) {
    return x == "" ? "-" : sprintf("%.4f", x)
}

# In characters, where awk counts bytes: without those that go on with one of UTF-8.
function width_of(text) {
    gsub(/[\200-\277]/, "", text)
    return length(text)
}

# As ls prints names: what a terminal would act on is "?".
function printable(text) {
    gsub(/[\001-\037\177]/, "?", text)
    return text
}

# Cells between tabs.
function add_row(text,    k, part) {
    rows++
    split(text, part, "\t")
    for (k = 1; k <= COLUMNS; k++) {
        part[k] = printable(part[k])
        cell[rows, k] = part[k]
        if (width_of(part[k]) > width[k])
            width[k] = width_of(part[k])
    }
}

function add_run(name,    trains, left) {
    trains = phase == "running"
    left = trains && step_s != "" && last_iteration != "" ? (last_iteration - iteration) * step_s : ""
    add_row(name "\t" phase "\t" (last_iteration == "" ? "-" : iteration "/" last_iteration) "\t" \
        loss_text(loss) "\t" loss_text(valid_loss) "\t" count_text(rate) "\t" seconds_text(left) "\t" \
        seconds_text(trains && leaves_at != "" ? leaves_at - now : "") "\t" \
        (last == "" ? "-" : last ", " seconds_text(now - last_at) " ago"))
}

BEGIN {
    COLUMNS = 9
    read_systems()
    "date +%s.%N" | getline now
    add_row("run\tstate\tstep\tloss\tvalid\ttokens/s\tETA\tleft\tlast event")
}

{
    read_run($0)
    compare_with_now()
    name = $0
    sub(/.*\//, "", name)
    add_run(printable(name))
}

END {
    if (ENVIRON["facts"] != "") {
        print phase "\n" submit[system_name] "\n" cancel[system_name] (waiting == "" ? "" : "\n" waiting)
        exit
    }
    for (i = 1; i <= rows; i++) {
        for (k = 1; k < COLUMNS; k++)
            printf "%s%" width[k] - width_of(cell[i, k]) + 2 "s", cell[i, k], ""
        print cell[i, COLUMNS]
    }
}
