/* SPDX-License-Identifier: BSD-3-Clause */
#include "programs/start.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

/* A closed one is replaced by one that fails as well, the other way round: what is
 * printed there is an error as before.  open() takes the lowest number that is free. */
static void reserve_standard_descriptors(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0 &&
            open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) != fd)
            _exit(1); /* and nowhere to say so */
}

void mds_program_start(void)
{
    reserve_standard_descriptors();
    signal(SIGXFSZ, SIG_IGN);
}
