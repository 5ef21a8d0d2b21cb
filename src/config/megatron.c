#include "config/options.h"

#include <stddef.h>

static const char fused[] = "what is fused changes no result, and is chosen here";
static const char made_before[] =
    "text becomes tokens before the run, by mds_data or Megatron's preprocess_data.py";
static const char mixed[] = "samples of all files are always mixed and shuffled";
static const char no_index[] = "files are mapped, and samples need no index";
static const char schedule[] = "the schedule is always that of this run's options";
static const char keyed[] = "random numbers are keyed by position and have no state";
static const char splits[] = "ALCF/train-llama.sh does; here: MDS_SPLIT=990,10,0";
static const char timers[] = "--profile measures where the time of steps goes";

/* Of megatron/arguments.py and deepspeed/__init__.py, what scripts commonly give; and
 * variables of ALCF/helpers.sh there that only a script can give a meaning. */
const struct mds_option_needless mds_megatron_needless[] = {
    {"--deepspeed", "ZeRO and offload are this program's own"},
    {"--no-pipeline-parallel", "--pipeline-model-parallel-size 1 is the default"},
    {"--use-mics", "--zero-stage 3 cuts over all ranks with the same weights"},
    {"--use-distributed-optimizer", "--zero-stage 1 is the same"},
    {"--cpu-offloading", "--cpu-offloading-num-layers by itself turns it on"},
    {"--force-ds-sequence-parallel",
     "--ds-sequence-parallel-size by itself turns it on"},
    {"--overlap-grad-reduce", "it is so without --no-overlap-grad-reduce"},
    {"--cpu-torch-adam", "--cpu-optimizer has one AdamW, its own"},
    {"--contigious-checkpointing", "buffers are laid out once, before the first step"},
    {"--distributed-backend", "it is NCCL between GPUs, else MPI"},
    {"--deepspeed_mpi", "the launcher tells each rank its place"},
    {"--local_rank", "the launcher tells each rank its place"},
    {"--local-rank", "the launcher tells each rank its place"},
    {"--accumulate-allreduce-grads-in-fp32", "gradients are always summed in fp32"},
    {"--attention-softmax-in-fp32", "softmax is always in fp32"},
    {"--no-query-key-layer-scaling", "scores are never scaled by the layer"},
    {"--no-bias-gelu-fusion", fused},
    {"--no-bias-dropout-fusion", fused},
    {"--no-masked-softmax-fusion", fused},
    {"--no-gradient-accumulation-fusion", fused},
    {"--transformer-impl", fused},
    {"--tokenizer-type", made_before},
    {"--tokenizer-model", made_before},
    {"--tokenizer-name-or-path", made_before},
    {"--trust-remote-code", made_before},
    {"--data-file-list", "--data-path takes its weights and paths: --data-path $(awk "
                         "'{print $1, $2}' FILE)"},
    {"--shuffle-sample-in-corpus", mixed},
    {"--blend-sample-in-corpus", mixed},
    {"--data-cache-path", no_index},
    {"--num-workers", no_index},
    {"--use-checkpoint-opt_param-scheduler", schedule},
    {"--override-opt_param-scheduler", schedule},
    {"--use-cpu-initialization", keyed},
    {"--no-load-rng", keyed},
    {"--no-save-rng", keyed},
    {"--recompute-method",
     "blocks are taken --checkpoint-num-layers at a time (uniform)"},
    {"--timing-log-level", timers},
    {"--profile-backward", timers},
    {"--log-timers-to-tensorboard", timers},
    {"--log-optimizer-states-to-tensorboard", "--tensorboard-dir has what there is"},
    {"TRAIN_SPLIT", splits},
    {"VAL_SPLIT", splits},
    {"TEST_SPLIT", splits},
    {"NO_LLAMA",
     "ALCF/train-llama.sh does; here a GPT is what is not asked to be else"},
    {"MODEL_ARCH", "ALCF/train-llama.sh does; here it is MODEL_SIZE_KEY"},
    {"CKPT_DIR", "ALCF/train-llama.sh does; here it is SAVE and LOAD"},
    {"DATA_FILE_LIST",
     "ALCF/train-llama.sh does; here DATA_PATH takes weights and paths"},
    {.name = NULL},
};
