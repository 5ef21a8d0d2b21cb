/* SPDX-License-Identifier: BSD-3-Clause */
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
static const char charts[] = "--tensorboard-dir has what there is, of every step";
static const char wandb[] =
    "nothing is sent to Weights & Biases; see --tensorboard-dir and --metrics-jsonl";
static const char any_layout[] =
    "there is one format of checkpoints, which any layout resumes; mds_ckpt converts";
static const char buffers[] = "buffers are laid out once, before the first step";
static const char overlapped[] = "communication overlaps computing wherever it can";
static const char launcher[] = "mds_launch starts the ranks on the nodes of the job";
static const char requeued[] =
    "--exit-signal-handler ends a run in order; jobs of mds_launch submit go on";

static const char experts[] =
    "mixture of experts (a dense model, of 1 expert, needs no such option)";
static const char distillation[] = "distillation from a teacher";
static const char efficiency[] = "curriculum or dropping of tokens; see --seq-length";
static const char decay_steps[] =
    "schedule like this; --lr-decay-style WSD holds the rate and then cools down";
static const char weight_decay[] = "weight decay that changes; see --weight-decay";
static const char other_optimizers[] = "optimizer but AdamW";
static const char fp8[] = "FP8; see --bf16";
static const char variants[] = "such variant of a block";
static const char embeddings[] =
    "initialization of embeddings apart from --init-method-std";
static const char documents[] =
    "handling of the ends of documents inside of a window; they are tokens as others";
static const char other_models[] = "model but a GPT";
static const char inference[] = "inference; mds_ckpt export writes what other programs "
                                "serve";
static const char skipped_data[] = "range of samples to leave out";

/* Of megatron/arguments.py and deepspeed/__init__.py in Megatron-DeepSpeed (Microsoft's
 * and ALCF's) all that is not understood here and changes nothing; what scripts for
 * newer Megatrons commonly give; and variables of ALCF/helpers.sh there that only a
 * script can give a meaning. */
const struct mds_option_foreign mds_megatron_ignored[] = {
    {"--deepspeed", "ZeRO and offload are this program's own"},
    {"--no-pipeline-parallel", "--pipeline-model-parallel-size 1 is the default"},
    {"--use-mics", "--zero-stage 3 cuts over all ranks with the same weights"},
    {"--use-distributed-optimizer", "--zero-stage 1 is the same"},
    {"--cpu-offloading", "--cpu-offloading-num-layers by itself turns it on"},
    {"--force-ds-sequence-parallel",
     "--ds-sequence-parallel-size by itself turns it on"},
    {"--ds-sequence-parallel-fpdt*",
     "--attention-chunk and --sequence-tile do the same"},
    {"--group-query-attention", "--num-query-groups by itself turns it on"},
    {"--use-mcore-models", "there is one implementation of a GPT"},
    {"--use-legacy-models", "there is one implementation of a GPT"},
    {"--overlap-grad-reduce", "it is so without --no-overlap-grad-reduce"},
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
    {"--memory-centric-tiled-linear", "see --sequence-tile, --mlp-tile, --loss-tile"},
    {"--tile-factor", "see --sequence-tile, --mlp-tile, --loss-tile"},
    {"--split-transformers", "--recompute-granularity selective does the same"},
    {"--synchronize-each-layer", "the memory that kept inputs need is known before"},
    {"--remote-device", "see --offload-device, --offload-param-device"},
    {"--use-pin-memory", "what is copied to a GPU is always pinned"},
    {"--lazy-mpu-init", launcher},
    {"--distributed-backend", "it is NCCL between GPUs, else MPI"},
    {"--deepspeed_mpi", "the launcher tells each rank its place"},
    {"--local_rank", "the launcher tells each rank its place"},
    {"--local-rank", "the launcher tells each rank its place"},
    {"--nnodes", launcher},
    {"--nproc*", launcher},
    {"--node_rank", launcher},
    {"--master_*", launcher},
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
    {"--attention-backend", "it is fused without --no-use-flash-attn"},
    {"--no-position-embedding", "--use-rotary-position-embeddings replaces the table; "
                                "without positions: --position-embedding-type none"},
    {"--tokenizer-type", made_before},
    {"--tokenizer-model", made_before},
    {"--tokenizer-name-or-path", made_before},
    {"--trust-remote-code", made_before},
    {"--vocab-extra-ids", made_before},
    {"--aml-data-download-path", "--data-path is read where it lies"},
    {"--data-file-list", "--data-path takes its weights and paths: --data-path $(awk "
                         "'{print $1, $2}' FILE)"},
    {"--shuffle-sample-in-corpus", mixed},
    {"--blend-sample-in-corpus", mixed},
    {"--dataloader-type", mixed},
    {"--no-data-sharding", mixed},
    {"--repeated-dataloader", "data are gone through again in a new order"},
    {"--data-cache-path", no_index},
    {"--num-workers", no_index},
    {"--multiprocessing-context", no_index},
    {"--mmap-warmup", no_index},
    {"--no-mmap-bin-files", no_index},
    {"--no-create-attention-mask-in-dataloader", "attention is causal without a mask"},
    {"--use-dataset-only", "--data-path takes files of tokens alone"},
    {"--use-checkpoint-opt_param-scheduler", schedule},
    {"--override-opt_param-scheduler", schedule},
    {"--no-load-lr-state", schedule},
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
    {"--load-tag", "--load takes the folder of one checkpoint, too"},
    {"--reset-iteration", "--finetune begins at step 1 with the weights of --load"},
    {"--exit-on-missing-checkpoint",
     "--load without a checkpoint is an error, but in the --save folder"},
    {"--kill-switch-file", requeued},
    {"--adlr-autoresume*", requeued},
    {"--recompute-method",
     "blocks are taken --checkpoint-num-layers at a time (uniform)"},
    {"--batch-size", "it is --micro-batch-size now"},
    {"--warmup", "it is --lr-warmup-fraction now"},
    {"--model-parallel-size", "it is --tensor-model-parallel-size now"},
    {"--timing-log-*", timers},
    {"--no-barrier-with-level-1-timing", timers},
    {"--profile-backward", timers},
    {"--profile-ranks", timers},
    {"--profile_steps", "see --profile-step-start, --profile-step-end"},
    {"--log-throughput", "every line has it"},
    {"--log-progress", "every line has it"},
    {"--log-timers-to-tensorboard", timers},
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
    {"NO_LLAMA",
     "ALCF/train-llama.sh does; here a GPT is what is not asked to be else"},
    {"MODEL_TYPE",
     "helpers.sh names the run by it; the model is a GPT of MODEL_SIZE_KEY"},
    {"CKPT_DIR", "ALCF/train-llama.sh does; here it is SAVE and LOAD"},
    {"DATA_FILE_LIST",
     "ALCF/train-llama.sh does; here DATA_PATH takes weights and paths"},
    {.name = NULL},
};

