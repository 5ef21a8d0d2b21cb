# SPDX-License-Identifier: BSD-3-Clause
# Every layout of up to 8 ranks that makes sense, one a line:
#
#     NAME RANKS REFERENCE OPTIONS...
#
# REFERENCE is MODEL[+drop][+TYPE], the one-rank run that must give the same numbers.
# The name lists what differs from one rank, so `grep tp2-sp` finds rows.
#
# The product: tensor x Megatron's sequence parallelism x Ulysses x ring x pipeline (also
# interleaved) x data x ZeRO x offload x recompute x model.  Dropout, tiles and blocks per
# kept input take turns along the rows.  Recompute of modules alone (mod), which changes
# nothing about where states are, meets no offload but the optimizer's to the host; plain
# attention meets Ulysses and rings alone.  Left out are ZeRO without ranks that have the
# same weights, parts that divide no heads, and shapes with more ranks than 8.
#
# Blocks of other forms (MODEL+FORM) meet some of these grids alone.
#
# Models: gpt has 8 blocks and 8 heads; llama 6 blocks (which 4 stages share unevenly), 8
# heads and 4 key/value heads.

function log2(n) {
    return n == 1 ? 0 : 1 + log2(n / 2)
}

# A part of the name, and what it stands for.
function add(part, words) {
    name = name "-" part
    options = options " " words
}

# Micro-batches of 2 samples, or of 1 where a pipeline needs the larger number of them.
# The global batch has 8.
function micro_batch(pp, dp) {
    return 8 / dp % 2 == 0 && 8 / dp / 2 % pp == 0 ? 2 : 1
}

function add_grid() {
    if (tp > 1) add("tp" tp, "--tensor-model-parallel-size " tp)
    if (sp) add("sp", "--sequence-parallel")
    if (ulysses > 1) add("u" ulysses, "--ds-sequence-parallel-size " ulysses)
    if (ring > 1) add("ring" ring, "--context-parallel-size " ring)
    if (pp > 1) add("pp" pp (chunk ? "i" : ""), "--pipeline-model-parallel-size " pp)
    if (chunk) options = options " --num-layers-per-virtual-pipeline-stage " chunk
    if (dp > 1) add("dp" dp, "")
    if (ep > 1) add("ep" ep, "--expert-model-parallel-size " ep)
    options = options " --micro-batch-size " micro_batch(pp, dp)
}

function add_zero(zero, offload) {
    if (zero) add("z" zero, "--zero-stage " zero)
    if (offload == "cpu") add("cpu", "--cpu-optimizer")
    if (offload == "nvme") add("nvme", "--offload-device nvme --nvme-path nvme")
    if (offload == "rest") add("rest", "--cpu-optimizer --offload-param-device cpu")
}

function add_recompute(recompute, every, turn) {
    if (recompute ~ /sel|mod/) add(recompute, "--recompute-granularity selective")
    if (recompute == "mod") options = options " --recompute-modules layernorm " (turn % 2 ? "mlp" : "mlp_act")
    if (recompute ~ /full|host|part/) add(recompute, "--recompute-granularity full")
    if (recompute == "host") options = options " --cpu-checkpointing"
    if (recompute == "part") options = options " --partition-activations"
    if (recompute ~ /full|host|part/ && every > 1) add("k" every, "--checkpoint-num-layers " every)
}

# Messages of tensor ranks in so many chunks, of uneven lengths: takes turns, too.
function add_chunks(n) {
    if (tp > 1 && !untiled) options = options " --tp-comm-chunks " n
}

# turn: a number that differs between neighbours
function exact(zero, offload, recompute, turn,    reference) {
    name = reference = model
    options = ""
    add_grid()
    add_zero(zero, offload)
    add_recompute(recompute, int(turn / 2) % 2 + 1, turn)
    if (turn % 3 == 1 && !untiled) add("tile", "--loss-tile 24")
    add_chunks((turn + 2) % 4 + 2)
    if (turn % 2 == 1) {
        add("drop", "")
        reference = reference "+drop"
    }
    print name, ranks, reference options
}

