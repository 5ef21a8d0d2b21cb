# SPDX-License-Identifier: BSD-3-Clause
# nm -A -P OBJECT... | awk -f circles.awk: prints each circle among the files of one
# directory as a path, "src/io/a.c -> b.c (mds_b_open) -> a.c (mds_a_put)".  A file uses
# another if it needs a name that the other defines.

# "src/io/libmds_io_a-h5.o: mds_h5_open T 0 0" is of src/io/h5.
{
    file = $1
    sub(/\.o:$/, "", file)
    sub(/^\.\//, "", file)
    dir = file
    sub(/\/[^\/]*$/, "", dir)
    sub(/^.*\//, "", file)
    sub(/^[^-]*-/, "", file)
    file = dir "/" file
    files[file] = dir
    if ($3 == "U")
        uses[file] = uses[file] " " $2
    else if ($3 ~ /^[A-TVW]$/)
        home[dir, $2] = file
}

function base(file)
{
    sub(/^.*\//, "", file)
    return file
}

# The shortest way from a file back to itself, "" if there is none.
function circle(start,   queue, head, tail, seen, way, at, next_one, n, i)
{
    queue[tail++] = start
    way[start] = start ".c"
    while (head < tail) {
        at = queue[head++]
        n = split(needs[at], next_one, " ")
        for (i = 1; i <= n; i++) {
            if (next_one[i] == start)
                return way[at] " -> " base(start) ".c (" name[at, start] ")"
            if (next_one[i] in seen)
                continue
            seen[next_one[i]] = 1
            way[next_one[i]] = way[at] " -> " base(next_one[i]) ".c (" name[at, next_one[i]] ")"
            queue[tail++] = next_one[i]
        }
    }
    return ""
}

END {
    for (file in files) {
        n = split(uses[file], wanted, " ")
        for (i = 1; i <= n; i++) {
            to = home[files[file], wanted[i]]
            if (to == "" || to == file || (file, to) in name)
                continue
            name[file, to] = wanted[i]
            needs[file] = needs[file] " " to
        }
    }
    for (file in files)
        if ((found = circle(file)) != "")
            print found
}
