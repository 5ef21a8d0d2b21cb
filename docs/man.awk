# SPDX-License-Identifier: BSD-3-Clause
# docs/mds_pretrain.1 from `mds_pretrain --help`, of which it takes what the program is about and the
# examples, and then `mds_pretrain --option-table` (src/config/optset.h says what its columns are).
# -v version=
function roff(text) {
    gsub(/\\/, "\\e", text)
    gsub(/-/, "\\-", text)
    return text
}
# Words in lines of 78 bytes; none of these begins as a request does.
function put(text,    n, word, i, line) {
    n = split(roff(text), word, " ")
    for (i = 1; i <= n; i++) {
        if (line != "" && length(line " " word[i]) > 78) {
            print line
            line = ""
        }
        if (line == "" && word[i] ~ /^[.']/)
            word[i] = "\\&" word[i]
        line = line (line == "" ? "" : " ") word[i]
    }
    print line
}
# "a b(x)" as "a, b (x)"
function listed(names) {
    gsub(/ /, ", ", names)
    gsub(/\(/, " (", names)
    return names
}
BEGIN {
    print ".\\\" Generated from the table of options."
    print ".TH MDS_PRETRAIN 1 2026-11-27 \"mds " version "\" \"User Commands\""
    print ".SH NAME\nmds_pretrain \\- pre\\-train a GPT on long sequences"
    print ".SH SYNOPSIS\n.B mds_pretrain\n[option]...\n.SH DESCRIPTION"
    part = "about"
}
part == "about" && /^--help TOPIC/ { part = "options" }
part == "about" && !/^(Usage|$)/ { text = text (text == "" ? "" : " ") $0 }
part == "about" && text != "" && /^$/ {
    if (paragraphs++)
        print ".PP"
    put(text)
    text = ""
}
/^Examples:$/ { part = "examples" }
part == "examples" && /^  [^ ]/ {
    examples = examples (examples == "" ? "" : ".fi\n.RE\n.PP\n") roff(substr($0, 3)) "\n.sp\n.RS 4\n.nf\n"
}
part == "examples" && /^      / { examples = examples roff(substr($0, 7)) "\n" }
/^option\t/ {
    part = "table"
    split($0, column, "\t")
    if (column[2] != group)
        print (group == "" ? ".SH OPTIONS\n" : "") ".SS " column[2]
    group = column[2]
    gsub(/ /, "|", column[8])
    if (column[7] == "flag" || column[7] == "none")
        print ".TP\n.B " roff(column[3])
    else
        print ".TP\n.BI " roff(column[3]) " \" " roff(column[8] == "" ? column[7] : column[8]) "\""
    put(column[10] (column[9] == "" ? "" : "; default " column[9]) \
        (column[4] == "" ? "" : "; also " listed(column[4])) \
        (column[6] == "" ? "" : " [" listed(column[6]) "]"))
    if (column[5] != "")
        keys = keys ".TP\n.B " column[5] "\n" roff(column[3]) \
            (column[6] ~ /=0/ || column[7] == "none" ? "\nsets it to false" : "") "\n"
}
END {
    print ".SH ENVIRONMENT\nThe names in brackets above.\nAn option on the command line wins."
    printf ".SH CONFIGURATION KEYS\nIn files, the options have these names;\n\"a.b\" is the key b of the map a.\n%s", keys
    print ".SH EXIT STATUS"
    put("0 when the last iteration is done; 1 after a failure that would repeat (options, memory, a loss that is " \
        "not finite, an end before the last iteration without --save), which standard error explains; 75 when a " \
        "rank, node, GPU or network failed; 85 when it saved before the last iteration, because of its time or " \
        "SIGUSR1: the same command, with --load, goes on; 86 when it saved because of SIGTERM; 128 + n when " \
        "signal n ended it without --save, or a second one at once.")
    printf ".SH EXAMPLES\n%s.fi\n.RE\n", examples
}
