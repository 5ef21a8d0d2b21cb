/* SPDX-License-Identifier: BSD-3-Clause */
/* SHA-256 by the instructions that x86-64 has for it, several times as fast. */
#include "io/sha256_x86.h"
#include "config.h"

#if defined MDS_SIMD_DISPATCH && defined __x86_64__
#include <cpuid.h>
#include <immintrin.h>

int mds_sha256_x86_works(void)
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
__attribute__((target("sha,sse4.1"))) void
mds_sha256_x86(uint32_t h[8], const unsigned char *block, const uint32_t constant[64])
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
        __m128i k = _mm_add_epi32(*now, load(constant + 4 * i));

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
int mds_sha256_x86_works(void)
{
    return 0;
}

void mds_sha256_x86(uint32_t h[8], const unsigned char *block,
                    const uint32_t constant[64])
{
    (void)h, (void)block, (void)constant;
}
#endif
