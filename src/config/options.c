/* SPDX-License-Identifier: BSD-3-Clause */
/* mds_pretrain's options.  Flags are Megatron-DeepSpeed's where it has one, variables
 * the ALCF scripts' where they have one. */
#include "config/options.h"
#include "config/rope.h"

#include <config.h>

#include <stddef.h>

#define AT(field) ((ptrdiff_t)offsetof(struct mds_config, field))
#define NO_MAX MDS_OPT_NO_MAX

enum { MAX_SIZE = 10000 }; /* ranks of one dimension; their product stays in 64 bits */

/* Headings of --help. */
static const char general[] = "General";
static const char shape[] = "Model";
static const char grid[] = "Parallelism";
static const char batch[] = "Batch";
static const char optim[] = "Optimizer and schedule";
static const char length[] = "Length of the run, evaluation";
static const char memory[] = "Memory and speed";
static const char data[] = "Data";
static const char output[] = "Output";
static const char checkpoints[] = "Checkpoints";

/* In the order of the enums in config.h. */
static const char *const positions[] = {"learned_absolute", "rope", "none", "alibi",
                                        NULL};
static const char *const norms[] = {"LayerNorm", "RMSNorm", NULL};
static const char *const placements[] = {"before", "after", "both", NULL};
static const char *const modules[] = {"layernorm", "mlp_act", "mlp", NULL};
static const char *const balances[] = {"none", "aux_loss", "seq_aux_loss",
                                       "global_aux_loss", NULL};
static const char *const router_scores[] = {"softmax", "sigmoid", NULL};
static const char *const decays[] = {"constant", "linear",      "cosine",
                                     "WSD",      "exponential", NULL};
static const char *const nonfinites[] = {"stop", "skip", "rollback", NULL};
static const char *const sp_types[] = {"none", "megatron", "ds", NULL};

static const char *const rests[] = {"none", "cpu", NULL};
const char *const mds_number_type_names[] = {"fp32", "bf16", "fp16", NULL};
const char *const mds_fp8_format_names[] = {"none", "e4m3", "hybrid", NULL};
static const char *const fp8_recipes[] = {"tensorwise", NULL};

static const char *const act_words[] = {"auto", "0",  "1",           "2",        "3",
                                        "4",    "5",  "6",           "7",        "8",
                                        "9",    "10", "attention=N", "inputs=N", NULL};
_Static_assert(sizeof act_words / sizeof *act_words == MDS_ACT_LEVELS + 4,
               "each level of activation memory has a name");
static const char *const devices[] = {"auto", "cpu", "cuda", NULL};
static const char *const levels[] = {"error", "warn", "info", "debug", "trace", NULL};
static const char *const log_format_names[] = {"auto", "megatron", "short", NULL};
static const char *const model_types[] = {"gpt", NULL};
static const char *const ddp_impls[] = {"local", NULL};
static const char *const optimizers[] = {"adamw", "adam", "muon", NULL};
static const char *const muon_scales[] = {"spectral", "shape", "unit", NULL};
static const char *const resize_names[] = {"off", "init", "mean", NULL};
static const char *const pack_names[] = {"off", "on", "auto", NULL};
const char *const mds_split_at_names[] = {"auto", "documents", "tokens", NULL};
static const char *const data_impls[] = {"mmap", "infer", NULL};

