/* SPDX-License-Identifier: BSD-3-Clause */
#include "io/xxh64.h"

#include <string.h>

static const uint64_t prime1 = 0x9e3779b185ebca87, prime2 = 0xc2b2ae3d27d4eb4f,
                      prime3 = 0x165667b19e3779f9, prime4 = 0x85ebca77c2b2ae63,
                      prime5 = 0x27d4eb2f165667c5;

enum { STRIPE = 32 };

static uint64_t rotate_left(uint64_t x, int bits)
{
    return x << bits | x >> (64 - bits);
}

/* Little-endian, at any address. */
static uint64_t load_lane64(const unsigned char *p)
{
    uint64_t x;

    memcpy(&x, p, sizeof x);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    x = __builtin_bswap64(x);
#endif
    return x;
}

static uint64_t load_lane32(const unsigned char *p)
{
    return (uint64_t)p[0] | (uint64_t)p[1] << 8 | (uint64_t)p[2] << 16 |
           (uint64_t)p[3] << 24;
}

static uint64_t mix_lane(uint64_t acc, uint64_t lane)
{
    return rotate_left(acc + lane * prime2, 31) * prime1;
}

static uint64_t merge_accumulator(uint64_t acc, uint64_t other)
{
    return (acc ^ mix_lane(0, other)) * prime1 + prime4;
}

/* Whole stripes, by four accumulators that do not wait for each other. */
static uint64_t hash_stripes(const unsigned char *p, size_t stripes)
{
    uint64_t a = prime1 + prime2, b = prime2, c = 0, d = 0 - prime1, acc;

    for (size_t i = 0; i < stripes; i++, p += STRIPE) {
        a = mix_lane(a, load_lane64(p));
        b = mix_lane(b, load_lane64(p + 8));
        c = mix_lane(c, load_lane64(p + 16));
        d = mix_lane(d, load_lane64(p + 24));
    }
    acc =
        rotate_left(a, 1) + rotate_left(b, 7) + rotate_left(c, 12) + rotate_left(d, 18);
    return merge_accumulator(
        merge_accumulator(merge_accumulator(merge_accumulator(acc, a), b), c), d);
}

static uint64_t hash_tail(uint64_t acc, const unsigned char *p, size_t n)
{
    for (; n >= 8; n -= 8, p += 8)
        acc = rotate_left(acc ^ mix_lane(0, load_lane64(p)), 27) * prime1 + prime4;
    if (n >= 4) {
        acc = rotate_left(acc ^ load_lane32(p) * prime1, 23) * prime2 + prime3;
        n -= 4;
        p += 4;
    }
    for (; n > 0; n--, p++)
        acc = rotate_left(acc ^ *p * prime5, 11) * prime1;
    return acc;
}

uint64_t mds_xxh64(const void *bytes, size_t n)
{
    const unsigned char *p = bytes;
    size_t stripes = n / STRIPE;
    uint64_t acc = stripes ? hash_stripes(p, stripes) : prime5;

    acc = hash_tail(acc + n, p + stripes * STRIPE, n % STRIPE);
    acc = (acc ^ acc >> 33) * prime2;
    acc = (acc ^ acc >> 29) * prime3;
    return acc ^ acc >> 32;
}
