/* SPDX-License-Identifier: BSD-3-Clause */
/* Self-attention of sequences that may be split over ranks: by heads with Ulysses (an
 * all-to-all: Jacobs et al. 2023, arXiv:2309.14509), by tokens with ring attention
 * (keys and values are sent around: Liu, Zaharia, Abbeel 2023, arXiv:2310.01889;
 * zig-zag order of shard.h), or both: rings of Ulysses groups.
 *
 * Outside layout: rows are this rank's tokens, with all heads of its tensor-parallel
 * shard; q, k, v side by side, [rows, (A + 2G) D].  Inside layout: rows are all tokens
 * of the Ulysses group, with 1/U of those heads, [ring rows, (A + 2 G')/U D].  G' is G,
 * or if U does not divide G its lowest common multiple with U: then each key/value head
 * is at G'/G places inside, so that all queries there have one, and G'/U is a whole
 * number. */
#ifndef MDS_PARALLEL_ATTENTION_H
#define MDS_PARALLEL_ATTENTION_H

#include "parallel/par.h"
#include "parallel/rope.h"

struct mds_attention {
    int64_t A, G, D;    /* heads of this tensor-parallel rank; U, G divide A */
    double scale;       /* of scores */
    int64_t first_head; /* index of the first one among all heads */
    int64_t before,
        behind; /* heads of other groups in a row of the result; A divides */
    const struct mds_rope *rope; /* NULL: no rotation; borrowed */
    int64_t alibi_heads;         /* all of the model; 0: no ALiBi */
    int64_t window;              /* keys that a query sees; 0: all earlier ones */
    struct mdsk_dropout_key dropout;
    int unfused; /* unfused math attention: see mdsk_attention_shape */
};

/* G'. */
static inline int64_t mds_attention_kv_heads(int64_t G, int64_t U)
{
    int64_t all = G;

    while (all % U)
        all += G;
    return all;
}

/* Tag of the lane to the rank before that windows need beside the ring's lanes. */
enum { MDS_WINDOW_LANE = 2 };

/* Tokens first .. first + n - 1 of p's. */
struct mds_token_range {
    int64_t first, n;
};

/* Rotate queries and keys of these tokens in qkv [n B, (A + 2G) D]; inverse: back. */
enum mds_rc mds_attention_rotate(const struct mds_par *p, const struct mds_attention *a,
                                 struct mds_token_range s, void *qkv, int inverse);

/* Attention itself, in the inside layout: heads, d_heads [ring rows, (before + A +
 * behind)/U D], of which A/U heads are read or written; lse [B, A/U, ring tokens] f32.
 * dinside is the gradient of rotated queries and keys. */
enum mds_rc mds_attention_fwd(const struct mds_par *p, const struct mds_attention *a,
                              const void *inside, void *heads, float *lse);
enum mds_rc mds_attention_bwd(const struct mds_par *p, const struct mds_attention *a,
                              const void *inside, const void *heads, const float *lse,
                              const void *d_heads, void *dinside);

/* most [heads of the model] f32: of the heads here, raised to the largest of lse, as
 * mds_attention_fwd left it. */
enum mds_rc mds_attention_most(const struct mds_par *p, const struct mds_attention *a,
                               const float *lse, float *most);

/* Keys and values of what a sequence has had so far.  Ranks that split sequences
 * (Ulysses and ring) have its blocks of tokens in turn, with all heads. */
struct mds_kv_cache {
    void *kv;      /* [tokens, B, 2 G D]: of each token its keys, then its values */
    int on_host;   /* kv is in host memory */
    int64_t first; /* tokens that all ranks' have together: p's are those that follow */
    int64_t
        block; /* tokens of a block; not used by a rank that has all on its device */
    int64_t tokens;       /* that it has room for */
    const int32_t *place; /* mdsk_attention_cached's, for one token; or NULL */
};

/* Of caches for S tokens: the tokens of a block, and those that each rank has. */
int64_t mds_kv_cache_block(const struct mds_groups *g, int64_t S);
int64_t mds_kv_cache_tokens(const struct mds_groups *g, int64_t S);

/* Append keys and values of p's tokens (mds_par_set_new_tokens), qkv [rows, (A + 2G)
 * D], to the cache, which has room for them, and let p's queries attend to all that
 * ranks have then.  o as above, lse [B, A, tokens], which is not written where ranks
 * split sequences, nor with a cache on the host.  Collective over these ranks. */
enum mds_rc mds_attention_cached_fwd(const struct mds_par *p,
                                     const struct mds_attention *a,
                                     const struct mds_kv_cache *cache, const void *qkv,
                                     void *o, float *lse);

/* ---- Ulysses all-to-all of a token range ----
 *
 * Exchange a range of p's tokens between the outside layout (rows [n B,
 * ...] with all heads) and the inside buffers, which hold all tokens.  Collective over
 * the Ulysses group, which has more than one rank; all ranks pass the same range.
 *
 * put: send qkv [n B, (A + 2G) D] inside.  get: fetch the range's gradient dqkv from
 * dinside, the sum over places of a head. */
enum mds_rc mds_attention_put_qkv(const struct mds_par *p,
                                  const struct mds_attention *a,
                                  struct mds_token_range s, void *qkv, void *inside);
enum mds_rc mds_attention_get_qkv(const struct mds_par *p,
                                  const struct mds_attention *a,
                                  struct mds_token_range s, void *dinside, void *dqkv);

/* put: send o [n B, (before + A + behind) D], or its gradient, into heads [ring rows,
 * .../U].  get: fetch it from there.  All groups of heads are sent together. */
enum mds_rc mds_attention_put_o(const struct mds_par *p, const struct mds_attention *a,
                                struct mds_token_range s, void *o, void *heads);
enum mds_rc mds_attention_get_o(const struct mds_par *p, const struct mds_attention *a,
                                struct mds_token_range s, void *heads, void *o);

#endif
