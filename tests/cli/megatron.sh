# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=sh  # for those that source it
# megatron NAME AWK: NAME.bin and NAME.idx of 20 documents of 100 ids; AWK sets id, by i and d
megatron() {
    # shellcheck disable=SC2059  # octal escapes
    printf "$(awk "BEGIN { for (d = 0; d < 20; d++) for (i = 0; i < 100; i++) {
        $2; printf \"\\\\%03o\\\\%03o\", id % 256, int(id / 256) } }")" >"$1.bin"
    megatron_index "$1" 20 100
}
# megatron_index NAME DOCUMENTS IDS: NAME.idx of so many documents, of so many ids each
megatron_index() {
    # shellcheck disable=SC2059
    printf "$(awk -v docs="$2" -v ids="$3" 'function put(n, bytes) {
            while (bytes--) { printf "\\%03o", n % 256; n = int(n / 256) }
        }
        BEGIN {
            printf "MMIDIDX\\0\\0"; put(1, 8); put(8, 1); put(docs, 8); put(docs + 1, 8)
            for (d = 0; d < docs; d++) put(ids, 4)
            for (d = 0; d < docs; d++) put(2 * ids * d, 8)
            for (d = 0; d <= docs; d++) put(d, 8)
        }')" >"$1.idx"
}