# Blocks in tiles along the sequence; sel and host together, too.  With groups, attention
# of some heads at a time.
function long(recompute, host, turn, groups, zero,    reference) {
    name = reference = model
    options = ""
    add_grid()
    add_zero(zero, "none")
    add_recompute(recompute, recompute == "sel" ? 1 : turn % 3 + 1)
    if (host) add("host", "--cpu-checkpointing")
    add("long", "--sequence-tile 20" (turn % 2 ? " --loss-tile 9" : ""))
    add_chunks(turn % 3 + 1)
    if (groups) add("heads" groups, "--attention-head-groups " groups)
    if (turn % 2 == 0) {
        add("drop", "")
        reference = reference "+drop"
    }
    print name, ranks, reference options
}

# Attention that is not fused, against that which is.
function plain(turn,    reference) {
    name = reference = model
    options = ""
    add_grid()
    add("plain", "--no-use-flash-attn")
    if (turn % 2 == 1) {
        add("drop", "")
        reference = reference "+drop"
    }
    print name, ranks, reference options
}

# Blocks whose buffers are on the host meanwhile, where two of a stage stay: all others, or
# all but one, in turn.
function away(turn,    n, reference) {
    n = (model ~ /^gpt/ ? 8 : 6) / pp - 2 - turn % 2
    if (chunk || n < 1) return
    name = reference = model
    options = ""
    add_grid()
    add_zero(ulysses * ring * dp > 1 ? turn % 4 : 0, turn % 3 ? "none" : "cpu")
    if (turn % 4 == 1) add_recompute("mod", 1, turn)
    add("host" n, "--cpu-offloading-num-layers " n)
    add_chunks(turn % 3 + 1)
    if (turn % 2 == 0) {
        add("drop", "")
        reference = reference "+drop"
    }
    print name, ranks, reference options
}

function half(type, zero, recompute) {
    name = model
    options = ""
    add_grid()
    add_zero(zero, "none")
    add_recompute(recompute, 1)
    add_chunks(3)
    add(type, "")
    print name, ranks, model "+" type options
}

# All that can be done on one grid.
function grid(    turn, zero, zeros, i, j, places, offloads, ways, recomputes, shared) {
    turn = log2(tp) + log2(ulysses) + log2(ring) + log2(pp) + log2(dp) + sp + (chunk > 0)
    shared = ulysses * ring * dp > 1
    recomputes = split("none sel full host" (tp > 1 && !sp ? " part mod" : " mod"), ways)
    for (zero = 0; zero <= (shared ? 3 : 0); zero++) {
        offloads = split("none cpu nvme" (zero == 3 ? " rest" : ""), places)
        for (i = 1; i <= offloads; i++)
            for (j = 1; j <= recomputes; j++)
                if (ways[j] != "mod" || places[i] ~ /none|cpu/)
                    exact(zero, places[i], ways[j], turn + zero + i + j)
    }
    for (i = 0; i < 4; i++)
        long(i % 2 ? "sel" : "full", i > 1, turn + i)
    if (heads[model] > tp * ulysses)
        for (i = 0; i < 2; i++)
            long(i ? "sel" : "full", i == turn % 2, turn + i, turn + i > 2 ? 2 : 4)
    if (tp > 1 && !sp) {
        long("part", 0, turn)
        long("part", 1, turn + 1)
    }
    if (tp * pp * dp == 1) plain(turn)
    away(turn)
    half("bf16", shared ? turn % 4 : 0, turn % 2 ? "none" : "full")
    half("fp16", shared ? (turn + 2) % 4 : 0, turn % 2 ? "full" : "none")
}

