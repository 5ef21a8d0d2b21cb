/* SPDX-License-Identifier: BSD-3-Clause */
/* Lookup, and the sums of its gradient by words.
 *
 * The gradient's rows are sorted by word (stably: the rows of a word keep their order),
 * and the sorted list is cut into tiles.  Each tile sums the rows of each of its words.
 * If all rows of a word are in one tile, that sum is final.  If they are in several
 * tiles, the tiles' sums are kept and then added in the order of tiles.  So a word that
 * makes up most of a text costs no more than many words, and the order of additions is
 * always the same. */
#include "kernels/embedding.h"

#include <cub/device/device_radix_sort.cuh>

#include "kernels/cuda/launch.cuh"

namespace
{

using namespace mdsk;

/* Size of a table that stays in the cache beside the other data. */
constexpr int64_t cached_bytes = 16 << 20;

template <class T> struct lookup {
    struct mdsk_embedding_fwd a;

    template <int N> __device__ void run(int64_t r, int64_t c) const
    {
        int64_t w = a.token[r] - a.first_word;
        float v[N] = {}, p[N];

        if (w >= 0 && w < a.words)
            load((const T *)a.word + w * a.H + c, v);
        if (a.position) {
            int64_t s = a.first_token + (a.B == 1 ? r : r / a.B);

            s -= a.start ? a.start[r] : 0;
            load((const T *)a.position + s * a.H + c, p);
#pragma unroll
            for (int j = 0; j < N; j++)
                v[j] += p[j];
        }
        store(v, (T *)a.y + r * a.H + c);
    }
};

/* The gradient of a learned position: the sum over its B rows, which are adjacent. */
template <class T> struct position_sums {
    struct mdsk_embedding_bwd a;

    template <int N> __device__ void run(int64_t s, int64_t c) const
    {
        float sum[N] = {}, v[N];

        for (int64_t b = 0; b < a.B; b++) {
            load((const T *)a.dy + (s * a.B + b) * a.H + c, v);
#pragma unroll
            for (int j = 0; j < N; j++)
                sum[j] += v[j];
        }
        add_to(a.dposition + (a.first_token + s) * a.H + c, sum);
    }
};

/* The word of each row from `first` on, `words` if it is another rank's, and the row
 * itself.  Without tokens the row's position is its word. */
struct make_sort_keys {
    struct mdsk_embedding_bwd a;
    int64_t first;
    uint32_t *word, *row;

    template <int N> __device__ void run(int64_t i) const
    {
        int64_t r = first + i, words = a.words;
        int64_t w =
            a.token ? a.token[r] - a.first_word : a.first_token + r / a.B - a.start[r];

        word[i] = (uint32_t)(w >= 0 && w < words ? w : words);
        row[i] = (uint32_t)i;
    }
};

/* n rows sorted by word, in tiles of `size` rows; dy is that of row 0. */
struct sorted_rows {
    const uint32_t *word, *row;
    int64_t n, size, H;
    uint32_t words;
    const void *dy;
    float *dword;
    /* [tiles, H], sums of a tile's first word if it begins in a tile before, and of its
     * last word if it continues in the next tile */
    float *head, *tail;

