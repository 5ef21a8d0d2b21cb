/* SPDX-License-Identifier: BSD-3-Clause */
#include "config/options.h"

#include <stddef.h>

static const char fused[] = "fusion changes no result, and mds chooses it";
static const char made_before[] =
    "text becomes tokens before the run, by mds_data or Megatron's preprocess_data.py";
static const char mixed[] = "samples of all files are always mixed and shuffled";
static const char no_index[] = "files are mapped, and samples need no index";
static const char schedule[] = "the schedule is always that of this run's options";
static const char unlogged[] = "the log does not have it";
static const char keyed[] = "random numbers are keyed by position and have no state";
static const char splits[] =
    "only ALCF/train-llama.sh reads it; use MDS_SPLIT=990,10,0";
static const char timers[] = "--profile measures where the time of steps goes";
static const char charts[] = "--tensorboard-dir has what there is, of every step";
static const char wandb[] =
    "nothing is sent to Weights & Biases; see --tensorboard-dir and --metrics-jsonl";
static const char any_layout[] =
    "there is one format of checkpoints, which any layout resumes; mds_ckpt converts";
static const char buffers[] = "buffers are laid out once, before the first step";
static const char overlapped[] = "communication overlaps computing wherever it can";
static const char launcher[] = "mds_launch starts the ranks on the nodes of the job";
static const char requeued[] =
    "a signal ends a run in order if there is --save; jobs of mds_launch submit go on";

static const char experts[] = "such option of experts; see --num-experts";
static const char dropless[] = "no token is dropped";
static const char distillation[] = "distillation from a teacher";
static const char efficiency[] = "curriculum or dropping of tokens; see --seq-length";
static const char decay_steps[] =
    "schedule like this; --lr-decay-style WSD holds the rate and then cools down";
static const char weight_decay[] = "weight decay that changes; see --weight-decay";
static const char other_optimizers[] = "optimizer but AdamW and Muon";
static const char delayed[] =
    "delayed scaling of FP8: a tensor is scaled by its values at the time";
static const char fp8[] =
    "such option of FP8, which is for the linear layers of blocks "
    "alone; see --fp8-format";
static const char variants[] = "such variant of a block";
static const char embeddings[] =
    "initialization of embeddings apart from --init-method-std";
static const char inference[] = "inference; mds_ckpt export writes what other programs "
                                "serve";
static const char skipped_data[] = "range of samples to leave out";

/* Short words of vLLM, SGLang, NeMo and many a script.  They are no options, so that a
 * script says what it means. */
const struct mds_option_alias mds_short_words[] = {
    {"--tp", "--tensor-model-parallel-size", NULL, NULL},
    {"--tp-size", "--tensor-model-parallel-size", NULL, NULL},
    {"--tensor-parallel-size", "--tensor-model-parallel-size", NULL, NULL},
    {"--pp", "--pipeline-model-parallel-size", NULL, NULL},
    {"--pp-size", "--pipeline-model-parallel-size", NULL, NULL},
    {"--pipeline-parallel-size", "--pipeline-model-parallel-size", NULL, NULL},
    {"--cp", "--context-parallel-size", NULL, NULL},
    {"--cp-size", "--context-parallel-size", NULL, NULL},
    {"--sp", "--ds-sequence-parallel-size", NULL, NULL},
    {"--ep", "--expert-model-parallel-size", NULL, NULL},
    {"--ep-size", "--expert-model-parallel-size", NULL, NULL},
    {"--vp", "--num-layers-per-virtual-pipeline-stage", NULL, NULL},
    {"--mbs", "--micro-batch-size", NULL, NULL},
    {"--gbs", "--global-batch-size", NULL, NULL},
    {NULL, NULL, NULL, NULL},
};

/* Other spellings of options, in Megatron-DeepSpeed, newer Megatrons and ALCF's
 * scripts. */