# Dropout in 16 bits, for which GPUs have kernels of their own.
function dropped(form) {
    model = form
    on(1, 0, 1, 1, 1, 1)
    half("bf16", 0, "full")
    on(2, 1, 1, 1, 1, 1)
    half("bf16", 0, "none")
    on(1, 0, 2, 1, 1, 1)
    half("fp16", 3, "full")
    on(1, 0, 1, 2, 1, 1)
    half("bf16", 1, "none")
    on(1, 0, 2, 2, 1, 1)
    half("bf16", 0, "none")
}

# Blocks per chunk of an interleaved pipeline; 0 where that cannot be.
function chunks_of(pp) {
    if (model == "gpt") return 8 / pp / 2
    return pp == 2 ? 1 : 0
}

function pipelines() {
    for (pp = 1; pp <= 4; pp *= 2)
        for (dp = 1; dp <= 4; dp *= 2) {
            ranks = tp * ulysses * ring * pp * dp
            if (ranks > 8) continue
            chunk = 0
            grid()
            chunk = pp > 1 ? chunks_of(pp) : 0
            if (chunk) grid()
        }
}

function on(t, s, u, r, p, d) {
    tp = t; sp = s; ulysses = u; ring = r; pp = p; dp = d; chunk = 0
    ranks = tp * ulysses * ring * pp * dp
}

# Each stage of ZeRO, two of them with offload.
function each_stage(    zero) {
    for (zero = 0; zero < 4; zero++)
        exact(zero, zero == 1 ? "cpu" : zero == 3 ? "rest" : "none", zero == 3 ? "full" : "none", 2 * zero)
}

# A block of another form, on grids that have each kind of group, with each way of keeping
# or computing again what it saves.
function variant(form) {
    model = form
    on(1, 0, 1, 1, 1, 1)
    exact(0, "none", "mod", 1)
    long("full", 1, 0)
    long("sel", 1, 1)
    long("full", 0, 1, 3)
    away(1)
    on(2, 0, 1, 1, 1, 1)
    exact(0, "none", "part", 2)
    on(2, 1, 1, 1, 1, 1)
    exact(0, "none", "none", 4)
    long("sel", 0, 1)
    on(1, 0, 2, 2, 1, 1)
    exact(3, "none", "sel", 1)
    long("full", 0, 2)
    long("sel", 1, 1, 2)
    on(2, 1, 2, 1, 2, 1)
    exact(1, "cpu", "full", 2)
    if (form !~ /fp8/) half("bf16", 2, "none")
}

# ALiBi, whose slope depends on a head's number and whose bias on tokens' positions.
function biased(form) {
    variant(form)
    on(1, 0, 2, 1, 1, 1)
    plain(1)
    on(1, 0, 1, 4, 1, 1)
    exact(0, "none", "none", 0)
    plain(0)
    on(2, 0, 1, 2, 2, 1)
    exact(0, "none", "none", 1)
}

# FP8 wherever a tensor that is cast is one rank's part, or a tile, of that of one rank.
function fp8(form) {
    variant(form)
    on(4, 0, 1, 1, 1, 1)
    exact(0, "none", "none", 0)
    on(1, 0, 2, 1, 1, 1)
    exact(0, "none", "none", 0)
    on(1, 0, 1, 2, 1, 1)
    exact(0, "none", "none", 0)
    on(1, 0, 1, 1, 2, 1)
    exact(0, "none", "none", 0)
    on(1, 0, 1, 1, 1, 2)
    each_stage()
}

# FP8 except for weights' gradients, which read what the casts have read; and FP8 of other
# blocks.
function fp8_in_short(form) {
    model = form
    on(1, 0, 1, 1, 1, 1)
    exact(0, "none", "mod", 1)
    away(1)
    on(2, 1, 1, 1, 1, 1)
    exact(0, "none", "none", 0)
    long("sel", 0, 1)
    on(1, 0, 1, 1, 1, 2)
    exact(3, "none", "full", 4)
}

