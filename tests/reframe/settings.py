# SPDX-License-Identifier: BSD-3-Clause
# ReFrame's systems: this host, and a Slurm.  A site gives its own settings: docs/install.md
site_configuration = {
    "systems": [
        {
            "name": "generic",
            "descr": "this host",
            "hostnames": [".*"],
            "partitions": [
                {"name": "default", "scheduler": "local", "launcher": "mpiexec", "environs": ["builtin"]},
            ],
        },
        {
            "name": "slurm",
            "descr": "a cluster with Slurm, and MPICH by PMI-2",
            "hostnames": [".*"],
            "partitions": [
                {"name": "debug", "scheduler": "squeue", "launcher": "srun", "environs": ["builtin"],
                 "access": ["--partition=debug"], "env_vars": [["SLURM_MPI_TYPE", "pmi2"]]},
            ],
        },
    ],
    "environments": [{"name": "builtin", "features": ["mpi"]}],
}