const struct mds_option_alias mds_megatron_aliases[] = {
    {"-h", "--help", NULL, NULL},
    {"--deepspeed-config", "--deepspeed_config", NULL, NULL},
    {"MODEL_ARCH", "--model-size-key", NULL, NULL},
    {"SEQ", "--seq-length", NULL, NULL},
    {"TP", "--tensor-model-parallel-size", NULL, NULL},
    {"PP", "--pipeline-model-parallel-size", NULL, NULL},
    {"SP", "--ds-sequence-parallel-size", NULL, NULL},
    {"--moe-expert-parallel-size", "--expert-model-parallel-size", NULL, NULL},
    {"GRAD_ACC_STEPS", "--gradient-accumulation-steps", NULL, NULL},
    {"GRADIENT_ACCUMULATION_STEPS", "--gradient-accumulation-steps", NULL, NULL},
    {"TRAIN_ITER", "--train-iters", NULL, NULL},
    {"NUM_LAYERS", "--num-layers", NULL, NULL},
    {"NHEADS", "--num-attention-heads", NULL, NULL},
    {"ROPE_THETA", "--rotary-base", NULL, NULL},
    {"--rotary-position-embeddings-theta", "--rotary-base", NULL, NULL},
    {"--use-rope-scaling", "--rope-scaling-type", "llama3", NULL},
    {"--rotary-scaling-factor", "--rope-scaling-factor", NULL, NULL},
    {"OPTIMIZER", "--optimizer", NULL, NULL},
    {"OPTIM", "--optimizer", NULL, NULL},
    {"MIN_LR", "--min-lr", NULL, NULL},
    {"LR_DECAY_STYLE", "--lr-decay-style", NULL, NULL},
    {"LR_DECAY_ITERS", "--lr-decay-iters", NULL, NULL},
    {"LR_WARMUP_FRAC", "--lr-warmup-fraction", NULL, NULL},
    {"WEIGHT_DECAY", "--weight-decay", NULL, NULL},
    {"ADAM_BETA1", "--adam-beta1", NULL, NULL},
    {"ADAM_BETA2", "--adam-beta2", NULL, NULL},
    {"ADAM_EPS", "--adam-eps", NULL, NULL},
    {"CLIP_GRAD", "--clip-grad", NULL, NULL},
    {"EVAL_INTERVAL", "--eval-interval", NULL, NULL},
    {"EVAL_ITERS", "--eval-iters", NULL, NULL},
    {"LOG_INTERVAL", "--log-interval", NULL, NULL},
    {"--eval-only", "--skip-train", NULL, NULL},
    {"--learning-rate", "--lr", NULL, NULL},
    {"--batch-size", "--micro-batch-size", NULL, NULL},
    {"--model-parallel-size", "--tensor-model-parallel-size", NULL, NULL},
    {"--use-distributed-optimizer", "--zero-stage", "1", NULL},
    {"--precision", "--dtype", NULL, NULL},
    {"SAVE", "--save", NULL, NULL},
    {"LOAD", "--load", NULL, NULL},
    {"--layernorm-epsilon", "--norm-epsilon", NULL, NULL},
    {"--num-query-groups", "--num-key-value-heads", NULL, NULL},
    {"--use-rotary-position-embeddings", "--position-embedding-type", "rope", NULL},
    {"--checkpoint-activations", "--recompute-granularity", "full", NULL},
    {"--deepspeed-activation-checkpointing", "--recompute-granularity", "full", NULL},
    {"--recompute-activations", "--recompute-granularity", "selective", NULL},
    {"USE_ACTIVATION_CHECKPOINTING", "--recompute-granularity", "full", "none"},
    {"--recompute-num-layers", "--checkpoint-num-layers", NULL, NULL},
    {"--distribute-saved-activations", "--partition-activations", NULL, NULL},
    {"--distribute-checkpointed-activations", "--partition-activations", NULL, NULL},
    {"--checkpoint-in-cpu", "--cpu-checkpointing", NULL, NULL},
    {"--timeout-minutes", "--distributed-timeout-minutes", NULL, NULL},
    {"--fp16", "--dtype", "fp16", NULL},
    {"--bf16", "--dtype", "bf16", NULL},
    {"--fp8-e4m3", "--fp8-format", "e4m3", NULL},
    {"--fp8-hybrid", "--fp8-format", "hybrid", NULL},
    {"--cpu-optimizer", "--offload-device", "cpu", NULL},
    {"--scaling-base-hidden-size", "--mup-base-hidden-size", NULL, NULL},
    {"--scaling-base-head-dim", "--mup-base-head-dim", NULL, NULL},
    {"--muon-nesterov", "--muon-use-nesterov", NULL, NULL},
    {"--muon-ns-steps", "--muon-num-ns-steps", NULL, NULL},
    {"CPU_OPTIMIZER", "--offload-device", "cpu", NULL},
    {"--use-flash-attn-v1", "--use-flash-attn", NULL, NULL},
    {"--use-flash-attn-v2", "--use-flash-attn", NULL, NULL},
    {"--use-flash-attn-triton", "--use-flash-attn", NULL, NULL},
    {"--use-flash-attn-builder", "--use-flash-attn", NULL, NULL},
    {"NO_FLASH_ATTN", "--use-flash-attn", "0", NULL},
    /* Scripts turn one of these versions on and the others off. */
    {"USE_FLASH_ATTN1", "--use-flash-attn", "1", NULL},
    {"USE_FLASH_ATTN_V1", "--use-flash-attn", "1", NULL},
    {"USE_FLASH_ATTN2", "--use-flash-attn", "1", NULL},
    {"USE_FLASH_ATTN_V2", "--use-flash-attn", "1", NULL},
    {"USE_FLASH_ATTN_TRITON", "--use-flash-attn", "1", NULL},
    {.name = NULL},
};