# Tiles: the load is that of all of them, and of all ranks that share a sequence.
function routed_tiles() {
    on(1, 0, 1, 1, 1, 1)
    long("full", 0, 0)
    long("full", 1, 2)
    long("sel", 1, 1)
    long("full", 0, 1, 2)
    on(2, 0, 1, 1, 1, 1)
    long("full", 0, 1)
    long("part", 0, 2)
    on(4, 1, 1, 1, 1, 1)
    long("sel", 0, 1)
    on(1, 0, 2, 1, 1, 1)
    long("full", 0, 0)
    on(1, 0, 1, 2, 1, 1)
    long("full", 1, 1)
    on(1, 0, 2, 2, 1, 2)
    long("sel", 0, 1, 0, 3)
    on(2, 1, 1, 2, 2, 1)
    long("full", 1, 1)
    on(1, 0, 1, 1, 1, 2)
    long("full", 0, 1, 0, 1)
    long("full", 0, 2, 0, 3)
}

# Experts have no chunks of messages.
function routed(form) {
    model = form
    untiled = 1
    on(1, 0, 1, 1, 1, 1)
    exact(0, "none", "mod", 1)
    exact(0, "none", "full", 2)
    exact(0, "nvme", "sel", 1)
    away(1)
    half("bf16", 0, "none")
    half("fp16", 0, "full")
    for (tp = 2; tp <= 4; tp *= 2) {
        on(tp, 0, 1, 1, 1, 1)
        exact(0, "none", "part", 2)
        on(tp, 1, 1, 1, 1, 1)
        exact(0, "none", "none", 1)
        exact(0, "none", "sel", 1)
    }
    on(1, 0, 2, 1, 1, 1)
    exact(0, "none", "none", 0)
    on(1, 0, 1, 2, 1, 1)
    exact(0, "none", "none", 1)
    on(1, 0, 2, 2, 1, 1)
    exact(3, "none", "sel", 1)
    on(1, 0, 1, 1, 2, 1)
    exact(0, "none", "none", 0)
    on(1, 0, 1, 1, 1, 2)
    each_stage()
    half("bf16", 2, "none")
    on(2, 1, 2, 1, 2, 1)
    exact(1, "cpu", "full", 2)
    on(2, 0, 1, 2, 1, 2)
    exact(2, "none", "host", 1)
    routed_tiles()
    untiled = 0
}

# The same of experts on several ranks: of data ranks, with the others' axes around them.
function spread(form) {
    model = form
    untiled = 1
    for (ep = 2; ep <= 4; ep *= 2) {
        on(1, 0, 1, 1, 1, ep)
        each_stage()
        exact(0, "none", "mod", ep)
        exact(2, "nvme", "sel", 1)
        away(2)
        half("bf16", ep == 2 ? 3 : 1, "full")
        half("fp16", 0, "none")
    }
    ep = 2
    on(1, 0, 1, 1, 1, 4)
    each_stage()
    exact(1, "none", "full", 2)
    exact(3, "none", "none", 3)
    on(2, 0, 1, 1, 1, 2)
    exact(0, "none", "part", 2)
    exact(3, "none", "none", 1)
    on(2, 1, 1, 1, 1, 4)
    exact(1, "none", "none", 0)
    exact(2, "none", "sel", 1)
    on(1, 0, 1, 1, 2, 2)
    exact(0, "none", "none", 1)
    exact(1, "none", "full", 2)
    chunk = model ~ /^gpt/ ? 2 : 1
    exact(3, "none", "none", 0)
    on(1, 0, 2, 1, 1, 2)
    exact(1, "none", "none", 1)
    on(1, 0, 1, 2, 1, 4)
    exact(3, "none", "sel", 0)
    on(2, 1, 1, 1, 2, 2)
    exact(1, "cpu", "full", 2)
    on(1, 0, 1, 1, 1, 4)
    for (zero = 0; zero < 4; zero++)
        long(zero % 2 ? "sel" : "full", zero > 1, zero, 0, zero)
    on(2, 1, 1, 1, 1, 2)
    long("full", 0, 1, 0, 1)
    on(1, 0, 2, 2, 1, 2)
    long("full", 1, 2, 0, 3)
    on(2, 0, 1, 1, 2, 2)
    long("part", 0, 1, 0, 2)
    ep = 1
    untiled = 0
}