    /* Whether rows p - 1 and p have the same word. */
    __device__ bool is_split_at(int64_t p) const
    {
        return p > 0 && p < n && word[p - 1] == word[p];
    }
};

constexpr int threads = 128, rows_at_once = 8;

/* Block (tile, j) sums columns j * threads * N .. of a tile.  Words of other ranks are
 * sorted last and skipped.  The old gradient of a word is loaded together with the
 * word's last row, so that both loads are in flight at once. */
template <class T, int N>
__global__ __launch_bounds__(threads) void sum_tiles(sorted_rows x)
{
    int64_t begin = blockIdx.x * x.size, end = min(begin + x.size, x.n);
    int64_t c = ((int64_t)blockIdx.y * threads + threadIdx.x) * N;
    uint32_t head, tail; /* words with rows in other tiles; x.words: none */
    float sum[N] = {};

    while (end > begin && x.word[end - 1] >= x.words)
        end--;
    if (end == begin || c >= x.H)
        return;
    head = x.is_split_at(begin) ? x.word[begin] : x.words;
    tail = x.is_split_at(end) ? x.word[end - 1] : x.words;
    for (int64_t p = begin; p < end; p += rows_at_once) {
        uint32_t word[rows_at_once + 1];
        pack<T, N> dy[rows_at_once];
        float was[rows_at_once][N];

#pragma unroll
        for (int i = 0; i <= rows_at_once; i++)
            word[i] = p + i < end ? x.word[p + i] : x.words;
#pragma unroll
        for (int i = 0; i < rows_at_once; i++) {
            if (word[i] < x.words)
                dy[i] = fetch<N>((const T *)x.dy + x.row[p + i] * x.H + c);
            if (word[i] != word[i + 1] && word[i] != head && word[i] != tail)
                load((const float *)x.dword + word[i] * x.H + c, was[i]);
        }
#pragma unroll
        for (int i = 0; i < rows_at_once; i++) {
            if (word[i] == x.words)
                break;
#pragma unroll
            for (int j = 0; j < N; j++)
                sum[j] += dy[i][j];
            if (word[i] == word[i + 1])
                continue;
            if (word[i] == head)
                store(sum, x.head + blockIdx.x * x.H + c);
            else if (word[i] == tail)
                store(sum, x.tail + blockIdx.x * x.H + c);
            else {
#pragma unroll
                for (int j = 0; j < N; j++)
                    sum[j] += was[i][j];
                store(sum, x.dword + word[i] * x.H + c);
            }
#pragma unroll
            for (int j = 0; j < N; j++)
                sum[j] = 0;
        }
    }
}

/* The index after the last row of the word of row p. */
__device__ int64_t end_of_word(const sorted_rows &x, int64_t p)
{
    int64_t low = p + 1, high = x.n;

    while (low < high) {
        int64_t middle = low + (high - low) / 2;

        if (x.word[middle] == x.word[p])
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Add up the tiles' sums of the word that begins in this tile and continues in the
 * next, if there is one. */
template <int N>
__global__ __launch_bounds__(threads) void add_split_words(sorted_rows x)
{
    int64_t tile = blockIdx.x, begin = tile * x.size, end = begin + x.size, last;
    int64_t c = ((int64_t)blockIdx.y * threads + threadIdx.x) * N;
    float sum[N], v[N];

    if (c >= x.H || !x.is_split_at(end) || x.word[end] >= x.words ||
        (x.is_split_at(begin) && x.word[begin] == x.word[end]))
        return;
    last = (end_of_word(x, end) - 1) / x.size;
    load((const float *)x.tail + tile * x.H + c, sum);
#pragma unroll 8
    for (int64_t t = tile + 1; t <= last; t++) {
        load((const float *)x.head + t * x.H + c, v);
#pragma unroll
        for (int j = 0; j < N; j++)
            sum[j] += v[j];
    }
    add_to(x.dword + x.word[end] * x.H + c, sum);
}

/* Limits on working memory: rows sorted at a time, and bytes of sums. */
constexpr int64_t max_rows = 1 << 20, max_sums = 16 << 20;

/* How working memory is divided. */
struct plan {
    int64_t n, size, tiles, bytes;
    size_t sort_bytes;
    int bits;
    uint32_t *word[2], *row[2]; /* before and after sorting */
    void *sort;
    float *head, *tail;
};

int64_t round_up(int64_t bytes)
{
    return ceil_div(bytes, 256) * 256;
}

cudaError_t sort_rows(struct plan *p, void *scratch, void *stream)
{
    return cub::DeviceRadixSort::SortPairs(scratch, p->sort_bytes,
                                           (const uint32_t *)p->word[0], p->word[1],
                                           (const uint32_t *)p->row[0], p->row[1],
                                           (int)p->n, 0, p->bits, (cudaStream_t)stream);
}

int make_plan(void *stream, const struct mdsk_embedding_bwd *a, int64_t n,
              struct plan *p)
{
    int64_t list = round_up(n * (int64_t)sizeof(uint32_t)), sums;
    int64_t fit = max_sums / (2 * a->H * (int64_t)sizeof(float));
    char *at;
    int err;

    *p = plan();
    p->n = n;
    p->size = ceil_div(n, fit > 1 ? fit : 1);
    p->size = p->size > 64 ? p->size : 64;
    p->tiles = ceil_div(n, p->size);
    sums = round_up(p->tiles * a->H * (int64_t)sizeof(float));
    for (p->bits = 1; a->words >> p->bits; p->bits++)
        ;
    err = mdsk_cuda_rc(sort_rows(p, NULL, NULL));
    if (err)
        return err;
    p->bytes = 4 * list + 2 * sums + round_up((int64_t)p->sort_bytes);
    at = (char *)mdsk_cuda_scratch((cudaStream_t)stream, MDSK_CUDA_REDUCE, p->bytes);
    if (!at)
        return -ENOMEM;
    for (int i = 0; i < 2; i++) {
        p->word[i] = (uint32_t *)(at + i * list);
        p->row[i] = (uint32_t *)(at + (2 + i) * list);
    }
    p->head = (float *)(at + 4 * list);
    p->tail = (float *)(at + 4 * list + sums);
    p->sort = at + 4 * list + 2 * sums;
    return 0;
}

/* Add rows first .. first+n-1 of dy to dword. */
template <class T, int N>
int add_gradient_rows(void *stream, const struct mdsk_embedding_bwd *a, int64_t first,
                      int64_t n)
{
    struct plan p;
    int err = make_plan(stream, a, n, &p);
    dim3 blocks;
    sorted_rows x;

    if (err)
        return err;
    x = sorted_rows{p.word[1],
                    p.row[1],
                    n,
                    p.size,
                    a->H,
                    (uint32_t)a->words,
                    (const T *)a->dy + first * a->H,
                    a->dword,
                    p.head,
                    p.tail};
    blocks =
        dim3(mdsk_cuda_blocks(p.tiles), mdsk_cuda_blocks(ceil_div(a->H, threads * N)));
    err = each<1>(stream, n, make_sort_keys{*a, first, p.word[0], p.row[0]});
    if (!err)
        err = mdsk_cuda_rc(sort_rows(&p, p.sort, stream));
    if (!err)
        err = launch(sum_tiles<T, N>, blocks, threads, stream, x);
    if (!err)
        err = launch(add_split_words<N>, blocks, threads, stream, x);
    return err;
}

template <class T, int N>
int add_all_rows(void *stream, const struct mdsk_embedding_bwd *a)
{
    int64_t R = a->B * a->S;
    int err = 0;

    for (int64_t r = 0; !err && r < R; r += max_rows)
        err =
            add_gradient_rows<T, N>(stream, a, r, R - r < max_rows ? R - r : max_rows);
    return err;
}

/* Positions that begin again are summed as words are. */
template <class T, int N>
int add_positions(void *stream, const struct mdsk_embedding_bwd *a)
{
    struct mdsk_embedding_bwd as_words = *a;

    if (!a->start)
        return each_row<N>(stream, a->S, a->H, position_sums<T>{*a});
    as_words.token = NULL;
    as_words.words = a->first_token + a->S;
    as_words.dword = a->dposition;
    return add_all_rows<T, N>(stream, &as_words);
}

} // namespace

extern "C" int mdsk_embedding_fwd_cuda(void *stream, const struct mdsk_embedding_fwd *a)
{
    int64_t row = a->H * (int64_t)mdsk_dtype_size(a->dtype);
    bool wide = aligned({a->word, a->position, a->y}) && row % 16 == 0;
    bool exceeds_cache =
        a->words * row > cached_bytes; /* then wider loads hide the latency */

    return with_storage(a->dtype, wide, [&](auto type, auto width) {
        constexpr int N = width();
        lookup<decltype(type)> f = {*a};

        if (N > 1 && exceeds_cache && a->H % (2 * N) == 0)
            return each_row<2 * N>(stream, a->B * a->S, a->H, f);
        return each_row<N>(stream, a->B * a->S, a->H, f);
    });
}

extern "C" int mdsk_embedding_bwd_cuda(void *stream, const struct mdsk_embedding_bwd *a)
{
    bool wide = aligned({a->dy, a->dword, a->dposition}) &&
                a->H * (int64_t)mdsk_dtype_size(a->dtype) % 16 == 0;

    return with_storage(a->dtype, wide, [&](auto type, auto width) {
        typedef decltype(type) T;
        constexpr int N = width();
        int err = add_all_rows<T, N>(stream, a);

        return err || !a->dposition ? err : add_positions<T, N>(stream, a);
    });
}
