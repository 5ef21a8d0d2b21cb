/* SPDX-License-Identifier: BSD-3-Clause */
/* The rows of options.c about how a run works, where it reads and what it leaves:
 * memory and speed, data, output, checkpoints.  Part of the table there, for no other
 * file; clang-format cannot read rows without their table. */
/* clang-format off */
    {memory, "train.device", "--device", "MDS_DEVICE", MDS_OPT_STRING, "auto", 0, 0,
     devices, AT(output.device), "device",
     .help = "device to train on; auto: a GPU if this build and this node have one"},
    {memory, "model.dtype", "--dtype", "DTYPE", MDS_OPT_ENUM, "fp32", 0, 0,
     mds_number_type_names, AT(train.type), "type",
     .help = "type of weights and activations; with bf16 and fp16 the optimizer also "
             "has fp32 weights"},
    {memory, "model.fp8_format", "--fp8-format", "MDS_FP8_FORMAT", MDS_OPT_ENUM, "none",
     0, 0, mds_fp8_format_names, AT(model.fp8.format), "format",
     .help = "with bf16, compute the blocks' linear layers in FP8: hybrid has E4M3 for "
             "weights and activations and E5M2 for gradients, e4m3 has E4M3 for all"},
    {memory, "model.fp8_recipe", "--fp8-recipe", "MDS_FP8_RECIPE", MDS_OPT_ENUM,
     "tensorwise", 0, 0, fp8_recipes, AT(model.fp8.recipe), "recipe",
     .help = "how tensors are scaled to FP8's range: by one power of two each, from "
             "their values at the time"},
    {memory, "model.fp8_wgrad", "--no-fp8-wgrad", "MDS_FP8_WGRAD", MDS_OPT_FLAG, "1", 0,
     0, NULL, AT(model.fp8.wgrad), NULL,
     "with --fp8-format, compute the gradients of weights in bf16", .inverted = 1},
    {memory, "model.first_last_layers_bf16", "--first-last-layers-bf16",
     "MDS_FIRST_LAST_LAYERS_BF16", MDS_OPT_FLAG, "0", 0, 0, NULL,
     AT(model.fp8.first_last_bf16), NULL,
     .help = "with --fp8-format, compute the first and last blocks in bf16"},
    {memory, "model.layers_at_start_in_bf16", "--num-layers-at-start-in-bf16",
     "MDS_NUM_LAYERS_AT_START_IN_BF16", MDS_OPT_COUNT, "1", 0, 1e5, NULL,
     AT(model.fp8.start_bf16), "layers",
     .help = "with --first-last-layers-bf16, how many blocks at the start"},
    {memory, "model.layers_at_end_in_bf16", "--num-layers-at-end-in-bf16",
     "MDS_NUM_LAYERS_AT_END_IN_BF16", MDS_OPT_COUNT, "1", 0, 1e5, NULL,
     AT(model.fp8.end_bf16), "layers", .help = "the same at the end"},
    {memory, "train.activation_memory", "--activation-memory", "MDS_ACTIVATION_MEMORY",
     MDS_OPT_STRING, NULL, 0, 1e5, act_words, AT(train.activation_memory), "level",
     .help = "what blocks save for the backward pass: 0 saves all and is fastest, each "
             "higher level needs less memory and takes longer; auto: the lowest that "
             "fits the device, by dry run; --show-config says which of the options "
             "below it stands for. Behind a comma, or beside those options: "
             "attention=N: with full recompute and tiles, N blocks at the end of a "
             "stage save attention's result on the device instead of recomputing it; "
             "inputs=N: with tiles and saved inputs on the host, those of N blocks at "
             "the end of a stage stay on the device",
     .list = 1},
    {memory, "train.recompute", "--recompute-granularity", "MDS_RECOMPUTE_GRANULARITY",
     MDS_OPT_ENUM, "none", 0, 0, mds_recompute_names, AT(train.act.recompute), "what",
     .help = "what the backward pass recomputes instead of saving it: selective: "
             "everything but attention, or only what --recompute-modules names; full: "
             "everything but the inputs of blocks"},
    {memory, "train.recompute_modules", "--recompute-modules", "MDS_RECOMPUTE_MODULES",
     MDS_OPT_SET, NULL, 0, 0, modules, AT(train.act.recompute_modules), "modules",
     .help = "with selective recompute, recompute only the results of the norms "
             "(layernorm), of the MLP's activation function (mlp_act), or all of the "
             "MLP (mlp)"},
    {memory, "train.recompute_layers", "--checkpoint-num-layers", "ACT_CKPT_NUM_LAYERS",
     MDS_OPT_INT, "1", 1, 1e5, NULL, AT(train.act.recompute_layers), "layers",
     .help = "with full recompute, blocks per saved input"},
    {memory, "train.partition_activations", "--partition-activations",
     "MDS_PARTITION_ACTIVATIONS", MDS_OPT_FLAG, "0", 0, 0, NULL,
     AT(train.act.partition_activations), NULL,
     .help = "with full recompute, each tensor rank saves its shard of each input"},
    {memory, "train.offload_activations", "--cpu-checkpointing",
     "MDS_CPU_CHECKPOINTING", MDS_OPT_FLAG, "0", 0, 0, NULL,
     AT(train.act.offload_activations), NULL,
     .help = "offload what recompute saves to host memory: blocks' inputs, and with "
             "--sequence-tile and selective recompute attention's results"},
    {memory, "train.offload_layers", "--cpu-offloading-num-layers",
     "MDS_CPU_OFFLOADING_NUM_LAYERS", MDS_OPT_COUNT, "0", 0, 1e5, NULL,
     AT(train.act.offload_layers), "layers",
     .help = "blocks of a stage whose activations are in host memory from forward to "
             "backward; without recompute, or with that of --recompute-modules; of "
             "`mds_infer generate`, whose keys and values are"},
    {memory, "train.sequence_tile", "--sequence-tile", "MDS_SEQUENCE_TILE",
     MDS_OPT_COUNT, "0", 0, 1e10, NULL, AT(train.act.sequence_tile), "tokens",
     .help = "with full or selective recompute, compute blocks (outside attention), "
             "head and loss for this many tokens at a time; 0: for all of a "
             "micro-batch"},
    {memory, "train.attention_head_groups", "--attention-head-groups",
     "MDS_ATTENTION_HEAD_GROUPS", MDS_OPT_COUNT, "1", 1, 1e5, NULL,
     AT(train.act.head_groups), "groups",
     .help = "with --sequence-tile, compute q, k, v, attention and their gradients for "
             "one group of heads at a time, in at most this many groups of equal size; "
             "1: for all heads at once"},
    {memory, "train.loss_tile", "--loss-tile", "MDS_LOSS_TILE", MDS_OPT_COUNT, "16384",
     0, 1e10, NULL, AT(train.act.loss_tile), "tokens",
     .help = "compute logits for this many tokens at a time; 0: for all of a "
             "micro-batch"},
    {memory, "train.bucket_bytes", "--ddp-bucket-size", "MDS_DDP_BUCKET_SIZE",
     MDS_OPT_BYTES, "32MiB", 4096, 1e15, NULL, AT(train.bucket_bytes), "bytes",
     .help = "gradients per all-reduce"},
    {memory, "train.overlap_grad_reduce", "--no-overlap-grad-reduce",
     "MDS_OVERLAP_GRAD_REDUCE", MDS_OPT_FLAG, "1", 0, 0, NULL,
     AT(train.overlap_grad_reduce), NULL,
     "reduce gradients after the backward pass, not during it", .inverted = 1},
    {memory, "train.threads", "--threads", "MDS_THREADS", MDS_OPT_INT, "0", 0, 4096,
     NULL, AT(train.threads), "threads",
     .help = "threads per rank; 0: the node's cores / its ranks"},
    {memory, "model.flash_attn", "--use-flash-attn", "USE_FLASH_ATTN", MDS_OPT_FLAG,
     "1", 0, 0, NULL, AT(train.flash_attn), NULL,
     .help = "fused attention, without an S x S matrix; --no-use-flash-attn: unfused "
             "GEMMs and softmax instead, to compare with or where it fails; slower, "
             "with the scores of some queries at a time in memory"},
    {memory, "train.preflight", "--preflight", "MDS_PREFLIGHT", MDS_OPT_FLAG, "0", 0, 0,
     NULL, AT(train.preflight), NULL,
     .help = "before training, check and compare all nodes: versions, GPUs, memory, "
             "folders, and collectives over the layout's groups; a fault ends the run"},
    {memory, "train.preflight_only", "--preflight-only", "MDS_PREFLIGHT_ONLY",
     MDS_OPT_FLAG, "0", 0, 0, NULL, AT(train.preflight_only), NULL,
     .help = "do only these checks, print the table and exit; needs no data "
             "(mds_launch check)"},
    {memory, "train.comm_check", "--comm-check", "MDS_COMM_CHECK", MDS_OPT_FLAG, "0", 0,
     0, NULL, AT(train.comm_check), NULL,
     .help = "before each collective check that all ranks call the same one; slow, for "
             "debugging"},
    {memory, "train.deterministic", "--deterministic-mode", "MDS_DETERMINISTIC_MODE",
     MDS_OPT_FLAG, "0", 0, 0, NULL, AT(train.deterministic), NULL,
     .help = "GPUs: the same bits in every run on the same machine, but slower; CPUs "
             "always "
             "give the same bits"},
    {memory, "train.profile", "--profile", "MDS_PROFILE", MDS_OPT_FLAG, "0", 0, 0, NULL,
     AT(train.profile), NULL,
     .help = "measure some steps, operation by operation, and print where their time "
             "goes; these steps take some microseconds more per operation"},
    {memory, "train.profile_start", "--profile-step-start", "MDS_PROFILE_STEP_START",
     MDS_OPT_COUNT, "10", 0, 1e12, NULL, AT(train.profile_start), "step",
     .help = "--profile measures the steps after this one"},
    {memory, "train.profile_end", "--profile-step-end", "MDS_PROFILE_STEP_END",
     MDS_OPT_COUNT, "12", 1, 1e12, NULL, AT(train.profile_end), "step",
     .help = "the last step that --profile measures"},
    {memory, "train.dry_run", "--dry-run", "MDS_DRY_RUN", MDS_OPT_FLAG, "0", 0, 0, NULL,
     AT(train.dry_run), NULL,
     .help = "print what a step of one rank would need and send, and exit; needs no "
             "MPI, no device and no data"},
    {memory, "train.show_step", "--show-step", "MDS_SHOW_STEP", MDS_OPT_FLAG, "0", 0, 0,
     NULL, AT(train.show_step), NULL,
     .help =
         "with --dry-run: also print what a block computes, operation by operation"},
    {memory, "train.dry_world", "--world-size", "MDS_WORLD_SIZE", MDS_OPT_COUNT, "0", 0,
     1e8, NULL, AT(train.dry_world), "ranks",
     .help = "number of ranks for --dry-run and --show-config; 0: the fewest"},
    {memory, "train.dry_rank", "--dry-run-rank", "MDS_DRY_RUN_RANK", MDS_OPT_COUNT, "0",
     0, 1e8, NULL, AT(train.dry_rank), "rank", .help = "rank that --dry-run simulates"},

    {data, "data.paths", "--data-path", "DATA_PATH", MDS_OPT_WORDS, NULL, 0, 0, NULL,
     AT(data.paths), "path...",
     .help =
         "token file of mds_data or Megatron's .bin/.idx without suffix; or several, "
         "each after its weight"},
    {data, "data.split", "--split", "MDS_SPLIT", MDS_OPT_STRING, MDS_DEFAULT_SPLIT, 0,
     0, NULL, AT(data.split), "n,n,n",
     .help = "proportions of training, validation and test in --data-path"},
    {data, "data.split_at", "--split-at", "MDS_SPLIT_AT", MDS_OPT_ENUM, "auto", 0, 0,
     mds_split_at_names, AT(data.split_at), NULL,
     .help = "where --split cuts; auto: text between documents, genomes within them; a "
             "resumed run cuts as its checkpoint says"},
    {data, "data.pack_documents", "--pack-documents", "MDS_PACK_DOCUMENTS",
     MDS_OPT_ENUM, "auto", 0, 0, pack_names, AT(data.pack_documents), NULL,
     .help =
         "on: a sample is a row of whole documents, packed by best fit, that do not "
         "attend to each other (this sets three options below); off: a sample is a "
         "window, which may cross documents; auto: on if a file of mds_data has "
         "several documents and none of the three is set; a resumed run goes on as its "
         "checkpoint says"},
    {data, "data.random_reverse_complement", "--random-reverse-complement",
     "MDS_RANDOM_REVERSE_COMPLEMENT", MDS_OPT_FLAG, "0", 0, 0, NULL,
     AT(data.random_reverse_complement), NULL,
     .help = "read half of the training samples of DNA, chosen by --seed and the "
             "sample's number, on the other strand"},
    {data, "data.window_stride", "--window-stride", "MDS_WINDOW_STRIDE", MDS_OPT_COUNT,
     "0", 0, 1e10, NULL, AT(data.window_stride), "tokens",
     .help =
         "with --pack-documents on: windows of a document longer than a row start so "
         "many tokens apart and overlap; each token is a target once; 0: they do "
         "not overlap"},
    {data, "data.reset_attention_mask", "--reset-attention-mask",
     "MDS_RESET_ATTENTION_MASK", MDS_OPT_FLAG, "0", 0, 0, NULL,
     AT(data.reset_attention_mask), NULL,
     .help = "tokens attend only within their own document"},
    {data, "data.reset_position_ids", "--reset-position-ids", "MDS_RESET_POSITION_IDS",
     MDS_OPT_FLAG, "0", 0, 0, NULL, AT(data.reset_position_ids), NULL,
     .help = "positions, learned or rotary, start at 0 in each document"},
    {data, "data.eod_mask_loss", "--eod-mask-loss", "MDS_EOD_MASK_LOSS", MDS_OPT_FLAG,
     "0", 0, 0, NULL, AT(data.eod_mask_loss), NULL,
     .help = "no loss where the target is the first token of a document"},
    {data, "data.train_paths", "--train-data-path", "MDS_TRAIN_DATA_PATH",
     MDS_OPT_WORDS, NULL, 0, 0, NULL, AT(data.train_paths), "path...",
     .help = "instead of --data-path: files that are used for training as a whole"},
    {data, "data.valid_paths", "--valid-data-path", "MDS_VALID_DATA_PATH",
     MDS_OPT_WORDS, NULL, 0, 0, NULL, AT(data.valid_paths), "path...",
     .help = "with --train-data-path: files for validation"},
    {data, "data.test_paths", "--test-data-path", "MDS_TEST_DATA_PATH", MDS_OPT_WORDS,
     NULL, 0, 0, NULL, AT(data.test_paths), "path...",
     .help = "with --train-data-path: files for test"},
    {data, "data.impl", "--data-impl", "MDS_DATA_IMPL", MDS_OPT_ENUM, "mmap", 0, 0,
     data_impls, MDS_OPT_UNSTORED, "kind",
     "the format is detected from the file, which is memory-mapped", .always = 1},

    {output, "train.log_interval", "--log-interval", "MDS_LOG_INTERVAL", MDS_OPT_COUNT,
     "0", 0, 1e12, NULL, AT(train.log_interval), "steps",
     .help = "steps between log lines; 0: ten, or a fifth of a shorter run"},
    {output, "train.log_logits", "--log-max-attention-logit",
     "MDS_LOG_MAX_ATTENTION_LOGIT", MDS_OPT_FLAG, "0", 0, 0, NULL, AT(train.log_logits),
     NULL, .help = "log how large attention's logits get; --qk-clip does so anyway"},
    {output, "output.log_format", "--log-format", "MDS_LOG_FORMAT", MDS_OPT_ENUM,
     "auto", 0, 0, log_format_names, AT(output.log_format), "form",
     .help = "of the line of a step, and of an evaluation: megatron, or short, to be "
             "read by people; auto: short on a terminal, also by mds_launch"},
    {output, "output.log_experts", "--moe-per-layer-logging",
     "MDS_MOE_PER_LAYER_LOGGING", MDS_OPT_FLAG, "0", 0, 0, NULL, AT(output.log_experts),
     NULL,
     .help = "log the router's losses, and in --metrics-jsonl and --tensorboard-dir "
             "load and losses of each block with experts"},
    {output, "output.metrics_jsonl", "--metrics-jsonl", "MDS_METRICS_JSONL",
     MDS_OPT_STRING, NULL, 0, 0, NULL, AT(output.metrics_jsonl), "file",
     .help = "a JSON line per step; a resumed run appends, after dropping records of "
             "later iterations; another run's are kept, unless with --overwrite",
     .path = MDS_PATH_FILE},
    {output, "output.tensorboard_dir", "--tensorboard-dir", "MDS_TENSORBOARD_DIR",
     MDS_OPT_STRING, NULL, 0, 0, NULL, AT(output.tensorboard_dir), "folder",
     .help = "TensorBoard event files", .path = MDS_PATH_FOLDER},
    {output, "output.events", "--events", "MDS_EVENTS", MDS_OPT_STRING, NULL, 0, 0,
     NULL, AT(output.events), "file",
     .help = "append to this file what happens to the run (started, saved, a rank is "
             "lost, ...), for other programs, as JSON lines; mds_launch gives one",
     .path = MDS_PATH_FILE},
    {output, "output.init_weights", "--init-weights", "MDS_INIT_WEIGHTS",
     MDS_OPT_STRING, NULL, 0, 0, NULL, AT(output.init_weights), "file",
     .help = "safetensors file to start from", .path = MDS_PATH_FILE},
    {output, "output.export_weights", "--export-weights", "MDS_EXPORT_WEIGHTS",
     MDS_OPT_STRING, NULL, 0, 0, NULL, AT(output.export_weights), "file",
     .help = "safetensors file to write at the end", .path = MDS_PATH_FILE},
    {output, "output.trace_dir", "--trace-dir", "MDS_TRACE_DIR", MDS_OPT_STRING, NULL,
     0, 0, NULL, AT(output.trace_dir), "folder",
     .help =
         "write initial weights, the gradients of step 1 and batches there, to compare "
         "with other programs",
     .path = MDS_PATH_FOLDER},
    {output, "output.trace_steps", "--trace-steps", "MDS_TRACE_STEPS", MDS_OPT_COUNT,
     "1", 1, 1e6, NULL, AT(output.trace_steps), "steps", .help = "steps to trace"},
    {output, "output.overwrite", "--overwrite", "MDS_OVERWRITE", MDS_OPT_FLAG, "0", 0,
     0, NULL, AT(output.overwrite), NULL,
     .help = "replace what another run has left in --save, --metrics-jsonl, "
             "--export-weights and --trace-dir; unset: an error"},
    {output, "output.log_level", "--log-level", "MDS_LOG_LEVEL", MDS_OPT_STRING, "info",
     0, 0, levels, AT(output.log_level), "level", .help = "how much to log"},

    {checkpoints, "checkpoint.save", "--save", "MDS_SAVE", MDS_OPT_STRING, NULL, 0, 0,
     NULL, AT(checkpoint.save), "folder",
     .help = "write checkpoints there: at the end, however the run ends, and every "
             "--save-interval steps",
     .path = MDS_PATH_FOLDER},
    {checkpoints, "checkpoint.load", "--load", "MDS_LOAD", MDS_OPT_STRING, NULL, 0, 0,
     NULL, AT(checkpoint.load), "folder",
     .help =
         "resume from the newest checkpoint in this folder, in any layout; if a run "
         "in --save began with it, resume that run; if this is --save and has no "
         "checkpoint yet, start a new run",
     .path = MDS_PATH_FOLDER},
    {checkpoints, "checkpoint.interval", "--save-interval", "SAVE_INTERVAL",
     MDS_OPT_COUNT, "0", 0, 1e12, NULL, AT(checkpoint.interval), "steps",
     .help = "steps between checkpoints; 0: only at the end"},
    {checkpoints, "checkpoint.async_save", "--async-save", "MDS_ASYNC_SAVE",
     MDS_OPT_FLAG, "0", 0, 0, NULL, AT(checkpoint.async_save), NULL,
     .help =
         "continue training while a checkpoint is written, from a copy in host memory"},
    {checkpoints, "checkpoint.keep_last", "--keep-last", "MDS_KEEP_LAST", MDS_OPT_COUNT,
     "0", 0, 1e9, NULL, AT(checkpoint.keep_last), "n",
     .help = "keep this many checkpoints, the newest; 0: all"},
    {checkpoints, "checkpoint.keep_every", "--keep-every", "MDS_KEEP_EVERY",
     MDS_OPT_COUNT, "0", 0, 1e12, NULL, AT(checkpoint.keep_every), "steps",
     .help = "besides --keep-last, keep the checkpoints whose step is a multiple of "
             "this; 0: none"},
    {checkpoints, "checkpoint.load_fallback", "--load-fallback", "MDS_LOAD_FALLBACK",
     MDS_OPT_FLAG, "0", 0, 0, NULL, AT(checkpoint.load_fallback), NULL,
     .help = "if the newest checkpoint is damaged, load the one before"},
    {checkpoints, "checkpoint.no_load_optim", "--no-load-optim", "MDS_NO_LOAD_OPTIM",
     MDS_OPT_FLAG, "0", 0, 0, NULL, AT(checkpoint.no_load_optim), NULL,
     .help = "resume without the optimizer's moments"},
    {checkpoints, "checkpoint.finetune", "--finetune", "MDS_FINETUNE", MDS_OPT_FLAG,
     "0", 0, 0, NULL, AT(checkpoint.finetune), NULL,
     .help = "load only the weights of --load, and start at step 1"},
    {checkpoints, "checkpoint.override_model", "--override-model-config",
     "MDS_OVERRIDE_MODEL_CONFIG", MDS_OPT_FLAG, "0", 0, 0, NULL,
     AT(checkpoint.override_model), NULL,
     .help = "use these settings of the model, and data of this tokenizer, even if "
             "they differ from those of --load's checkpoint; without this option that "
             "is an error"},
    {checkpoints, "checkpoint.resize_vocab", "--resize-vocab", "MDS_RESIZE_VOCAB",
     MDS_OPT_ENUM, "off", 0, 0, resize_names, AT(checkpoint.resize_vocab), "rows",
     .help = "if the data have more words than --load's checkpoint, add rows to "
             "embedding and head: initial values, or the mean of the rows that are "
             "there; off: that is an error"},