# Experts on ranks that share a sequence: a part of these, all of them, and data ranks, too.
function spread_along(form) {
    model = form
    untiled = 1
    ep = 2
    on(1, 0, 1, 2, 1, 1)
    each_stage()
    long("full", 1, 2, 0, 3)
    on(1, 0, 2, 1, 1, 1)
    exact(3, "none", "sel", 1)
    half("bf16", 2, "none")
    long("sel", 0, 1, 0, 1)
    away(1)
    on(1, 0, 1, 4, 1, 1)
    exact(1, "cpu", "full", 2)
    on(2, 1, 1, 2, 2, 1)
    exact(1, "cpu", "none", 1)
    long("full", 1, 1)
    on(1, 0, 2, 1, 2, 2)
    exact(2, "none", "full", 2)
    ep = 4
    on(1, 0, 2, 2, 1, 1)
    exact(0, "none", "mod", 3)
    exact(2, "nvme", "sel", 1)
    half("bf16", 3, "full")
    long("full", 1, 2, 0, 3)
    on(1, 0, 1, 2, 1, 2)
    exact(1, "none", "none", 1)
    on(1, 0, 1, 2, 2, 2)
    chunk = model ~ /^gpt/ ? 2 : model ~ /sparse/ ? 0 : 1
    exact(3, "none", "none", 0)
    on(2, 0, 2, 2, 1, 1)
    exact(0, "none", "part", 2)
    on(2, 1, 2, 1, 1, 2)
    exact(2, "none", "sel", 1)
    long("sel", 1, 0, 0, 1)
    ep = 8
    on(1, 0, 2, 2, 1, 2)
    exact(3, "rest", "full", 3)
    ep = 1
    untiled = 0
}

# Blocks of an MLP among those with experts, and a stage of fewer of them.
function mixed(form) {
    model = form
    untiled = 1
    on(1, 0, 1, 1, 1, 1)
    exact(0, "none", "mod", 1)
    away(1)
    on(2, 1, 1, 1, 1, 2)
    exact(1, "none", "sel", 1)
    half("bf16", 2, "none")
    on(1, 0, 1, 1, 3, 1)
    exact(0, "cpu", "none", 0)
    on(1, 0, 1, 1, 2, 2)
    exact(2, "none", "full", 2)
    chunk = 1
    exact(3, "none", "none", 0)
    on(1, 0, 2, 2, 1, 1)
    long("sel", 1, 1, 0, 3)
    ep = 2
    on(1, 0, 1, 1, 1, 4)
    exact(3, "rest", "full", 3)
    exact(1, "nvme", "none", 1)
    on(1, 0, 1, 1, 2, 2)
    exact(1, "none", "sel", 1)
    ep = 1
    untiled = 0
}

# A shared expert beside them: each axis, exchange and kind of recompute once or twice.
function beside(form) {
    model = form
    untiled = 1
    on(1, 0, 1, 1, 1, 1)
    exact(0, "none", "mod", 1)
    on(2, 0, 1, 1, 1, 1)
    exact(0, "none", "part", 2)
    exact(0, "none", "none", 1)
    on(2, 1, 1, 1, 1, 2)
    exact(1, "none", "sel", 1)
    half("bf16", 1, "none")
    on(1, 0, 2, 1, 2, 1)
    exact(1, "cpu", "full", 2)
    on(1, 0, 1, 2, 1, 2)
    exact(3, "rest", "none", 0)
    long("full", 0, 1, 0, 1)
    on(2, 1, 2, 1, 1, 1)
    long("sel", 0, 1, 0, 0)
    if (model !~ /docs/) {
        ep = 2
        on(1, 0, 1, 1, 1, 4)
        exact(2, "nvme", "sel", 1)
        on(2, 1, 1, 1, 2, 2)
        exact(1, "none", "full", 2)
        on(2, 0, 1, 1, 1, 2)
        long("full", 0, 1, 0, 1)
        ep = 1
    }
    untiled = 0
}

