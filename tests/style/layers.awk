# SPDX-License-Identifier: BSD-3-Clause
# awk -f layers.awk LAYERS [SOURCE...]: prints what breaks the law, one line each.
# Sources are named from the root of the tree: src/MODULE/x.c, kernels/x.h.
# With -v closure=1: prints "MODULE MODULE..." instead, each module and all it may use.

function module_of(path,   part)
{
    split(path, part, "/")
    return part[1] == "src" ? part[2] : part[1]
}

function complain(what)
{
    print FILENAME ":" FNR ": " what
}

# All pairs, by Warshall's algorithm.
function close_law(   i, j, k)
{
    for (k in known)
        for (i in known)
            for (j in known)
                if ((i, k) in may && (k, j) in may)
                    may[i, j] = 1
    for (i in known)
        if ((i, i) in may)
            print LAYERS ": module " i " is above itself"
    closed = 1
}

function check_module(name,   from, to)
{
    from = module_of(FILENAME)
    to = module_of(name)
    if (name == "config.h") # the build's
        return
    if (name !~ /\//)
        complain("\"" name "\" does not say its module")
    else if (!(from in known))
        complain("module " from " is not in LAYERS")
    else if (!(to in known))
        complain("\"" name "\" is of no module in LAYERS")
    else if (from != to && !((from, to) in may))
        complain("module " from " may not include " to)
    else if (from != to && name ~ /\/internal\.h$/)
        complain("\"" name "\" belongs to module " to " alone")
}

function check_foreign(name,   i, n, place)
{
    if (name in libc || name == "config.h")
        return
    if (!(name in home)) {
        complain("<" name "> has no home in LAYERS")
        return
    }
    n = split(home[name], place, " ")
    for (i = 1; i <= n; i++)
        if (FILENAME == place[i] || index(FILENAME, place[i] "/") == 1)
            return
    complain("<" name "> is at home in " home[name] " only")
}

FNR == NR {
    LAYERS = FILENAME
    sub(/#.*/, "")
    key = $2
    sub(/:$/, "", key)
    if ($1 == "module") {
        known[key] = 1
        for (i = 3; i <= NF; i++)
            may[key, $i] = 1
    } else if ($1 == "header") {
        home[key] = $3
        for (i = 4; i <= NF; i++)
            home[key] = home[key] " " $i
    } else if ($1 == "libc:") {
        for (i = 2; i <= NF; i++)
            libc[$i] = 1
    } else if (NF > 0)
        complain("neither module, header nor libc")
    next
}

!closed { close_law() }

/^[ \t]*#[ \t]*include[ \t]*["<]/ {
    name = $0
    sub(/^[^"<]*["<]/, "", name)
    sub(/[">].*$/, "", name)
    if ($0 ~ /include[ \t]*"/)
        check_module(name)
    else
        check_foreign(name)
}

END {
    if (!closed)
        close_law()
    for (pair in may) {
        split(pair, p, SUBSEP)
        if (!(p[2] in known))
            print LAYERS ": module " p[1] " names " p[2] ", which is no module"
        below[p[1]] = below[p[1]] " " p[2]
    }
    if (closure)
        for (r in known)
            print r below[r]
}
