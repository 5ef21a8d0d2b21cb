/* SPDX-License-Identifier: BSD-3-Clause */
/* Build ids of this program and of the libraries that it has loaded. */
#include "train/preflight.h"

#include <link.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* The build id that the linker put into a note, in hex; "" if there is none.  It is
 * read from memory, so that a thousand nodes do not open the files at the same time. */
static void read_build_id(const char *note, size_t size, char *text, size_t text_size)
{
    const size_t head = sizeof(ElfW(Nhdr));

    for (size_t at = 0; at + head <= size;) {
        ElfW(Nhdr) n;
        size_t name, end;

        memcpy(&n, note + at, head);
        name = (n.n_namesz + 3u) & ~(size_t)3;
        end = at + head + name + ((n.n_descsz + 3u) & ~(size_t)3);
        if (end > size)
            return;
        if (n.n_type == NT_GNU_BUILD_ID && n.n_namesz == 4 &&
            memcmp(note + at + head, "GNU", 4) == 0) {
            const unsigned char *id = (const unsigned char *)note + at + head + name;

            for (size_t i = 0; i < n.n_descsz && 2 * i + 3 <= text_size; i++)
                snprintf(text + 2 * i, 3, "%02x", id[i]);
            return;
        }
        at = end;
    }
}

/* For dl_iterate_phdr: add a line with the file's name without its folder, its build
 * id, and its length in memory (for files without a build id). */
static int add_file(struct dl_phdr_info *info, size_t size, void *out)
{
    const char *slash = strrchr(info->dlpi_name, '/');
    const char *name = slash ? slash + 1 : info->dlpi_name;
    unsigned long long length = 0;
    char id[24] = "";

    (void)size;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];

        if (p->p_type == PT_LOAD)
            length = p->p_vaddr + p->p_memsz;
        if (p->p_type == PT_NOTE && !*id)
            read_build_id((const char *)info->dlpi_addr + p->p_vaddr, p->p_memsz, id,
                          sizeof id);
    }
    if (strncmp(name, "linux-vdso", 10) != 0) /* the kernel's */
        mds_str_add(out, "%s build %s/%llx\n", *name ? name : "mds_pretrain", id,
                    length);
    return 0;
}

void mds_software_lines(struct mds_str *out)
{
    dl_iterate_phdr(add_file, out);
}