# Muon, wherever matrices have several ranks, or what makes their gradients does.
function muon(form) {
    model = form
    on(1, 0, 1, 1, 1, 1)
    exact(0, "none", "mod", 1)
    exact(0, "cpu", "none", 0)
    exact(0, "nvme", "full", 1)
    long("sel", 1, 0)
    half("bf16", 0, "none")
    for (dp = 2; dp <= 4; dp *= 2) {
        on(1, 0, 1, 1, 1, dp)
        each_stage()
        exact(1, "none", "none", dp / 2)
        exact(2, "nvme", "sel", dp)
        half("bf16", dp == 2 ? 3 : 0, "none")
    }
    for (tp = 2; tp <= 4; tp *= 2) {
        on(tp, 0, 1, 1, 1, 1)
        exact(0, "none", "part", 2)
        on(tp, 1, 1, 1, 1, 1)
        exact(0, "none", "none", 1)
        exact(0, "cpu", "sel", 2)
        half("bf16", 0, "none")
    }
    on(2, 1, 1, 1, 1, 2)
    each_stage()
    half("bf16", 1, "none")
    on(1, 0, 1, 1, 2, 1)
    exact(0, "none", "none", 1)
    on(1, 0, 1, 1, 2, 2)
    exact(0, "none", "sel", 0)
    exact(1, "none", "none", 1)
    on(1, 0, 2, 2, 1, 1)
    exact(0, "none", "sel", 1)
    exact(3, "rest", "none", 2)
    half("bf16", 0, "none")
    on(2, 1, 2, 1, 2, 1)
    exact(1, "cpu", "full", 2)
    exact(2, "none", "none", 1)
    on(2, 0, 1, 2, 1, 2)
    exact(3, "none", "sel", 0)
}

# Experts with what makes updates of each matrix its own.
function some_experts(form) {
    model = form
    untiled = 1
    on(1, 0, 1, 1, 1, 1)
    exact(0, "cpu", "none", 0)
    on(1, 0, 1, 1, 1, 2)
    each_stage()
    on(2, 1, 1, 1, 1, 1)
    exact(0, "none", "none", 1)
    on(2, 1, 1, 1, 1, 2)
    exact(1, "none", "none", 0)
    on(2, 1, 1, 1, 2, 1)
    exact(0, "none", "sel", 1)
    untiled = 0
}

# A penalty on the head's logits, wherever the vocabulary or targets are divided.
function penalty(form) {
    model = form
    on(1, 0, 1, 1, 1, 1)
    long("full", 1, 1)
    on(2, 0, 1, 1, 1, 1)
    exact(0, "none", "none", 0)
    on(4, 1, 1, 1, 1, 1)
    exact(0, "none", "none", 1)
    on(1, 0, 2, 2, 1, 1)
    exact(3, "none", "sel", 1)
    on(2, 1, 1, 1, 2, 1)
    exact(0, "none", "none", 0)
    half("bf16", 0, "none")
    on(1, 0, 1, 1, 1, 2)
    exact(2, "none", "none", 1)
}