static const struct mds_option rows[] = {
    MDS_OPT_HELP_AND_VERSION(general),
    {general, NULL, "--show-config", NULL, MDS_OPT_ACTION, NULL, 0, 0, NULL,
     MDS_OPT_UNSTORED, NULL,
     "print every value, where it came from and what follows from it, as a file for "
     "--config, and exit",
     .action = MDS_ACTION_SHOW},
    {general, NULL, "--config", "MDS_CONFIG", MDS_OPT_STRING, NULL, 0, 0, NULL,
     AT(sources.config), "file", .help = "YAML file of settings; see --show-config"},
    {general, NULL, "--deepspeed_config", "MDS_DEEPSPEED_CONFIG", MDS_OPT_STRING, NULL,
     0, 0, NULL, AT(sources.deepspeed), "file",
     .help = "DeepSpeed's JSON: ZeRO stage, offload, clipping, precision, batch sizes"},
    {general, NULL, "--machine", "MACHINE", MDS_OPT_STRING, NULL, 0, 0, NULL,
     AT(sources.machine), "file",
     .help = "profile of the machine: a YAML file of settings that everything else "
             "overrides, or the name of one under machines/"},

    {shape, "model.size_key", "--model-size-key", "MODEL_SIZE_KEY", MDS_OPT_STRING,
     NULL, 0, 0, NULL, AT(model.size_key), "key",
     .help =
         "row of the model table, such as GPT13B or GPT1T_20L (GPT1T with 20 layers)"},
    {shape, "model.table", "--model-table", "MDS_MODEL_TABLE", MDS_OPT_STRING, NULL, 0,
     0, NULL, AT(output.model_table), "file",
     .help = "the model table; unset: the models.yaml that came with mds",
     .path = MDS_PATH_FILE},
    {shape, "model.layers", "--num-layers", "NLAYERS", MDS_OPT_INT, NULL, 0, 1e5, NULL,
     AT(model.layers), "layers", .help = "transformer blocks"},
    {shape, "model.hidden", "--hidden-size", "HIDDEN", MDS_OPT_INT, NULL, 0, 1e6, NULL,
     AT(model.hidden), "size", .help = "width of the residual stream"},
    {shape, "model.heads", "--num-attention-heads", "HEADS", MDS_OPT_INT, NULL, 0, 1e5,
     NULL, AT(model.heads), "heads", .help = "query heads"},
    {shape, "model.kv_heads", "--num-key-value-heads", "NUM_KV_HEAD", MDS_OPT_INT, "0",
     0, 1e5, NULL, AT(model.kv_heads), "heads",
     .help = "key/value heads (grouped-query attention); 0: as many as query heads"},
    {shape, "model.head_dim", "--kv-channels", "MDS_KV_CHANNELS", MDS_OPT_INT, "0", 0,
     1e5, NULL, AT(model.head_dim), "size", .help = "head size; 0: hidden / heads"},
    {shape, "model.ffn_hidden", "--ffn-hidden-size", "FFN_HIDDEN_SIZE", MDS_OPT_INT,
     "0", 0, 1e7, NULL, AT(model.ffn_hidden), "size",
     .help =
         "inner width of the MLP; 0: 4 x hidden, or with --swiglu 8/3 x hidden rounded "
         "up to a multiple of 64"},
    {shape, "model.seq_length", "--seq-length", "SEQ_LEN", MDS_OPT_COUNT, "2048", 1,
     1e10, NULL, AT(model.seq_length), "tokens", .help = "tokens per sequence"},
    {shape, "model.max_positions", "--max-position-embeddings",
     "MDS_MAX_POSITION_EMBEDDINGS", MDS_OPT_COUNT, "0", 0, 1e10, NULL,
     AT(model.max_positions), "tokens",
     .help = "rows of the learned position table; 0: the sequence length"},
    {shape, "model.vocab", "--vocab-size", "MDS_VOCAB_SIZE", MDS_OPT_COUNT, "0", 0, 1e9,
     NULL, AT(model.vocab), "words", .help = "words; 0: as the data says"},
    {shape, "model.vocab_divisor", "--make-vocab-size-divisible-by",
     "MDS_MAKE_VOCAB_SIZE_DIVISIBLE_BY", MDS_OPT_INT, "128", 1, 1e6, NULL,
     AT(model.vocab_divisor), "n", .help = "pad the vocabulary to a multiple of this"},
    {shape, "model.position", "--position-embedding-type",
     "MDS_POSITION_EMBEDDING_TYPE", MDS_OPT_ENUM, "learned_absolute", 0, 0, positions,
     AT(model.position), "kind", .help = "how the model encodes positions"},
    {shape, "model.rotary_percent", "--rotary-percent", "MDS_ROTARY_PERCENT",
     MDS_OPT_REAL, "1", 0, 1, NULL, AT(model.rotary_percent), "fraction",
     .help = "part of the head size that rotates, above 0 and up to 1"},
    {shape, "model.rotary_base", "--rotary-base", "MDS_ROTARY_BASE", MDS_OPT_REAL,
     "10000", 1, NO_MAX, NULL, AT(model.rotary_base), "base",
     .help = "base of the rotary frequencies"},
    {shape, "model.window_size", "--window-size", "MDS_WINDOW_SIZE", MDS_OPT_STRING,
     NULL, 0, 0, NULL, AT(model.window_size), "keys",
     .help = "in layers with a window, how many keys a query sees, including its own; "
             "or Megatron's pair: 8191,0 means 8192"},
    {shape, "model.window_skip", "--window-attn-skip-freq", "MDS_WINDOW_ATTN_SKIP_FREQ",
     MDS_OPT_STRING, NULL, 0, 0, NULL, AT(model.window_skip), "N",
     .help = "every N-th layer has no window and sees all earlier keys; or a list with "
             "1 for layers with the window: [1,1,0]*4"},
    {shape, "model.rope_scaling_type", "--rope-scaling-type", "MDS_ROPE_SCALING_TYPE",
     MDS_OPT_ENUM, "none", 0, 0, mds_rope_scaling_names, AT(model.rope_scaling), "kind",
     .help =
         "scale the rotary frequencies for longer sequences: all of them (linear), by "
         "a larger base (ntk), or only the low ones (yarn, llama3)"},
    {shape, "model.rope_scaling_factor", "--rope-scaling-factor",
     "MDS_ROPE_SCALING_FACTOR", MDS_OPT_REAL, "1", 1, NO_MAX, NULL,
     AT(model.rope_factor), "factor",
     .help = "sequence length divided by the sequence length of the first training"},
    {shape, "model.rope_original", "--original-max-position-embeddings",
     "MDS_ORIGINAL_MAX_POSITION_EMBEDDINGS", MDS_OPT_COUNT, "0", 0, 1e10, NULL,
     AT(model.rope_original), "tokens",
     .help = "sequence length of the first training; yarn and llama3 need it"},
    {shape, "model.rope_beta_fast", "--rope-beta-fast", "MDS_ROPE_BETA_FAST",
     MDS_OPT_REAL, "0", 0, NO_MAX, NULL, AT(model.rope_beta_fast), "turns",
     .help = "yarn, llama3: frequencies with more turns than this in the original "
             "length are not scaled; 0: 32 with yarn, 4 with llama3"},
    {shape, "model.rope_beta_slow", "--rope-beta-slow", "MDS_ROPE_BETA_SLOW",
     MDS_OPT_REAL, "1", 1e-9, NO_MAX, NULL, AT(model.rope_beta_slow), "turns",
     .help = "yarn, llama3: frequencies with fewer turns than this are divided by the "
             "factor; those in between partly"},
    {shape, "model.rope_attention_factor", "--rope-attention-factor",
     "MDS_ROPE_ATTENTION_FACTOR", MDS_OPT_REAL, "0", 0, NO_MAX, NULL,
     AT(model.rope_attention_factor), "factor",
     .help = "yarn: rotated queries and keys are multiplied by this; 0: "
             "0.1 ln(factor) + 1"},
    {shape, "model.norm", "--normalization", "MDS_NORMALIZATION", MDS_OPT_ENUM,
     "LayerNorm", 0, 0, norms, AT(model.norm), "kind", .help = "kind of normalization"},
    {shape, "model.norm_eps", "--norm-epsilon", "MDS_NORM_EPSILON", MDS_OPT_REAL,
     "1e-5", 1e-12, 1, NULL, AT(model.norm_eps), "eps",
     .help = "added to the variance"},
    {shape, "model.norm_placement", "--norm-placement", "MDS_NORM_PLACEMENT",
     MDS_OPT_ENUM, "before", 0, 0, placements, AT(model.norm_placement), "place",
     .help =
         "norms before attention and MLP, or after each, before its result is added to "
         "the stream (OLMo 2), or both"},
    {shape, "model.swiglu", "--swiglu", "MDS_SWIGLU", MDS_OPT_FLAG, "0", 0, 0, NULL,
     AT(model.chosen[MDSK_SWIGLU]), NULL, .help = "gated MLP (SwiGLU) instead of GELU"},
    {shape, "model.squared_relu", "--squared-relu", "MDS_SQUARED_RELU", MDS_OPT_FLAG,
     "0", 0, 0, NULL, AT(model.chosen[MDSK_SQUARED_RELU]), NULL,
     .help = "squared ReLU in the MLP instead of GELU"},
    {shape, "model.exact_gelu", "--exact-gelu", "MDS_EXACT_GELU", MDS_OPT_FLAG, "0", 0,
     0, NULL, AT(model.chosen[MDSK_EXACT_GELU]), NULL,
     .help = "GELU by the error function, as in Pythia, instead of its tanh form"},
    {shape, "model.experts", "--num-experts", "MDS_NUM_EXPERTS", MDS_OPT_INT, "0", 0,
     256, NULL, AT(model.experts.n), "experts",
     .help = "a mixture of so many experts in place of each MLP; 0: none"},
    {shape, "model.expert_topk", "--moe-router-topk", "MDS_MOE_ROUTER_TOPK",
     MDS_OPT_INT, "2", 1, 256, NULL, AT(model.experts.topk), "experts",
     .help = "experts that compute each token"},
    {shape, "model.expert_ffn_hidden", "--moe-ffn-hidden-size",
     "MDS_MOE_FFN_HIDDEN_SIZE", MDS_OPT_INT, "0", 0, 1e7, NULL,
     AT(model.experts.ffn_hidden), "size",
     .help = "inner width of each expert; 0: --ffn-hidden-size"},
    {shape, "model.expert_shared", "--moe-shared-expert-intermediate-size",
     "MDS_MOE_SHARED_EXPERT_INTERMEDIATE_SIZE", MDS_OPT_INT, "0", 0, 1e7, NULL,
     AT(model.experts.shared), "size",
     .help = "inner width of an MLP beside the experts, which computes every token; 0: "
             "none"},
    {shape, "model.expert_layers", "--moe-layer-freq", "MDS_MOE_LAYER_FREQ",
     MDS_OPT_STRING, "1", 0, 0, NULL, AT(model.experts.layers), "N",
     .help =
         "every N-th layer has experts, from the first on, and the others an MLP of "
         "--ffn-hidden-size; or a list with 1 for layers with experts: "
         "[0]*1+[1]*11"},
    {shape, "model.expert_pre_softmax", "--moe-router-pre-softmax",
     "MDS_MOE_ROUTER_PRE_SOFTMAX", MDS_OPT_FLAG, "0", 0, 0, NULL,
     AT(model.experts.pre_softmax), NULL,
     .help = "experts' results are weighed by a softmax over all experts instead of "
             "over the chosen ones"},
    {shape, "model.expert_score", "--moe-router-score-function",
     "MDS_MOE_ROUTER_SCORE_FUNCTION", MDS_OPT_ENUM, "softmax", 0, 0, router_scores,
     AT(model.experts.score), "function",
     .help = "by which experts are chosen and weighed: softmax of the logits, or the "
             "sigmoid of each, divided by the sum of the chosen ones (DeepSeek-V3)"},
    {shape, "model.expert_scale", "--moe-router-topk-scaling-factor",
     "MDS_MOE_ROUTER_TOPK_SCALING_FACTOR", MDS_OPT_REAL, "1", 1e-6, 1e6, NULL,
     AT(model.experts.scale), "factor",
     .help = "experts' weights are multiplied by it"},
    {shape, "model.expert_balance", "--moe-router-load-balancing-type",
     "MDS_MOE_ROUTER_LOAD_BALANCING_TYPE", MDS_OPT_ENUM, "aux_loss", 0, 0, balances,
     AT(model.experts.balance), "kind",
     .help = "where --moe-aux-loss-coeff counts tokens: over a rank's micro-batch "
             "(aux_loss), so that it depends on both, over each sequence "
             "(seq_aux_loss), or over all ranks' micro-batches so far in the step "
             "(global_aux_loss)"},
    {shape, "model.expert_balance_loss", "--moe-aux-loss-coeff",
     "MDS_MOE_AUX_LOSS_COEFF", MDS_OPT_REAL, "0", 0, NO_MAX, NULL,
     AT(model.experts.balance_coeff), "coefficient",
     .help = "of the loss that is least when all experts get as many tokens"},
    {shape, "model.expert_z_loss", "--moe-z-loss-coeff", "MDS_MOE_Z_LOSS_COEFF",
     MDS_OPT_REAL, "0", 0, NO_MAX, NULL, AT(model.experts.z_coeff), "coefficient",
     .help = "of the loss that keeps the router's logits small"},
    {shape, "model.expert_bias", "--moe-router-enable-expert-bias",
     "MDS_MOE_ROUTER_ENABLE_EXPERT_BIAS", MDS_OPT_FLAG, "0", 0, 0, NULL,
     AT(model.experts.bias), NULL,
     .help = "balance without a loss: each expert has a bias that is added to its "
             "sigmoid for the choice only, and rises after a step in which it got "
             "fewer tokens than the mean, or else falls"},
    {shape, "model.expert_bias_rate", "--moe-router-bias-update-rate",
     "MDS_MOE_ROUTER_BIAS_UPDATE_RATE", MDS_OPT_REAL, "1e-3", 0, NO_MAX, NULL,
     AT(model.experts.bias_rate), "rate", .help = "by which it changes in a step"},
    {shape, "model.parallel_residual", "--use-parallel-residual",
     "MDS_USE_PARALLEL_RESIDUAL", MDS_OPT_FLAG, "0", 0, 0, NULL,
     AT(model.parallel_residual), NULL,
     .help =
         "x + attention(norm(x)) + mlp(norm(x)), as in GPT-NeoX, instead of one after "
         "the other"},
    {shape, "model.qk_layernorm", "--qk-layernorm", "MDS_QK_LAYERNORM", MDS_OPT_FLAG,
     "0", 0, 0, NULL, AT(model.qk_layernorm), NULL,
     .help = "norms (of --normalization's kind) of each head's queries and keys"},
    {shape, "model.qk_norm_across_heads", "--qk-norm-across-heads",
     "MDS_QK_NORM_ACROSS_HEADS", MDS_OPT_FLAG, "0", 0, 0, NULL,
     AT(model.qk_norm_across_heads), NULL,
     .help = "--qk-layernorm of the queries of all heads as one row, and of the keys "
             "(OLMo 2)"},
    {shape, "model.linear_bias", "--disable-bias-linear", "MDS_LINEAR_BIAS",
     MDS_OPT_FLAG, "1", 0, 0, NULL, AT(model.linear_bias), NULL,
     "linear layers without biases", .inverted = 1},
    {shape, "model.qkv_bias", "--add-qkv-bias", "MDS_QKV_BIAS", MDS_OPT_FLAG, "0", 0, 0,
     NULL, AT(model.qkv_bias), NULL,
     .help = "with --disable-bias-linear: biases of queries, keys and values, as in "
             "Qwen2"},
    {shape, "model.tied_head", "--untie-embeddings-and-output-weights", "MDS_TIED_HEAD",
     MDS_OPT_FLAG, "1", 0, 0, NULL, AT(model.tied_head), NULL,
     "an output matrix of its own instead of the token embedding's", .inverted = 1},
    {shape, "model.init_std", "--init-method-std", "MDS_INIT_METHOD_STD", MDS_OPT_REAL,
     "0.02", 0, 10, NULL, AT(model.init_std), "sigma",
     .help = "standard deviation of the initial weights"},
    {shape, "model.use_mup", "--use-mup", "MDS_USE_MUP", MDS_OPT_FLAG, "0", 0, 0, NULL,
     AT(model.mup.on), NULL,
     .help = "maximal update parametrization (muP): initial weights, learning rates, "
             "scores and logits by how many times wider than a base model this one is, "
             "so that the base's best rate holds"},
    {shape, "model.mup_base_hidden", "--mup-base-hidden-size",
     "MDS_MUP_BASE_HIDDEN_SIZE", MDS_OPT_INT, "0", 0, 1e7, NULL,
     AT(model.mup.base_hidden), "size",
     .help = "--use-mup: the base model's --hidden-size; 0: this model is the base"},
    {shape, "model.mup_base_head_dim", "--mup-base-head-dim", "MDS_MUP_BASE_HEAD_DIM",
     MDS_OPT_REAL, "0", 0, 1e7, NULL, AT(model.mup.base_head_dim), "size",
     .help = "--use-mup: size of the base model's heads: scores are multiplied by its "
             "root and divided by the size of a head; 0: the latter alone"},
    {shape, "model.mup_embedding_mult", "--mup-embedding-mult",
     "MDS_MUP_EMBEDDING_MULT", MDS_OPT_REAL, "1", 1e-9, 1e9, NULL,
     AT(model.mup.embedding_mult), "factor",
     .help = "--use-mup: multiplies the embedding's result"},
    {shape, "model.mup_output_mult", "--mup-output-mult", "MDS_MUP_OUTPUT_MULT",
     MDS_OPT_REAL, "1", 1e-9, 1e9, NULL, AT(model.mup.output_mult), "factor",
     .help = "--use-mup: multiplies the logits; 1: base width / width"},
    {shape, "model.hidden_dropout", "--hidden-dropout", "MDS_HIDDEN_DROPOUT",
     MDS_OPT_REAL, "0", 0, 0.99, NULL, AT(model.hidden_dropout), "p",
     .help = "dropout after embedding, attention and MLP (Megatron's default is 0.1)"},
    {shape, "model.attention_dropout", "--attention-dropout", "MDS_ATTENTION_DROPOUT",
     MDS_OPT_REAL, "0", 0, 0.99, NULL, AT(model.attention_dropout), "p",
     .help = "dropout of attention weights (Megatron's default is 0.1)"},
    {shape, "model.type", "--model-type", "MDS_MODEL_TYPE", MDS_OPT_ENUM, "gpt", 0, 0,
     model_types, MDS_OPT_UNSTORED, "type", "kind of model", .always = 1},

    {grid, "parallel.tensor", "--tensor-model-parallel-size", "MPSIZE", MDS_OPT_INT,
     "1", 1, MAX_SIZE, NULL, AT(parallel.tensor), "ranks",
     .help = "ranks that share each weight matrix; must divide the heads"},
    {grid, "parallel.pipeline", "--pipeline-model-parallel-size", "PPSIZE", MDS_OPT_INT,
     "1", 1, MAX_SIZE, NULL, AT(parallel.pipeline), "ranks",
     .help = "ranks that share the blocks of the model"},
    {grid, "parallel.virtual_layers", "--num-layers-per-virtual-pipeline-stage",
     "MDS_NUM_LAYERS_PER_VIRTUAL_PIPELINE_STAGE", MDS_OPT_INT, "0", 0, 1e5, NULL,
     AT(parallel.virtual_layers), "layers",
     .help = "interleave the pipeline in chunks of so many blocks: shorter idle times "
             "for more messages; 0: one chunk per rank"},
    {grid, "parallel.ulysses", "--ds-sequence-parallel-size", "SPSIZE", MDS_OPT_INT,
     "1", 1, MAX_SIZE, NULL, AT(parallel.ulysses), "ranks",
     .help =
         "ranks that share each sequence, and in attention the heads, which they "
         "divide (Ulysses); with fewer key/value heads several ranks have the same"},
    {grid, "parallel.ring", "--context-parallel-size", "MDS_CONTEXT_PARALLEL_SIZE",
     MDS_OPT_INT, "1", 1, MAX_SIZE, NULL, AT(parallel.ring), "ranks",
     .help = "ranks that share each sequence, also in attention (ring)"},
    {grid, "parallel.expert", "--expert-model-parallel-size",
     "MDS_EXPERT_MODEL_PARALLEL_SIZE", MDS_OPT_INT, "1", 1, MAX_SIZE, NULL,
     AT(parallel.expert), "ranks",
     .help = "neighbouring ranks with different tokens (Ulysses, ring or data ranks) "
             "that share the experts of each block, which they divide"},
    {grid, "parallel.sequence_parallel", "--sequence-parallel", "USE_SEQUENCE_PARALLEL",
     MDS_OPT_FLAG, "0", 0, 0, NULL, AT(parallel.sequence_parallel), NULL,
     .help = "tensor ranks share the sequence outside of attention and MLP (Megatron)"},
    {grid, "parallel.tensor_chunks", "--tp-comm-chunks", "MDS_TP_COMM_CHUNKS",
     MDS_OPT_INT, "0", 0, 8, NULL, AT(parallel.tensor_chunks), "chunks",
     .help = "tensor ranks exchange rows in so many chunks, each overlapped with the "
             "GEMMs of another; 0: 2 where rows are 16 MiB or more, else 1"},
    {grid, "parallel.sp_type", "--sp-type", "SP_TYPE", MDS_OPT_ENUM, "none", 0, 0,
     sp_types, AT(parallel.sp_type), "kind",
     .help =
         "for sizes that are not given: megatron makes all ranks tensor ranks with "
         "--sequence-parallel, ds makes them Ulysses ranks with ZeRO 3, none leaves "
         "them to data parallelism"},
    {grid, "parallel.zero_stage", "--zero-stage", "ZERO_STAGE", MDS_OPT_INT, "0", 0, 3,
     NULL, AT(parallel.zero_stage), "stage",
     .help = "what data-parallel ranks shard: 1 optimizer states; 2 also gradients; 3 "
             "also weights"},
    {grid, "parallel.offload_optimizer", "--offload-device", "OFFLOAD_DEVICE",
     MDS_OPT_ENUM, "none", 0, 0, mds_place_names, AT(parallel.offload_optimizer),
     "place",
     .help = "where optimizer states are stored, if not on the device; the host "
             "updates them"},
    {grid, "parallel.offload_params", "--offload-param-device",
     "MDS_OFFLOAD_PARAM_DEVICE", MDS_OPT_ENUM, "none", 0, 0, rests,
     AT(parallel.offload_params), "place",
     .help =
         "with ZeRO 3, where weights are stored between uses, if not on the device"},
    /* Sites export it for all jobs: alone it asks for nothing. */
    {grid, "parallel.nvme_path", "--nvme-path", "NVME_PATH", MDS_OPT_STRING, NULL, 0, 0,
     NULL, AT(parallel.nvme_path), "folder",
     .help = "node-local folder for --offload-device nvme"},
    {grid, "parallel.ddp_impl", "--DDP-impl", "DDP_IMPL", MDS_OPT_ENUM, "local", 0, 0,
     ddp_impls, MDS_OPT_UNSTORED, "kind", "who reduces gradients", .always = 1},
    {grid, "parallel.timeout", "--distributed-timeout-minutes",
     "MDS_DISTRIBUTED_TIMEOUT_MINUTES", MDS_OPT_MINUTES, "10", 1, 1e9, NULL,
     AT(parallel.timeout_s), "minutes",
     .help = "abort the run when a rank has been silent for this long; also 90s, 2h"},

    {batch, "batch.micro", "--micro-batch-size", "MICRO_BATCH", MDS_OPT_INT, "0", 0,
     1e6, NULL, AT(batch.micro), "sequences",
     .help =
         "sequences a rank computes at a time; 0: follows from the other two, or 1"},
    {batch, "batch.accumulation", "--gradient-accumulation-steps", "GAS", MDS_OPT_INT,
     "0", 0, 1e6, NULL, AT(batch.accumulation), "micro-batches",
     .help = "micro-batches per step and rank; 0: follows from the other two, or 1"},
    {batch, "batch.global", "--global-batch-size", "GLOBAL_BATCH", MDS_OPT_INT, "0", 0,
     1e8, NULL, AT(batch.global), "sequences",
     .help = "sequences per step; 0: micro x accumulation x data-parallel ranks"},
    {batch, "batch.rampup", "--rampup-batch-size", "MDS_RAMPUP_BATCH_SIZE",
     MDS_OPT_WORDS, NULL, 0, 0, NULL, AT(batch.rampup), "START INCREMENT SAMPLES",
     .help = "begin with START sequences per step, and come by equal increments to "
             "--global-batch-size when SAMPLES are consumed"},
    {batch, "batch.steps", "--step-batch-size-schedule", "MDS_STEP_BATCH_SIZE_SCHEDULE",
     MDS_OPT_WORDS, NULL, 0, 0, NULL, AT(batch.steps), "TOKENS:SEQUENCES...",
     .help = "sequences per step from a number of tokens on, in place of "
             "--global-batch-size: \"0:768 250B:1536\""},

    {optim, "optim.kind", "--optimizer", "OPT", MDS_OPT_ENUM, "adamw", 0, 0, optimizers,
     AT(optim.kind), "kind",
     .help = "adamw (also called adam), or muon: blocks' matrices by Muon, the rest by "
             "AdamW",
     .always = 1},
    {optim, "optim.muon_momentum", "--muon-momentum", "MDS_MUON_MOMENTUM", MDS_OPT_REAL,
     "0.95", 0, 1, NULL, AT(optim.muon_momentum), "beta",
     .help = "decay of Muon's momentum, below 1"},
    {optim, "optim.muon_nesterov", "--muon-use-nesterov", "MDS_MUON_USE_NESTEROV",
     MDS_OPT_FLAG, "1", 0, 0, NULL, AT(optim.muon_nesterov), NULL,
     .help = "look ahead along the momentum"},
    {optim, "optim.muon_steps", "--muon-num-ns-steps", "MDS_MUON_NUM_NS_STEPS",
     MDS_OPT_INT, "5", 1, 100, NULL, AT(optim.muon_steps), "steps",
     .help = "Newton-Schulz iterations that orthogonalise a matrix"},
    {optim, "optim.muon_scale", "--muon-scale-mode", "MDS_MUON_SCALE_MODE",
     MDS_OPT_ENUM, "spectral", 0, 0, muon_scales, AT(optim.muon_scale), "mode",
     .help = "size of the step of a matrix [m, n]: spectral sqrt(max(m, n)), shape "
             "sqrt(max(1, m/n)), unit sqrt(m/n)"},
    {optim, "optim.muon_extra_scale", "--muon-extra-scale-factor",
     "MDS_MUON_EXTRA_SCALE_FACTOR", MDS_OPT_REAL, "0.2", 0, 1e3, NULL,
     AT(optim.muon_extra_scale), "factor",
     .help = "times this; with 0.2 and spectral AdamW's rate and weight decay carry "
             "over"},
    {optim, "optim.lr", "--lr", "LR", MDS_OPT_REAL, "1.5e-4", 0, 1e3, NULL,
     AT(optim.lr), "rate", .help = "highest learning rate"},
    {optim, "optim.min_lr", "--min-lr", "MDS_MIN_LR", MDS_OPT_REAL, "0", 0, 1e3, NULL,
     AT(optim.min_lr), "rate", .help = "learning rate at the end of the decay"},
    {optim, "optim.decay", "--lr-decay-style", "MDS_LR_DECAY_STYLE", MDS_OPT_ENUM,
     "linear", 0, 0, decays, AT(optim.decay), "style",
     .help = "curve of the learning rate after the warm-up"},
    {optim, "optim.decay_iters", "--lr-decay-iters", "MDS_LR_DECAY_ITERS",
     MDS_OPT_COUNT, "0", 0, 1e12, NULL, AT(optim.decay_length.in[MDS_STEPS]), "steps",
     .help = "step at which the decay ends; 0: the last"},
    {optim, "optim.decay_samples", "--lr-decay-samples", "MDS_LR_DECAY_SAMPLES",
     MDS_OPT_COUNT, NULL, 0, 1e15, NULL, AT(optim.decay_length.in[MDS_SAMPLES]),
     "sequences", .help = "the same, as sequences consumed by then"},
    {optim, "optim.decay_tokens", "--lr-decay-tokens", "MDS_LR_DECAY_TOKENS",
     MDS_OPT_COUNT, NULL, 0, 1e18, NULL, AT(optim.decay_length.in[MDS_TOKENS]),
     "tokens", .help = "the same, as tokens consumed by then"},
    {optim, "optim.warmup_iters", "--lr-warmup-iters", "MDS_LR_WARMUP_ITERS",
     MDS_OPT_COUNT, "0", 0, 1e12, NULL, AT(optim.warmup_length.in[MDS_STEPS]), "steps",
     .help = "length of the linear warm-up; 0: by --lr-warmup-fraction"},
    {optim, "optim.warmup_samples", "--lr-warmup-samples", "MDS_LR_WARMUP_SAMPLES",
     MDS_OPT_COUNT, NULL, 0, 1e15, NULL, AT(optim.warmup_length.in[MDS_SAMPLES]),
     "sequences", .help = "the same, as sequences"},
    {optim, "optim.warmup_tokens", "--lr-warmup-tokens", "MDS_LR_WARMUP_TOKENS",
     MDS_OPT_COUNT, NULL, 0, 1e18, NULL, AT(optim.warmup_length.in[MDS_TOKENS]),
     "tokens", .help = "the same, as tokens"},
    {optim, "optim.warmup_fraction", "--lr-warmup-fraction", "MDS_LR_WARMUP_FRACTION",
     MDS_OPT_REAL, "0", 0, 1, NULL, AT(optim.warmup_fraction), "fraction",
     .help = "warm-up as a part of the decay"},
    {optim, "optim.wsd_decay_iters", "--lr-wsd-decay-iters", "MDS_LR_WSD_DECAY_ITERS",
     MDS_OPT_COUNT, "0", 0, 1e12, NULL, AT(optim.wsd_decay_iters), "steps",
     .help = "length of WSD's final decay; 0: a tenth of the decay"},
    {optim, "optim.weight_decay", "--weight-decay", "MDS_WEIGHT_DECAY", MDS_OPT_REAL,
     "0.01", 0, 1e3, NULL, AT(optim.weight_decay), "rate",
     .help = "AdamW's weight decay of matrices; biases and norms are not decayed"},
    {optim, "optim.beta1", "--adam-beta1", "MDS_ADAM_BETA1", MDS_OPT_REAL, "0.9", 0, 1,
     NULL, AT(optim.beta1), "beta", .help = "decay of the first moment, below 1"},
    {optim, "optim.beta2", "--adam-beta2", "MDS_ADAM_BETA2", MDS_OPT_REAL, "0.999", 0,
     1, NULL, AT(optim.beta2), "beta", .help = "decay of the second moment, below 1"},
    {optim, "optim.eps", "--adam-eps", "MDS_ADAM_EPS", MDS_OPT_REAL, "1e-8", 1e-30, 1,
     NULL, AT(optim.eps), "eps", .help = "added to the root of the second moment"},
    {optim, "optim.clip_grad", "--clip-grad", "MDS_CLIP_GRAD", MDS_OPT_REAL, "1", 0,
     1e9, NULL, AT(optim.clip_grad), "norm",
     .help = "clip gradients to this global norm; 0: never"},
    {optim, "optim.qk_clip", "--qk-clip", "MDS_QK_CLIP", MDS_OPT_FLAG, "0", 0, 0, NULL,
     AT(optim.qk_clip), NULL,
     .help = "after a step scale the weights of queries and keys of heads whose logits "
             "exceed --qk-clip-threshold"},
    {optim, "optim.qk_clip_threshold", "--qk-clip-threshold", "MDS_QK_CLIP_THRESHOLD",
     MDS_OPT_REAL, "100", 0, 1e9, NULL, AT(optim.qk_clip_threshold), "logit",
     .help = "largest logit of a head, by the log-sum-exp of its scores"},
    {optim, "optim.qk_clip_alpha", "--qk-clip-alpha", "MDS_QK_CLIP_ALPHA", MDS_OPT_REAL,
     "0.5", 0, 1, NULL, AT(optim.qk_clip_alpha), "power",
     .help = "queries are scaled by the factor to this power, keys by the rest"},
    {optim, "optim.z_loss", "--z-loss", "MDS_Z_LOSS", MDS_OPT_REAL, "0", 0, 1e3, NULL,
     AT(train.z_loss), "coefficient",
     .help =
         "of the mean square of log(sum exp) of the head's logits, which keeps them "
         "small; 1e-4 is usual, 0: none"},
    {optim, "optim.loss_scale", "--loss-scale", "MDS_LOSS_SCALE", MDS_OPT_REAL, "0", 0,
     NO_MAX, NULL, AT(train.loss_scale), "scale",
     .help = "fixed loss scale of fp16; 0: dynamic, by the next four options"},
    {optim, "optim.initial_loss_scale", "--initial-loss-scale",
     "MDS_INITIAL_LOSS_SCALE", MDS_OPT_REAL, "4294967296", 1, NO_MAX, NULL,
     AT(train.initial_loss_scale), "scale", .help = "first loss scale of fp16"},
    {optim, "optim.min_loss_scale", "--min-loss-scale", "MDS_MIN_LOSS_SCALE",
     MDS_OPT_REAL, "1", 1e-30, NO_MAX, NULL, AT(train.min_loss_scale), "scale",
     .help = "lowest loss scale of fp16"},
    {optim, "optim.loss_scale_window", "--loss-scale-window", "MDS_LOSS_SCALE_WINDOW",
     MDS_OPT_COUNT, "1000", 1, 1e12, NULL, AT(train.loss_scale_window), "steps",
     .help = "steps without overflow before fp16's loss scale doubles"},
    {optim, "optim.hysteresis", "--hysteresis", "MDS_HYSTERESIS", MDS_OPT_INT, "2", 1,
     1e6, NULL, AT(train.hysteresis), "steps",
     .help = "overflows before fp16's loss scale halves"},
    {optim, "optim.on_nonfinite", "--on-nonfinite", "MDS_ON_NONFINITE", MDS_OPT_ENUM,
     "stop", 0, 0, nonfinites, AT(train.on_nonfinite), "what",
     .help =
         "when loss or gradient are not finite (of fp16's gradients: at a loss scale "
         "that cannot be lowered): stop the run; skip the update and continue; or roll "
         "back to the last good checkpoint of --save, and continue with the batches "
         "after this one"},
    {optim, "optim.nonfinite_limit", "--nonfinite-limit", "MDS_NONFINITE_LIMIT",
     MDS_OPT_COUNT, "5", 1, 1e9, NULL, AT(train.nonfinite_limit), "n",
     .help = "how many steps in a row may be skipped, or how often the run may roll "
             "back to one checkpoint, before it stops"},
    {optim, "optim.loss_spike_sigma", "--loss-spike-sigma", "MDS_LOSS_SPIKE_SIGMA",
     MDS_OPT_REAL, "6", 0, 1e9, NULL, AT(train.spike_sigma), "n",
     .help = "warn if the loss is this many standard deviations above its running "
             "mean; 0: never"},

    {length, "train.iters", "--train-iters", "TRAIN_ITERS", MDS_OPT_COUNT, NULL, 0,
     1e12, NULL, AT(train.length.in[MDS_STEPS]), "steps", .help = "steps of the run"},
    {length, "train.samples", "--train-samples", "MDS_TRAIN_SAMPLES", MDS_OPT_COUNT,
     NULL, 0, 1e15, NULL, AT(train.length.in[MDS_SAMPLES]), "sequences",
     .help = "length of the run in sequences, in whole batches"},
    {length, "train.tokens", "--train-tokens", "TRAIN_TOKENS", MDS_OPT_COUNT, NULL, 0,
     1e18, NULL, AT(train.length.in[MDS_TOKENS]), "tokens",
     .help = "length of the run in tokens; if several lengths are given, the shortest "
             "counts"},
    {length, "train.seed", "--seed", "MDS_SEED", MDS_OPT_INT, "1234", 0, 9e15, NULL,
     AT(train.seed), "n", .help = "seed of initial weights, data order and dropout"},
    {length, "train.eval_interval", "--eval-interval", "MDS_EVAL_INTERVAL",
     MDS_OPT_COUNT, "1000", 1, 1e12, NULL, AT(train.eval_interval), "steps",
     .help = "steps between evaluations"},
    {length, "train.eval_iters", "--eval-iters", "MDS_EVAL_ITERS", MDS_OPT_COUNT, "100",
     0, 1e12, NULL, AT(train.eval_iters), "batches",
     .help =
         "global batches per evaluation, the last perhaps not full; more than there "
         "are, or --skip-train without this: all; 0: no evaluation"},
    {length, "train.skip_train", "--skip-train", "MDS_SKIP_TRAIN", MDS_OPT_FLAG, "0", 0,
     0, NULL, AT(train.skip_train), NULL,
     .help = "evaluate the weights of --load or --init-weights on validation and test "
             "data, and exit: nothing is trained or saved"},
    {length, "train.exit_interval", "--exit-interval", "MDS_EXIT_INTERVAL",
     MDS_OPT_COUNT, "0", 0, 1e12, NULL, AT(train.exit_interval), "steps",
     .help = "exit after a step divisible by this; 0: never"},
    {length, "train.exit_duration", "--exit-duration-in-mins",
     "MDS_EXIT_DURATION_IN_MINS", MDS_OPT_MINUTES, "0", 0, 1e12, NULL,
     AT(train.exit_duration_s), "minutes",
     .help = "exit after the first step that ends later than this after the start, and "
             "leave an evaluation that would end later to the next job; also 90s, 2h; "
             "0: never"},
    {length, "train.exit_signal_handler", "--exit-signal-handler",
     "MDS_EXIT_SIGNAL_HANDLER", MDS_OPT_FLAG, "0", 0, 0, NULL,
     AT(train.exit_signal_handler), NULL,
     .help =
         "on Ctrl-C, SIGTERM or SIGUSR1 finish the step, or leave an evaluation, "
         "save and exit; on a second Ctrl-C or SIGTERM exit at once; the default with "
         "--save"},

#include "config/options_run.h"
    {.help = NULL},
};