/* Of the same flags, those without which the run would be another. */
const struct mds_option_foreign mds_megatron_unsupported[] = {
    {"--num-experts*", experts},
    {"--expert-*", experts},
    {"--moe-*", experts},
    {"--mlp-type", experts},
    {"--topk", experts},
    {"--create-moe-param-group", experts},
    {"--disable-moe-*", experts},
    {"--enable-expert-tensor-parallelism", experts},
    {"--use-tutel", experts},
    {"--kd*", distillation},
    {"--mos", distillation},
    {"--load-teacher", distillation},
    {"--num-layers-teacher", distillation},
    {"--hidden-size-teacher", distillation},
    {"--num-attention-heads-teacher", distillation},
    {"--rampup-batch-size", "batch that grows; see --global-batch-size"},
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
    {"--muon*", other_optimizers},
    {"--dshampoo*", other_optimizers},
    {"--schedulefree-*", other_optimizers},
    {"--fp8-*", fp8},
    {"--no-fp8-*", fp8},
    {"--apply-layernorm-1p", variants},
    {"--apply-residual-connection-post-layernorm", variants},
    {"--fp32-residual-connection", variants},
    {"--openai-gelu", variants},
    {"--onnx-safe", variants},
    {"--add-qkv-bias", variants},
    {"--word-embedding-init-std", embeddings},
    {"--adjust-word-embedding-init", embeddings},
    {"--init-method-xavier-uniform", embeddings},
    {"--reset-position-ids", documents},
    {"--reset-attention-mask", documents},
    {"--no-save-optim", "checkpoint without the optimizer's states; see "
                        "--export-weights"},
    {"--log-num-zeros-in-grad", "count of zeros in gradients"},
    {"--log-params-norm", "norm of the weights in the log"},
    {"--ds-inference", inference},
    {"--inference*", inference},
    {"--max-tokens-to-oom", inference},
    {"--encoder-*", other_models},
    {"--decoder-*", other_models},
    {"--pipeline-model-parallel-split-rank", other_models},
    {"--bert-*", other_models},
    {"--output-bert-embeddings", other_models},
    {"--biencoder-*", other_models},
    {"--ict-*", other_models},
    {"--retro-*", other_models},
    {"--retriever-*", other_models},
    {"--indexer-*", other_models},
    {"--block-data-path", other_models},
    {"--embedding-path", other_models},
    {"--evidence-data-path", other_models},
    {"--titles-data-path", other_models},
    {"--query-in-block-prob", other_models},
    {"--use-one-sent-docs", other_models},
    {"--mask-*", other_models},
    {"--short-seq-prob", other_models},
    {"--sample-rate", other_models},
    {"--vision-*", other_models},
    {"--swin-*", other_models},
    {"--dino-*", other_models},
    {"--img-*", other_models},
    {"--patch-dim", other_models},
    {"--num-channels", other_models},
    {"--num-classes", other_models},
    {"--classes-fraction", other_models},
    {"--data-per-class-fraction", other_models},
    {.name = NULL},
};