# Heads whose logits are clipped, wherever heads, queries, keys or their weights are divided.
function clipped(form) {
    model = form
    on(1, 0, 1, 1, 1, 1)
    exact(0, "cpu", "none", 0)
    exact(0, "nvme", "full", 1)
    long("full", 0, 1, 2)
    on(2, 0, 1, 1, 1, 1)
    exact(0, "none", "part", 2)
    if (form !~ /kv2/) {
        on(4, 1, 1, 1, 1, 1)
        exact(0, "none", "none", 1)
    }
    on(1, 0, 2, 1, 1, 1)
    exact(1, "none", "none", 0)
    long("sel", 1, 1, 2, 3)
    on(1, 0, 1, 2, 1, 1)
    exact(2, "none", "full", 1)
    on(1, 0, 2, 2, 1, 1)
    exact(3, "none", "sel", 2)
    on(2, 1, 1, 1, 2, 1)
    exact(0, "none", "none", 1)
    on(1, 0, 1, 1, 1, 2)
    each_stage()
    half("bf16", 2, "none")
    on(2, 1, 1, 1, 1, 2)
    exact(1, "cpu", "none", 1)
    half("bf16", 3, "none")
}

# Targets of unlike weight, wherever tokens are divided among ranks, micro-batches or tiles.
function weights(form) {
    model = form
    on(1, 0, 1, 1, 1, 1)
    long("full", 1, 0)
    on(2, 1, 1, 1, 1, 1)
    long("sel", 0, 1)
    on(1, 0, 1, 1, 1, 2)
    exact(2, "none", "none", 0)
    on(2, 0, 1, 1, 2, 1)
    exact(0, "none", "none", 1)
    on(1, 0, 2, 2, 1, 1)
    exact(3, "none", "sel", 1)
    half("bf16", 2, "none")
}

# A batch of 4, later of 8, wherever the number of micro-batches shows: when gradients are
# reduced, in the order of a pipeline, in what is offloaded; with the same work for each rank.
function growing(form) {
    model = form
    on(1, 0, 1, 1, 1, 1)
    exact(0, "none", "mod", 1)
    half("fp16", 0, "none")
    on(1, 0, 1, 1, 1, 2)
    each_stage()
    half("bf16", 2, "none")
    on(1, 0, 1, 1, 2, 1)
    exact(0, "none", "none", 1)
    chunk = model ~ /^gpt/ ? 2 : 1
    exact(0, "none", "full", 0)
    on(1, 0, 1, 1, 4, 1)
    exact(0, "none", "none", 0)
    on(1, 0, 2, 1, 2, 2)
    exact(2, "none", "sel", 0)
    on(2, 1, 1, 1, 2, 1)
    exact(0, "cpu", "full", 0)
}

# Key/value heads that several Ulysses ranks have.
function copied(form) {
    model = form
    on(1, 0, 4, 1, 1, 1)
    exact(0, "none", "none", 0)
    long("sel", 1, 0)
    on(2, 1, 2, 2, 1, 1)
    exact(3, "none", "sel", 1)
    long("full", 0, 1)
    half("bf16", 2, "none")
    on(2, 0, 4, 1, 1, 1)
    exact(1, "cpu", "full", 0)
    on(1, 0, 2, 1, 2, 2)
    exact(2, "none", "mod", 3)
}