/* Variables of the scripts that start mds_pretrain; they pass its options on. */
const char *const mds_script_variables[] = {
    "HOSTFILE", "NHOSTS",    "NGPU_PER_HOST", "NGPUS",   "QUEUE", "PROJECT",
    "DURATION", "NUM_NODES", "MDS_BUILD",     "MDS_RUN", NULL,
};

/* Of megatron/arguments.py and deepspeed/__init__.py in Megatron-DeepSpeed (Microsoft's
 * and ALCF's), and of newer Megatrons' scripts, what mds does anyway or what changes no
 * result; and variables of ALCF/helpers.sh there that only a script can give a
 * meaning. */
const struct mds_option_foreign mds_megatron_accepted[] = {
    {"--deepspeed", "ZeRO and offload are this program's own"},
    {"--no-pipeline-parallel", "--pipeline-model-parallel-size 1 is the default"},
    {"--use-mics", "--zero-stage 3 shards over all ranks with the same weights"},
    {"--cpu-offloading", "--cpu-offloading-num-layers by itself turns it on"},
    {"--force-ds-sequence-parallel",
     "--ds-sequence-parallel-size by itself turns it on"},
    {"--ds-sequence-parallel-fpdt*",
     "--attention-head-groups and --sequence-tile do the same"},
    {"--group-query-attention", "--num-query-groups by itself turns it on"},
    {"--use-mcore-models", "there is one implementation of a GPT"},
    {"--use-legacy-models", "there is one implementation of a GPT"},
    {"--fp8-wgrad", "it is on unless --no-fp8-wgrad is given"},
    {"--muon-tp-mode", "a matrix is made orthogonal as a whole, on one rank"},
    {"--moe-grouped-gemm", "experts' products are computed together"},
    {"--moe-token-dispatcher-type",
     "rows go to experts of other ranks by an exchange of what each gets"},
    {"--moe-shared-expert-overlap", "the shared expert is computed before rows travel"},
    {"--moe-permute-fusion", "rows do not leave their rank"},
    {"--moe-router-dtype", "the router computes in f32"},
    {"--moe-router-padding-for-fp8", "rows are not padded"},
    {"--disable-moe-token-dropping", dropless},
    {"--overlap-grad-reduce", "it is on unless --no-overlap-grad-reduce is given"},
    {"--overlap-p2p-communication", overlapped},
    {"--overlap-param-gather", overlapped},
    {"--tp-comm-overlap", overlapped},
    {"--no-async-tensor-model-parallel-allreduce", "see --tp-comm-chunks 1"},
    {"--use-ring-exchange-p2p", overlapped},
    {"--no-scatter-gather-tensors-in-pipeline", overlapped},
    {"--scattered-embeddings", "--sequence-parallel scatters them"},
    {"--enable-zbh1-*", "schedules are 1F1B, and interleaved with "
                        "--num-layers-per-virtual-pipeline-stage"},
    {"--standalone-embedding-stage", "stages have the same number of blocks"},
    {"--cpu-torch-adam", "--cpu-optimizer has one AdamW, its own"},
    {"--cpu_torch_adam", "--cpu-optimizer has one AdamW, its own"},
    {"--ds_fused_adam", fused},
    {"--contigious-checkpointing", buffers},
    {"--zero-contigious-gradients", buffers},
    {"--no-contiguous-buffers-in-local-ddp", buffers},
    {"--zero-reduce-bucket-size", "see --ddp-bucket-size"},
    {"--zero-allgather-bucket-size", "see --ddp-bucket-size"},
    {"--zero-reduce-scatter", "--zero-stage decides how gradients are summed"},
    {"--empty-unused-memory-level", buffers},
    {"--memory-centric-tiled-linear", "see --sequence-tile, --loss-tile"},
    {"--tile-factor", "see --sequence-tile, --loss-tile"},
    {"--split-transformers", "--recompute-granularity selective does the same"},
    {"--synchronize-each-layer", "memory is laid out before the first step"},
    {"--remote-device", "see --offload-device, --offload-param-device"},
    {"--use-pin-memory", "what is copied to a GPU is always pinned"},
    {"--lazy-mpu-init", launcher},
    {"--distributed-backend", "it is NCCL between GPUs, else MPI"},
    {"--deepspeed_mpi", "the launcher tells each rank its number"},
    {"--local_rank", "the launcher tells each rank its number"},
    {"--local-rank", "the launcher tells each rank its number"},
    {"--nnodes", launcher},
    {"--nproc*", launcher},
    {"--node_rank", launcher},
    {"--master_*", launcher},
    {"--disable-bf16-reduced-precision-matmul", "GEMMs always sum in fp32"},
    {"--accumulate-allreduce-grads-in-fp32", "gradients are always summed in fp32"},
    {"--attention-softmax-in-fp32", "softmax is always in fp32"},
    {"--embedding-weights-in-fp32", "the optimizer has fp32 weights of everything"},
    {"--fp16-lm-cross-entropy", "the loss is always in fp32"},
    {"--no-query-key-layer-scaling", "scores are never scaled by the layer"},
    {"--no-bias-gelu-fusion", fused},
    {"--no-bias-swiglu-fusion", fused},
    {"--no-bias-dropout-fusion", fused},
    {"--no-masked-softmax-fusion", fused},
    {"--no-gradient-accumulation-fusion", fused},
    {"--no-rope-fusion", fused},
    {"--calculate-per-token-loss", "the loss is always the mean over the global batch"},
    {"--cross-entropy-loss-fusion", fused},
    {"--no-persist-layer-norm", fused},
    {"--disable-mem-efficient-ln", fused},
    {"--transformer-impl", fused},
    {"--attention-backend", "it is fused unless --no-use-flash-attn is given"},
    {"--no-position-embedding", "rotary positions replace the table of positions"},
    {"--vocab-file", made_before},
    {"--merge-file", made_before},
    {"--tokenizer-type", made_before},
    {"--tokenizer-model", made_before},
    {"--tokenizer-name-or-path", made_before},
    {"--trust-remote-code", made_before},
    {"--shuffle-sample-in-corpus", mixed},
    {"--blend-sample-in-corpus", mixed},
    {"--dataloader-type", mixed},
    {"--no-data-sharding", mixed},
    {"--repeated-dataloader", "each epoch has a new order"},
    {"--data-cache-path", no_index},
    {"--num-workers", no_index},
    {"--multiprocessing-context", no_index},
    {"--mmap-warmup", no_index},
    {"--no-mmap-bin-files", no_index},
    {"--no-create-attention-mask-in-dataloader", "attention is causal without a mask"},
    {"--use-dataset-only", "--data-path takes files of tokens alone"},
    {"--override-opt_param-scheduler", schedule},
    {"--use-cpu-initialization", keyed},
    {"--no-initialization", keyed},
    {"--data-parallel-random-init", keyed},
    {"--no-load-rng", keyed},
    {"--no-save-rng", keyed},
    {"--ckpt-format", any_layout},
    {"--dist-ckpt-format", any_layout},
    {"--use-dist-ckpt", any_layout},
    {"--auto-detect-ckpt-format", any_layout},
    {"--universal-checkpoint", any_layout},
    {"--kill-switch-file", requeued},
    {"--adlr-autoresume*", requeued},
    {"--recompute-method",
     "blocks are taken --checkpoint-num-layers at a time (uniform)"},
    {"--timing-log-*", timers},
    {"--no-barrier-with-level-1-timing", timers},
    {"--profile-backward", timers},
    {"--profile-ranks", timers},
    {"--profile_steps", "see --profile-step-start, --profile-step-end"},
    {"--log-throughput", "every line has it"},
    {"--log-progress", "every line has it"},
    {"--log-timers-to-tensorboard", timers},
    {"--log-num-zeros-in-grad", unlogged},
    {"--log-params-norm", unlogged},
    {"--log-batch-size-*", charts},
    {"--log-memory-to-tensorboard", charts},
    {"--log-optimizer-states-*", charts},
    {"--log-validation-ppl-*", charts},
    {"--log-world-size-*", charts},
    {"--no-log-*", charts},
    {"--tensorboard-log-interval", charts},
    {"--tensorboard-queue-size", charts},
    {"--wandb-*", wandb},
    {"--manual-gc*", "there is no garbage collector"},
    {"TRAIN_SPLIT", splits},
    {"VAL_SPLIT", splits},
    {"TEST_SPLIT", splits},
    {"NO_LLAMA", "only ALCF/train-llama.sh reads it; the model is a GPT unless options "
                 "say otherwise"},
    {"MODEL_TYPE",
     "helpers.sh names the run by it; the model is a GPT of MODEL_SIZE_KEY"},
    {"CKPT_DIR", "only ALCF/train-llama.sh reads it; use SAVE and LOAD"},
    {"DATA_FILE_LIST",
     "only ALCF/train-llama.sh reads it; DATA_PATH takes weights and paths"},
    {.name = NULL},
};

