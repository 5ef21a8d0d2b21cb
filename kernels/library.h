/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared libraries that are opened when they are first needed, not when a program
 * starts: loading cuBLASLt alone takes 200 MB, and OpenBLAS starts its threads before
 * main and hangs if they get no memory (docs/adr/0018).
 *
 * The functions used from a library are listed as X(first_call) X(second_call).  From
 * that list the macros below make a struct of function pointers with the same names,
 * and an array of those names in the same order. */
#ifndef MDSK_LIBRARY_H
#define MDSK_LIBRARY_H

#define MDSK_LIBRARY_CALL(call) __typeof__(call) *call;
#define MDSK_LIBRARY_NAME(call) #call,
#define MDSK_LIBRARY_LINKED(call) .call = call,

/* Open the library `file` (a name for dlopen) and fill `calls`, a struct as above, with
 * its functions; names ends with NULL.  Returns 0, or -ENOENT with calls unchanged. */
int mdsk_library_open(const char *file, const char *const names[], void *calls);

/* Undo one open: none of its functions may be called any more. */
void mdsk_library_close(const char *file);

/* Why the last library could not be opened, with its name; "" if none failed.
 * Static. */
const char *mdsk_library_error_text(void);

#endif
