/* SPDX-License-Identifier: BSD-3-Clause */
#include "io/sha256.h"
#include "config.h"

#include <stdio.h>
#include <string.h>
#if defined MDS_SIMD_DISPATCH && defined __x86_64__
#include <cpuid.h>
#include <immintrin.h>
#endif

static const uint32_t round_constants[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4,
    0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe,
    0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f,
    0x4a7484aa, 0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7,
    0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc,
    0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b,
    0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116,
    0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7,
    0xc67178f2,
};

#if defined MDS_SIMD_DISPATCH && defined __x86_64__
/* By the instructions that x86-64 has for it, several times as fast. */
static int has_instructions(void)
{
    unsigned a, b = 0, c, d;

    return __builtin_cpu_supports("sse4.1") &&
           __get_cpuid_count(7, 0, &a, &b, &c, &d) && b & 1u << 29;
}

static __m128i load(const void *from)
{
    return _mm_loadu_si128(from);
}

/* The instructions want the variables a to h in two registers, as a b e f and c d g h,
 * the first one highest.  Each makes two rounds.  w[i % 4] has the message schedule of
 * rounds 4 i to 4 i + 3.  Source: Intel SHA Extensions, Gulley et al., July 2013. */
__attribute__((target("sha,sse4.1"))) static void
compress_by_instructions(uint32_t h[8], const unsigned char *block)
{
    const __m128i big_endian = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
    __m128i abcd = _mm_shuffle_epi32(load(h), 0x1b);
    __m128i efgh = _mm_shuffle_epi32(load(h + 4), 0x1b);
    __m128i abef = _mm_unpackhi_epi64(efgh, abcd), start_abef = abef;
    __m128i cdgh = _mm_unpacklo_epi64(efgh, abcd), start_cdgh = cdgh;
    __m128i w[4];

    for (int i = 0; i < 4; i++)
        w[i] = _mm_shuffle_epi8(load(block + 16 * i), big_endian);
#pragma GCC unroll 16
    for (int i = 0; i < 16; i++) {
        __m128i *now = &w[i % 4], before = w[(i + 3) % 4];
        __m128i k = _mm_add_epi32(*now, load(round_constants + 4 * i));

        cdgh = _mm_sha256rnds2_epu32(cdgh, abef, k);
        abef = _mm_sha256rnds2_epu32(abef, cdgh, _mm_shuffle_epi32(k, 0x0e));
        *now = _mm_add_epi32(_mm_sha256msg1_epu32(*now, w[(i + 1) % 4]),
                             _mm_alignr_epi8(before, w[(i + 2) % 4], 4));
        *now = _mm_sha256msg2_epu32(*now, before);
    }
    abef = _mm_add_epi32(abef, start_abef);
    cdgh = _mm_add_epi32(cdgh, start_cdgh);
    _mm_storeu_si128((__m128i *)h,
                     _mm_shuffle_epi32(_mm_unpackhi_epi64(cdgh, abef), 0x1b));
    _mm_storeu_si128((__m128i *)(h + 4),
                     _mm_shuffle_epi32(_mm_unpacklo_epi64(cdgh, abef), 0x1b));
}

#else
static int has_instructions(void)
{
    return 0;
}

static void compress_by_instructions(uint32_t h[8], const unsigned char *block)
{
    (void)h, (void)block;
}
#endif

void mds_sha256_init(struct mds_sha256 *s)
{
    static const uint32_t start[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                      0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};

    memcpy(s->h, start, sizeof start);
    s->bytes = 0;
    s->has_instructions = has_instructions();
}

static uint32_t rotate_right(uint32_t x, int n)
{
    return x >> n | x << (32 - n);
}

static void expand_message_schedule(const unsigned char block[64], uint32_t w[64])
{
    for (int t = 0; t < 16; t++)
        w[t] = (uint32_t)block[4 * t] << 24 | (uint32_t)block[4 * t + 1] << 16 |
               (uint32_t)block[4 * t + 2] << 8 | block[4 * t + 3];
    for (int t = 16; t < 64; t++) {
        uint32_t s0 =
            rotate_right(w[t - 15], 7) ^ rotate_right(w[t - 15], 18) ^ w[t - 15] >> 3;
        uint32_t s1 =
            rotate_right(w[t - 2], 17) ^ rotate_right(w[t - 2], 19) ^ w[t - 2] >> 10;

        w[t] = w[t - 16] + s0 + w[t - 7] + s1;
    }
}

/* In round t the variable that the standard calls number j is v[(j - t) % 8], so that
 * nothing moves. */
static void compress_portably(uint32_t h[8], const unsigned char block[64])
{
    uint32_t w[64], v[8];

    expand_message_schedule(block, w);
    memcpy(v, h, sizeof v);
    for (int t = 0; t < 64; t += 8) {
#pragma GCC unroll 8
        for (int i = 0; i < 8; i++) {
            uint32_t a = v[-i & 7], b = v[(1 - i) & 7], c = v[(2 - i) & 7];
            uint32_t e = v[(4 - i) & 7], f = v[(5 - i) & 7], g = v[(6 - i) & 7];
            uint32_t s1 =
                rotate_right(e, 6) ^ rotate_right(e, 11) ^ rotate_right(e, 25);
            uint32_t s0 =
                rotate_right(a, 2) ^ rotate_right(a, 13) ^ rotate_right(a, 22);
            uint32_t t1 = v[(7 - i) & 7] + s1 + (g ^ (e & (f ^ g))) +
                          round_constants[t + i] + w[t + i];

            v[(3 - i) & 7] += t1;
            v[(7 - i) & 7] = t1 + s0 + ((a & b) | (c & (a | b)));
        }
    }
    for (int i = 0; i < 8; i++)
        h[i] += v[i];
}

static void compress_block(struct mds_sha256 *s, const unsigned char block[64])
{
    if (s->has_instructions)
        compress_by_instructions(s->h, block);
    else
        compress_portably(s->h, block);
}

void mds_sha256_add(struct mds_sha256 *s, const void *bytes, size_t n)
{
    const unsigned char *p = bytes;
    size_t held = s->bytes % 64;

    s->bytes += n;
    while (n > 0) {
        size_t take = 64 - held < n ? 64 - held : n;

        if (take == 64) {
            compress_block(s, p);
        } else {
            memcpy(s->block + held, p, take);
            if (held + take == 64)
                compress_block(s, s->block);
        }
        held = (held + take) % 64;
        p += take;
        n -= take;
    }
}

void mds_sha256_hex(const struct mds_sha256 *s, char hex[65])
{
    static const unsigned char padding[64] = {0x80};
    struct mds_sha256 end = *s;
    unsigned char length[8];

    for (int i = 0; i < 8; i++)
        length[i] = (unsigned char)(s->bytes * 8 >> (56 - 8 * i));
    mds_sha256_add(&end, padding, 1 + (119 - s->bytes % 64) % 64);
    mds_sha256_add(&end, length, 8);
    for (int i = 0; i < 8; i++)
        snprintf(hex + 8 * i, 9, "%08x", (unsigned)end.h[i]);
}
