/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared libraries that are opened when they are first needed, not when a program
 * starts: cuBLASLt alone takes 200 MB as it is loaded, and OpenBLAS makes its threads
 * before main, and never ends where they get no memory (docs/adr/0018).
 *
 * The calls of a library are a list, X(first_call) X(second_call), of which the macros
 * here make a struct of pointers, each named as the function that it points to, and
 * their names in the same order. */
#ifndef MDSK_LIBRARY_H
#define MDSK_LIBRARY_H

#define MDSK_LIBRARY_CALL(call) __typeof__(call) *call;
#define MDSK_LIBRARY_NAME(call) #call,
#define MDSK_LIBRARY_LINKED(call) .call = call,

/* Opens the library and points `calls`, a struct as above, to its functions; names ends
 * with NULL.  file: as dlopen takes it.  Returns 0, or -ENOENT, and then calls is as it
 * was. */
int mdsk_library_open(const char *file, const char *const names[], void *calls);

/* Why the last library was not opened, with its name; "" if none was refused. */
const char *mdsk_library_why(void);

#endif
