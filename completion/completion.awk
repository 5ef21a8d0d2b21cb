# SPDX-License-Identifier: BSD-3-Clause
# Completion of the command line for bash or zsh (-v shell=bash|zsh), from the programs' tables of
# options.  Each line: PROGRAM, SUBCOMMAND (or nothing), and a line of --option-table.
BEGIN {
    FS = "\t"
    quote = "'"
}

# Text between single quotes of a shell.
function quoted(text) {
    gsub(quote, quote "\\" quote quote, text)
    return quote text quote
}

# Text in a specification of zsh's _arguments.
function plain(text) {
    gsub(/\[/, "(", text)
    gsub(/\]/, ")", text)
    gsub(/[\\:]/, "\\\\&", text)
    return text
}

# An option, with what may stand behind it: a word of a list, nothing, or most likely a path.
function add_option(at, flag, value, choices, help,    action) {
    flags[at] = flags[at] " " flag
    if (choices != "")
        values[$1 " " flag] = choices
    else if (value != "none" && value != "flag")
        values[$1 " " flag] = "-"
    action = value == "none" || value == "flag" ? "" : ":" plain(value) ":" (choices != "" ? "(" choices ")" : "_files")
    specs[at] = specs[at] "\n            " quoted(flag "[" plain(help) "]" action)
}

{ at = $1 ($2 != "" ? " " $2 : "") }
!(at in seen) { seen[at] = order[++places] = at }
$3 == "option" {
    add_option(at, $5, $9, $10, $12)
    gsub(/\([^)]*\)/, "", $6)
    count = split($6, also, " ")
    for (i = 1; i <= count; i++)
        if (also[i] ~ /^--/)
            others[at] = others[at] " " also[i]
    if ($9 == "flag")
        others[at] = others[at] " --no-" substr($5, 3)
}
$3 == "subcommand" && $2 == "" {
    subcommands[$1] = subcommands[$1] " " $4
    described[$1] = described[$1] "\n            " quoted($4 ":" $5)
}
!($1 in known) { known[$1] = names = names " " $1 }

# "case" of a shell over all places: what[place] into `variable`, for which `form` has two halves.
function print_cases(what, before, after,    i) {
    for (i = 1; i <= places; i++)
        if (what[order[i]] != "")
            print "        " quoted(order[i]) ") " before what[order[i]] after " ;;"
}

function print_values(    key) {
    for (key in values)
        if (values[key] != "-")
            print "        " quoted(key) ") choices=" quoted(values[key]) " ;;" | "sort"
    close("sort")
    for (key in values)
        if (values[key] == "-")
            print "        " quoted(key) ") path=1 ;;" | "sort"
    close("sort")
}

END {
    print shell == "zsh" ? "#compdef" names : "# bash completion for mds's programs.         -*- shell-script -*-"
    print "# Made from the programs' tables of options by completion/completion.awk."
    if (shell == "zsh") {
        print "_mds_specs() {\n    case $1 in"
        print_cases(specs, "specs=(", ") ")
        print "    esac\n}\n_mds_subcommands() {\n    case $1 in"
        print_cases(described, "subcommands=(", ") ")
    } else {
        print "_mds_flags() {\n    case $1 in"
        print_cases(flags, "flags='", "'")
        print "    esac\n}\n_mds_other_flags() {\n    case $1 in"
        print_cases(others, "flags+='", "'")
        print "    esac\n}\n_mds_subcommands() {\n    case $1 in"
        print_cases(subcommands, "subcommands='", "'")
        print "    esac\n}\n_mds_value() {\n    case $1 in"
        print_values()
    }
    print "    esac\n}"
}
