# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=sh disable=SC2034,SC2154  # for those that source it
# Begins tests of jobs: small models, some tokens, and programs that are no batch systems.
# shellcheck source=tests/cli/setup.sh
. "${srcdir:?run by make check}/tests/cli/setup.sh"

for name in MACHINE HOSTFILE NHOSTS NGPU_PER_HOST NGPUS QUEUE PROJECT DURATION NUM_NODES; do
    unset "$name"
done
DATA_PATH=tokens.h5
export DATA_PATH
# Enough for a split to hold the longest sequences.
gzip -dc "$srcdir/tests/data/lambda.fna.gz" | awk '/^>/ { print; next } { all = all $0 "\n" }
    END { for (i = 0; i < 200; i++) printf "%s", all }' > many.fna
mds_data make --tokenizer codon --output tokens.h5 many.fna
cat > tiny.yaml << 'EOF'
TINY: {layers: 2, hidden: 32, heads: 2}
WIDE: {layers: 2, hidden: 64, heads: 4}
EOF
tiny='--model-table tiny.yaml --eval-iters 0 --threads 1 --log-interval 1'
# Programs that are no batch systems, but write down how they were called.
mkdir bin
cat > bin/qsub << 'EOF'
#!/bin/sh
echo "$*" >> qsub.log
echo "$(wc -l < qsub.log).polaris-pbs"
EOF
sed 's/qsub/sbatch/; s/\.polaris-pbs/;cluster/' bin/qsub > bin/sbatch
cat > bin/mpiexec << EOF
#!/bin/sh
exec $MPIEXEC "\$@"
EOF
printf '#!/bin/sh\nexit 1\n' > bin/nvidia-smi # this host's GPUs, if it has any, are not meant
chmod +x bin/*
PATH=$PWD/bin:$PATH
export PATH
