# SPDX-License-Identifier: BSD-3-Clause
# For report and status: JSON lines, of one flat object each (docs/events.md).

# What a text says up to the quote that ends it.
function unquote(rest,    text, c) {
    while (match(rest, /["\\]/)) {
        text = text substr(rest, 1, RSTART - 1)
        if (substr(rest, RSTART, 1) == "\"")
            break
        c = substr(rest, RSTART + 1, 1)
        rest = substr(rest, RSTART + (c == "u" ? 6 : 2))
        text = text (c ~ /[ntu]/ ? "\t" : c)
    }
    return text
}

# Of `line`; "" if it is not there, or null.
function value(key,    at, rest) {
    at = index(line, "\"" key "\":")
    if (!at)
        return ""
    rest = substr(line, at + length(key) + 3)
    if (rest ~ /^"/)
        return unquote(substr(rest, 2))
    sub(/[,}].*/, "", rest)
    return rest == "null" ? "" : rest
}

# The next whole line of a file that is an event; "" at its end.
function next_event(path,    event) {
    while ((getline line < path) > 0)
        if (line ~ /^\{.*\}$/ && (event = value("event")) != "")
            return event
    close(path)
    return ""
}
