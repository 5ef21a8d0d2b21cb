#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Every variable of the ALCF scripts has an effect on the line that is printed: one row each,
#     NAME=VALUE... | what the line then has, a pattern of grep
# A row without it must be refused in one line that names the variable (by a value that is
# none): what always holds here, as fused attention does, changes no line.
srcdir=$(cd "${srcdir:-.}" && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch" || exit 1
mkdir bin
printf '#!/bin/sh\nexit 1\n' > bin/nvidia-smi # this host's GPUs are not the machine's
chmod +x bin/nvidia-smi
for i in 1 2 3 4 5 6 7 8; do echo "x300${i}c0s1b0n0"; done > pbs.nodes
printf 'node1\nnode2\n' > two.nodes
printf '# weight path corpus\n0.3 a_text_document a\n  # off: 9 c\n0.7 b_text_document b\n' > lr=1.txt

# line SCRIPT VARIABLE...: what it prints in an environment of those alone
line() {
    script=$1
    shift
    [ "$script" != train-gpt3.sh ] || set -- SP_TYPE=megatron "$@" # as published
    env -i PATH="$scratch/bin:$PATH" HOME="$scratch" OMP_NUM_THREADS=1 MACHINE=polaris \
        PBS_NODEFILE=pbs.nodes MODEL_SIZE_KEY=GPT13B DATA_PATH=d.h5 "$@" \
        "$srcdir/ALCF/$script" --print 2>&1 | grep -v 'mds: info'
}

rows() {
    cat << 'END'
train-gpt3.sh MODEL_SIZE_KEY=GPT6_7B | --model-size-key GPT6_7B .*--hidden-size 4096
train-gpt3.sh SEQ_LEN=4096 | --seq-length 4096
train-gpt3.sh SEQ=4096 | --seq-length 4096
train-gpt3.sh MPSIZE=16 | --tensor-model-parallel-size 16
train-gpt3.sh TP=16 | --tensor-model-parallel-size 16
train-gpt3.sh PPSIZE=2 | --tensor-model-parallel-size 16 --pipeline-model-parallel-size 2
train-gpt3.sh PP=2 | --tensor-model-parallel-size 16 --pipeline-model-parallel-size 2
train-gpt3.sh SPSIZE=2 | --ds-sequence-parallel-size 2
train-gpt3.sh SP=2 | --ds-sequence-parallel-size 2
train-gpt3.sh SP_TYPE=ds | --ds-sequence-parallel-size 32 --zero-stage 3
train-gpt3.sh SP_TYPE=megatron | --tensor-model-parallel-size 32 --sequence-parallel
train-gpt3.sh USE_SEQUENCE_PARALLEL=0 | --sequence-parallel=0
train-gpt3.sh ZERO_STAGE=1 | --zero-stage 1
train-gpt3.sh MICRO_BATCH=2 | --micro-batch-size 2
train-gpt3.sh GAS=4 | --gradient-accumulation-steps 4
train-gpt3.sh GRAD_ACC_STEPS=4 | --gradient-accumulation-steps 4
train-gpt3.sh GRADIENT_ACCUMULATION_STEPS=4 | --gradient-accumulation-steps 4
train-llama.sh MODEL_SIZE_KEY= TP=4 GRADIENT_ACCUMULATION_STEPS=4 | --gradient-accumulation-steps 4
train-gpt3.sh GLOBAL_BATCH=8 | --global-batch-size 8
train-gpt3.sh USE_FLASH_ATTN=perhaps |
train-gpt3.sh USE_FLASH_ATTN1=perhaps |
train-gpt3.sh USE_FLASH_ATTN_V1=perhaps |
train-gpt3.sh USE_FLASH_ATTN2=perhaps |
train-gpt3.sh USE_FLASH_ATTN_V2=perhaps |
train-gpt3.sh USE_FLASH_ATTN_TRITON=perhaps |
train-gpt3.sh NO_FLASH_ATTN=1 | --use-flash-attn=0
train-gpt3.sh USE_ACTIVATION_CHECKPOINTING=0 | --recompute-granularity none
train-gpt3.sh ACT_CKPT_NUM_LAYERS=2 | --checkpoint-num-layers 2
train-gpt3.sh OFFLOAD_DEVICE=none | --offload-device none
train-gpt3.sh NVME_PATH=/scratch OFFLOAD_DEVICE=nvme | --offload-device nvme .*--nvme-path /scratch
train-gpt3.sh OFFLOAD_DEVICE=nvme | --offload-device nvme --nvme-path /local/scratch
train-llama.sh MODEL_SIZE_KEY= | --model-size-key LLAMA7B .*--num-key-value-heads 8 .*--swiglu
train-llama.sh MODEL_SIZE_KEY= TP=4 DATA_PATH= DATA_FILE_LIST=lr=1.txt | --data-path 0.3 a_text_document 0.7 b_text_document
train-llama.sh MODEL_SIZE_KEY= TP=4 | --seq-length 4096 .*--tensor-model-parallel-size 4 .*--lr-decay-style cosine .*--train-tokens 10000000000 .*--dtype bf16 .*--split 990,10,0
train-llama.sh MODEL_SIZE_KEY= TP=4 NO_LLAMA=1 | --seq-length 4096 --position-embedding-type learned_absolute --normalization LayerNorm --swiglu=0 --disable-bias-linear=0
train-llama.sh MODEL_SIZE_KEY= TP=4 MODEL_ARCH=2B | --num-layers 12 .*--num-key-value-heads 4 .*--seq-length 8192
train-llama.sh MODEL_SIZE_KEY= TP=4 MODEL_ARCH=AuroraGPT-70B NLAYERS=2 | --hidden-size 8192 .*--ffn-hidden-size 28672 .*--seq-length 8192
train-llama.sh MODEL_SIZE_KEY= TP=4 MODEL_ARCH=llama3-3B NLAYERS=24 | --num-layers 24 --hidden-size 3072
train-llama.sh MODEL_SIZE_KEY= TP=4 TRAIN_SPLIT=8 VAL_SPLIT=1 TEST_SPLIT=1 | --split 8,1,1
train-llama.sh MODEL_SIZE_KEY= TP=4 CKPT_DIR=new | --save new --load new
train-llama.sh MODEL_SIZE_KEY= TP=4 CPU_OPTIMIZER=1 | --offload-device cpu
train-gpt3.sh MODEL_SIZE_KEY=GPT6_7B | --min-lr 1e-05 --lr-decay-style cosine --lr-warmup-fraction 0.01 .*--eval-iters 0
train-gpt3.sh MODEL_SIZE_KEY=GPT6_7B EVAL_INTERVAL=5 | --train-iters 10 --eval-interval 5 --dtype
train-llama.sh MODEL_SIZE_KEY= TP=4 GAS=2 WEIGHT_DECAY=0.2 TRAIN_ITER=7 | --gradient-accumulation-steps 2 .*--weight-decay 0.2 .*--train-iters 7
train-gpt3.sh DDP_IMPL=FSDP |
train-gpt3.sh OPT=lamb |
train-gpt3.sh OPTIMIZER=lamb |
train-gpt3.sh OPTIM=lamb |
train-gpt3.sh MDS_EVAL_ITERS=3 | --eval-iters 3
train-llama.sh MODEL_SIZE_KEY= TP=4 MDS_WEIGHT_DECAY=0.3 SAVE=a CKPT_DIR=new | --weight-decay 0.3 .*--save a --load new
train-gpt3.sh LR=1e-6 MIN_LR=1e-7 | --lr 1e-06 --min-lr 1e-07
train-gpt3.sh LR=1e-6 | --lr 1e-06 --lr-decay
train-gpt3.sh MIN_LR=1e-6 | --min-lr 1e-06
train-gpt3.sh ROPE_THETA=50000 | --rotary-base 50000
train-gpt3.sh TRAIN_SPLIT=9 | warn: environment: TRAIN_SPLIT is not read
train-gpt3.sh NO_LLAMA=1 | warn: environment: NO_LLAMA is not read
train-gpt3.sh NUM_LAYERS=30 | --num-layers 30
train-gpt3.sh NHEADS=32 | --num-attention-heads 32
train-gpt3.sh LR_DECAY_STYLE=linear | --lr-decay-style linear
train-gpt3.sh LR_DECAY_ITERS=9 | --lr-decay-iters 9
train-gpt3.sh LR_WARMUP_FRAC=0.05 | --lr-warmup-fraction 0.05
train-gpt3.sh WEIGHT_DECAY=0.1 | --weight-decay 0.1
train-gpt3.sh ADAM_BETA1=0.8 | --adam-beta1 0.8
train-gpt3.sh ADAM_BETA2=0.95 | --adam-beta2 0.95
train-gpt3.sh ADAM_EPS=0.001 | --adam-eps 0.001
train-gpt3.sh CLIP_GRAD=0.5 | --clip-grad 0.5
train-gpt3.sh EVAL_INTERVAL=100 | --eval-interval 100
train-gpt3.sh EVAL_ITERS=20 | --eval-iters 20
train-gpt3.sh LOG_INTERVAL=2 | --log-interval 2
train-gpt3.sh SAVE=new | --save new
train-gpt3.sh LOAD=new SAVE=new | --load new
train-gpt3.sh MODEL_TYPE=AuroraGPT-gb8-seq4096 | warn: environment: MODEL_TYPE is not read
train-gpt3.sh MODEL_SIZE_KEY= MODEL_ARCH=llama3-3B-nLayers20 TP=4 | --num-layers 20 --hidden-size 3072
train-llama.sh MODEL_SIZE_KEY= TP=4 MODEL_ARCH=nothing | error: environment MODEL_ARCH: model size 'nothing' is not in
train-gpt3.sh DATA_PATH=e.h5 | --data-path e.h5
train-gpt3.sh HOSTFILE=two.nodes | -n 8 .*--hostfile two.nodes
train-gpt3.sh NHOSTS=2 | -n 8 --ppn 4 --hosts x3001c0s1b0n0,x3002c0s1b0n0
train-gpt3.sh NGPU_PER_HOST=2 | -n 16 --ppn 2
train-gpt3.sh NGPUS=8 | -n 8 --ppn 4
train-gpt3.sh MACHINE=thetagpu | mpirun .*-npernode 8
train-gpt3.sh MACHINE=sophia | mpirun .*-npernode 8
train-gpt3.sh DTYPE=fp16 | --dtype fp16
train-gpt3.sh LR=0.1 | --lr 0.1
train-gpt3.sh TRAIN_ITERS=7 | --train-iters 7
train-gpt3.sh TRAIN_ITER=7 | --train-iters 7
train-gpt3.sh TRAIN_TOKENS=1e9 | --train-tokens 1000000000
train-gpt3.sh MDS_TRAIN_SAMPLES=1e6 | --train-samples 1000000
train-gpt3.sh SAVE_INTERVAL=9 | --save-interval 9
train-gpt3.sh NLAYERS=20 | --num-layers 20
train-gpt3.sh HIDDEN=2560 | --hidden-size 2560
train-gpt3.sh HEADS=32 | --num-attention-heads 32
train-gpt3.sh NUM_KV_HEAD=32 | --num-key-value-heads 32
train-gpt3.sh FFN_HIDDEN_SIZE=10240 | --ffn-hidden-size 10240
submit.sh QUEUE=debug PROJECT=me DURATION=0:30:00 NUM_NODES=2 | #PBS -q debug
submit.sh QUEUE=prod PROJECT=me DURATION=2:00:00 NUM_NODES=16 | #PBS -l select=16:system
submit.sh QUEUE=prod PROJECT=GenomeLM DURATION=2:00:00 NUM_NODES=16 | #PBS -A GenomeLM
submit.sh QUEUE=prod PROJECT=me DURATION=2:00:00 NUM_NODES=16 | #PBS -l walltime=02:00:00
END
}

# Defaults are those of the scripts: rows that repeat one need a base that is not it.
t=0
failed=0
rows > table
base=$(line train-gpt3.sh NOTHING=1)
while IFS='|' read -r words want; do
    script=${words%% *} words=${words#* } want=${want# }
    name=${words%%=*}
    # shellcheck disable=SC2086  # a list of words
    got=$(line "$script" ${words% })
    if [ -z "$want" ]; then
        printf '%s\n' "$got" | grep -q "error: environment: $name '"
    else
        printf '%s\n' "$got" | grep -q -e "$want" &&
            { [ "$got" != "$base" ] || [ "$name" = SP_TYPE ]; }
    fi || {
        printf 'not '
        failed=1
        printf '%s\n' "$got" | sed 's/^/# /' >&2
    }
    t=$((t + 1))
    echo "ok $t - ${words% }"
done < table
# The scripts that these stand in for train in fp16, all or on Polaris: another type is said.
said() {
    (
        unset DTYPE
        PATH="$scratch/bin:$PATH" MACHINE=polaris PBS_NODEFILE=pbs.nodes DATA_PATH=d.h5 \
            "$srcdir/ALCF/train-gpt3.sh" --print -- "$@" 2>&1
    ) | grep "^mds: info: train-gpt3.sh: numbers are .*DTYPE=fp16"
}
if ! said --lr 1e-4 > /dev/null || said --fp16; then
    printf 'not '
    failed=1
fi
t=$((t + 1))
echo "ok $t - the type of numbers, unless it was chosen"
echo "1..$t"
exit "$failed"
