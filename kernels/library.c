/* SPDX-License-Identifier: BSD-3-Clause */
#include "kernels/library.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

static char error_text[256];

static int keep_error_text(const char *text)
{
    snprintf(error_text, sizeof error_text, "%s",
             text ? text : "a library cannot be opened");
    return -ENOENT;
}

int mdsk_library_open(const char *file, const char *const names[], void *calls)
{
    void *library = dlopen(file, RTLD_NOW | RTLD_LOCAL), *address;

    if (!library)
        return keep_error_text(dlerror());
    for (int i = 0; names[i]; i++)
        if (!dlsym(library, names[i])) {
            keep_error_text(dlerror());
            dlclose(library);
            return -ENOENT;
        }
    for (int i = 0; names[i]; i++) {
        address = dlsym(library, names[i]);
        memcpy((char *)calls + (size_t)i * sizeof address, &address, sizeof address);
    }
    return 0;
}

void mdsk_library_close(const char *file)
{
    void *library = dlopen(file, RTLD_NOW | RTLD_NOLOAD);

    if (!library)
        return;
    dlclose(library); /* what dlopen has just counted */
    dlclose(library);
}

const char *mdsk_library_error_text(void)
{
    return error_text;
}
