/* SPDX-License-Identifier: BSD-3-Clause */
/* Rotary frequencies, and what the options of --rope-scaling-type do to them.
 *
 * Pair i of rot/2 turns by f = base^(-2i/rot) radians a token.  With a factor s, and
 * sequences that had n tokens in the first training:
 *
 *   linear  f / s
 *   ntk     the base is base s^(rot/(rot-2)): the fastest pair keeps its frequency, the
 *           slowest is divided by s
 *   llama3  f of pairs that make more than beta_fast turns in n tokens, f / s of those
 *           that make fewer than beta_slow, in between a mean of both, linear in turns
 *   yarn    the same, but linear in i, between whole numbers; and cos and sin are
 *           multiplied by an attention factor, 0.1 ln(s) + 1 unless given
 *
 * Sources: linear, Chen et al. 2023, arXiv:2306.15595; ntk and yarn, Peng, Quesnelle,
 * Fan, Shippole 2023, arXiv:2309.00071; llama3, transformers' modeling_rope_utils.py,
 * whose results all of them have.  Its type "dynamic" is ntk with a factor that follows
 * from each prompt's length. */
#ifndef MDS_CONFIG_ROPE_H
#define MDS_CONFIG_ROPE_H

#include "config/config.h"

/* Elements of a head that rotate. */
int64_t mds_rope_size(const struct mds_model_config *m);

/* The base of the frequencies, with ntk's factor. */
double mds_rope_base(const struct mds_model_config *m);

/* frequency [mds_rope_size / 2], radians a token, fastest first */
void mds_rope_frequencies(const struct mds_model_config *m, double *frequency);

/* What cos and sin are multiplied by; 1 but with yarn. */
double mds_rope_attention_factor(const struct mds_model_config *m);

/* The number of turns from which yarn and llama3 keep a frequency. */
double mds_rope_beta_fast(const struct mds_model_config *m);

/* Names of the kinds, as in --rope-scaling-type; NULL at the end. */
extern const char *const mds_rope_scaling_names[];

#endif