BEGIN {
    heads["gpt"] = 8
    heads["llama"] = 4
    for (m = 1; m <= 2; m++) {
        model = m == 1 ? "gpt" : "llama"
        for (tp = 1; tp <= 4; tp *= 2)
            for (sp = 0; sp <= (tp > 1); sp++)
                for (ulysses = 1; ulysses <= 4; ulysses *= 2)
                    for (ring = 1; ring <= 4; ring *= 2)
                        if (heads[model] % (tp * ulysses) == 0) pipelines()
    }
    variant("gpt+relu2")
    variant("gpt+erf")
    variant("llama+qkvbias")
    variant("gpt+both")
    variant("llama+qkrow+after")
    variant("gpt+qkrow")
    model = "llama+qkrow"
    on(4, 1, 1, 1, 1, 2)
    exact(2, "none", "full", 1)
    variant("gpt+around")
    variant("gpt+qk")
    variant("llama+qk")
    biased("gpt+alibi")
    biased("gpt+kv6+alibi+docs")
    biased("gpt+win+alibi")
    variant("gpt+docs")
    variant("llama+docs")
    variant("llama+win")
    dropped("gpt+drop")
    dropped("gpt+win+alibi+drop")
    fp8("gpt+fp8")
    fp8("llama+fp8")
    fp8_in_short("gpt+fp8dx")
    fp8_in_short("llama+fp8dx")
    fp8_in_short("gpt+erf+fp8")
    fp8_in_short("llama+qkvbias+fp8")
    muon("gpt+muon")
    muon("llama+muon")
    some_experts("llama+experts+muon")
    spread("llama+experts8")
    spread("gpt+experts8+lone")
    spread("llama+experts8+muon")
    spread("llama+experts8+sigmoid+bias")
    spread_along("llama+experts8")
    spread_along("llama+experts8+docs")
    spread_along("gpt+experts8+lone")
    spread_along("llama+experts8+sigmoid+bias")
    spread_along("llama+experts8+sparse+shared+muon")
    routed("llama+experts")
    routed("gpt+expert1")
    routed("llama+experts+docs")
    routed("llama+experts+sigmoid+bias")
    routed("gpt+expert1sigmoid+bias")
    mixed("llama+experts8+sparse")
    mixed("llama+experts8+sparse+shared+muon")
    beside("llama+experts8+shared")
    beside("gpt+experts8+lone+shared")
    beside("llama+experts8+shared+docs")
    untiled = 1
    fp8_in_short("llama+experts8+shared+fp8")
    fp8_in_short("llama+experts8+fp8")
    fp8_in_short("llama+experts8+sparse+fp8")
    untiled = 0
    penalty("gpt+zloss")
    penalty("llama+docs+kinds+zloss")
    variant("gpt+mup")
    penalty("llama+mup")
    some_experts("llama+experts+mup")
    penalty("llama+mup+muon")
    clipped("gpt+clip")
    clipped("llama+muon+clip")
    clipped("llama+docs+kv2+clip")
    weights("gpt+kinds")
    weights("llama+docs+kinds")
    weights("gpt+docs+stride")
    growing("gpt+ramp")
    growing("llama+docs+ramp")
    copied("gpt+kv2")
    copied("llama+docs+kv2")
    copied("llama+win+kv2")
    model = "llama+kv1"
    for (u = 2; u <= 8; u *= 2) {
        on(1, 0, u, 1, 1, 1)
        exact(0, "none", "none", u)
    }
    half("fp16", 0, "none")
    # Copies of one head at one rank.
    model = "gpt+kv3"
    on(1, 0, 2, 1, 1, 1)
    exact(0, "none", "none", 1)
    on(1, 0, 4, 2, 1, 1)
    exact(3, "none", "sel", 0)
    long("full", 1, 1)
    model = "llama+around+experts"
    untiled = 1
    on(2, 0, 1, 1, 1, 1)
    exact(0, "none", "part", 2)
    on(2, 1, 1, 1, 1, 1)
    exact(0, "none", "sel", 1)
    on(1, 0, 1, 1, 1, 2)
    exact(2, "none", "full", 1)
    untiled = 0
    model = "llama+docs"
    on(1, 0, 1, 4, 1, 1)
    exact(0, "none", "none", 0)
    on(1, 0, 1, 1, 1, 2)
    exact(3, "none", "none", 0)
    on(1, 0, 1, 1, 1, 1)
    plain(1)
    model = "llama+win"
    on(1, 0, 1, 4, 1, 1)
    exact(0, "none", "none", 1)
    plain(0)
    on(1, 0, 1, 2, 2, 1)
    exact(0, "none", "mod", 0)
    on(1, 0, 1, 1, 1, 1)
    plain(1)
    long("sel", 1, 0)
    on(1, 0, 1, 2, 1, 1)
    long("full", 1, 0, 4)
}
