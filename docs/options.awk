# SPDX-License-Identifier: BSD-3-Clause
# docs/options.md from `mds_pretrain --option-table` (src/config/optset.h says what its columns are).
BEGIN {
    FS = "\t"
    print "# Each option by its names"
    print ""
    print "An option has the same meaning and the same values on the command line, where names are Megatron's if it has the option,"
    print "in a file for `--config`, and in the environment, where names are those of the ALCF scripts if these have them."
    print "`mds_pretrain --help TOPIC` says what an option does and `--show-config` where each value comes from."
    print "`a.b` is the key `b` of the map `a`. `--cpu-optimizer` (cpu) is a flag that stands for the value cpu. Options that are on or off"
    print "are turned off by `no-` before their name, as in `--no-use-flash-attn`. This page is made from the table of options that the program reads."
}
function code(names,    n, list, i, out) {
    n = split(names, list, " ")
    for (i = 1; i <= n; i++)
        out = out (i > 1 ? " " : "") "`" list[i] "`"
    gsub(/\(/, "` (", out)
    gsub(/\)`/, ")", out)
    return out
}
$1 == "option" {
    if ($2 != group)
        print "\n## " $2 "\n\n| option | also | in a file | variables | values | default |\n|---|---|---|---|---|---|"
    group = $2
    values = $8 != "" ? code($8) : $7 == "flag" ? "on, off" : $7 == "none" ? "" : $7
    gsub(/\|/, "\\|", values)
    print "| " code($3) " | " code($4) " | " code($5) " | " code($6) " | " values " | " code($9) " |"
}
