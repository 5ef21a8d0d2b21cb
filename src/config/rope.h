/* SPDX-License-Identifier: BSD-3-Clause */
/* Rotary frequencies, and how --rope-scaling-type changes them.
 *
 * Pair i of rot/2 rotates by f = base^(-2i/rot) radians per token.  With a factor s and
 * sequences of n tokens in the first training, the frequency becomes:
 *
 *   linear  f / s
 *   ntk     f with base s^(rot/(rot-2)) times as large: the highest frequency stays,
 *           the lowest is divided by s
 *   llama3  f for pairs that make more than beta_fast turns in n tokens, f / s for
 *           those that make fewer than beta_slow; in between a mean of both, whose
 *           weight is linear in the number of turns
 *   yarn    the same with a weight that is linear in i, between two whole numbers; cos
 *           and sin are multiplied by an attention factor, 0.1 ln(s) + 1 by default
 *
 * Sources: linear, Chen et al. 2023, arXiv:2306.15595; ntk and yarn, Peng, Quesnelle,
 * Fan, Shippole 2023, arXiv:2309.00071; llama3, transformers' modeling_rope_utils.py.
 * Results are those of transformers.  Its type "dynamic" is ntk with a factor that is
 * computed from the length of each prompt. */
#ifndef MDS_CONFIG_ROPE_H
#define MDS_CONFIG_ROPE_H

#include "config/config.h"

/* rot: how many elements of a head rotate. */
int64_t mds_rope_size(const struct mds_model_config *m);

/* The base of the frequencies, as ntk scales it. */
double mds_rope_base(const struct mds_model_config *m);

/* frequency [mds_rope_size / 2], scaled, in radians per token, highest first. */
void mds_rope_frequencies(const struct mds_model_config *m, double *frequency);

/* The factor of cos and sin; 1 except with yarn. */
double mds_rope_attention_factor(const struct mds_model_config *m);

/* Frequencies with more turns than this are not scaled by yarn and llama3. */
double mds_rope_beta_fast(const struct mds_model_config *m);

/* Names of the scaling types as in --rope-scaling-type; ends with NULL. */
extern const char *const mds_rope_scaling_names[];

#endif