/* Of the same flags, those without which the run would be another.  Flags for models
 * other than a GPT are unknown. */
const struct mds_option_foreign mds_megatron_unsupported[] = {
    {"--mlp-tile", "option of this name any more; see --recompute-modules mlp, "
                   "--sequence-tile"},
    {"--attention-chunk", "option of this name any more; see --attention-head-groups"},
    {"--keep-attention-layers",
     "option of this name any more; write --activation-memory attention=N"},
    {"--device-checkpoint-layers",
     "option of this name any more; write --activation-memory inputs=N"},
    {"--num-experts-*", experts},
    {"--expert-*", experts},
    {"--moe-*", experts},
    {"--mlp-type", experts},
    {"--topk", experts},
    {"--create-moe-param-group", experts},
    {"--disable-moe-top2-2nd-expert-sampling", experts},
    {"--enable-expert-tensor-parallelism", experts},
    {"--use-tutel", experts},
    {"--kd*", distillation},
    {"--mos", distillation},
    {"--load-teacher", distillation},
    {"--num-layers-teacher", distillation},
    {"--hidden-size-teacher", distillation},
    {"--num-attention-heads-teacher", distillation},
    {"--decrease-batch-size-if-needed",
     "rounding of batch sizes; give sizes that divide by micro-batch x data ranks"},
    {"--warmup", "option of this name; see --lr-warmup-fraction"},
    {"--use-checkpoint-opt_param-scheduler",
     "schedule taken from a checkpoint; give the same schedule again"},
    {"--no-load-lr-state",
     "schedule that begins anew in a resumed run; see --finetune"},
    {"--load-tag", "option of this name; --load takes the folder of one checkpoint"},
    {"--reset-iteration",
     "option of this name; --finetune begins at step 1 with the weights of --load"},
    {"--exit-on-missing-checkpoint",
     "option of this name; --load without a checkpoint is an error, but in the --save "
     "folder"},
    {"--vocab-extra-ids", "option of this name; see --vocab-size"},
    {"--aml-data-download-path",
     "option of this name; give whole paths to --data-path"},
    {"--data-file-list", "option of this name; give --data-path $(awk "
                         "'!/^#/ {print $1, $2}' FILE)"},
    {"--random-ltd", efficiency},
    {"--data-efficiency-curriculum-learning", efficiency},
    {"--return-data-index", efficiency},
    {"--train-data-exact-num-epochs", "length in epochs; see --train-samples"},
    {"--iter-per-epoch", "length in epochs; see --train-samples"},
    {"--train-desc-path", efficiency},
    {"--train-doc-idx-path", efficiency},
    {"--train-idx-path", efficiency},
    {"--train-sample-idx-path", efficiency},
    {"--train-shuffle-idx-path", efficiency},
    {"--train-iters-to-skip", skipped_data},
    {"--train-range-to-skip", skipped_data},
    {"--lr-constant-*", decay_steps},
    {"--lr-cooldown-*", decay_steps},
    {"--lr_constant_plus_cooldown*", decay_steps},
    {"--constant-lr", decay_steps},
    {"--timescale", decay_steps},
    {"--lr-finder", "search for a learning rate; see --lr"},
    {"--head-lr-mult", "learning rate of the head's own; see --lr"},
    {"--start-weight-decay", weight_decay},
    {"--end-weight-decay", weight_decay},
    {"--weight-decay-incr-style", weight_decay},
    {"--sgd-momentum", other_optimizers},
    {"--sophiag-*", other_optimizers},
    {"--muon-*", "setting of Muon but those that --help lists"},
    {"--muonadamw-*",
     "--adam-beta1, --adam-beta2 and --adam-eps are for what Muon leaves to AdamW"},
    {"--muonclip-*", "option of this name; see --qk-clip"},
    {"--mup-width-mult",
     "option of this name; it is --hidden-size / --mup-base-hidden-size"},
    {"--mup-attn-scale-power",
     "power of a head's size but 1 with --use-mup; see --mup-base-head-dim"},
    {"--scaling-*", "scaling recipe but muP; see --use-mup"},
    {"--dshampoo*", other_optimizers},
    {"--schedulefree-*", other_optimizers},
    {"--fp8-amax-*", delayed},
    {"--fp8-margin", delayed},
    {"--fp8-interval", delayed},
    {"--fp8-*", fp8},
    {"--apply-layernorm-1p", variants},
    {"--apply-residual-connection-post-layernorm", variants},
    {"--fp32-residual-connection", variants},
    {"--openai-gelu", variants},
    {"--onnx-safe", variants},
    {"--word-embedding-init-std", embeddings},
    {"--adjust-word-embedding-init", embeddings},
    {"--init-method-xavier-uniform", embeddings},
    {"--rotary-seq-len-interpolation-factor",
     "option of this name; give --rope-scaling-type linear --rope-scaling-factor"},
    {"--mscale*", "option of this name; see --rope-attention-factor"},
    {"--no-save-optim", "checkpoint without the optimizer's states; see "
                        "--export-weights"},
    {"--ds-inference", inference},
    {"--inference*", inference},
    {"--max-tokens-to-oom", inference},
    {.name = NULL},
};