/* Keys and variables of the options that megatron.c says are gone. */
static const struct mds_option_foreign gone[] = {
    {"train.keep_attention", "write --activation-memory attention=N"},
    {"MDS_KEEP_ATTENTION_LAYERS", "write --activation-memory attention=N"},
    {"train.device_inputs", "write --activation-memory inputs=N"},
    {"MDS_DEVICE_CHECKPOINT_LAYERS", "write --activation-memory inputs=N"},
    {"train.mlp_tile", "see --recompute-modules mlp, --sequence-tile"},
    {"MDS_MLP_TILE", "see --recompute-modules mlp, --sequence-tile"},
    {"train.attention_chunk", "see --attention-head-groups"},
    {"MDS_ATTENTION_CHUNK", "see --attention-head-groups"},
    {.name = NULL},
};

const struct mds_option_set mds_pretrain_options = {
    .program = "mds_pretrain",
    .version = PACKAGE_VERSION,
    .synopsis = "[option]...",
    .about =
        "Trains a GPT on tokens that mds_data or Megatron made. mpiexec starts its "
        "ranks, "
        "as a rule one for each GPU; mds_launch finds the nodes and writes that line.\n"
        "An option may stand on the command line, in the environment (names in "
        "brackets), in a file given by --config or --deepspeed_config, in the model "
        "table under the --model-size-key, or in the machine's profile; the first of "
        "these wins, and --show-config prints what came from where. What --load's "
        "checkpoint says of the model goes before the machine's profile. Counts may be "
        "written 128k or 1e9, sizes 32MiB, times 90s or 2h.",
    .options = rows,
    .aliases = mds_megatron_aliases,
    .hints = mds_short_words,
    .accepted = mds_megatron_accepted,
    .unsupported = mds_megatron_unsupported,
    .gone = gone,
    .examples = mds_pretrain_examples,
    .env_prefix = "MDS_",
    .env_others = mds_script_variables,
};
