#include "graph/param.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/hash.h"
#include "base/memory.h"
#include "base/random.h"
#include "graph/graph.h"
#include "graph/shape.h"
#include "kernels/ops.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the weights hash reads memory as little-endian values");

static int64_t round_up(int64_t n, int64_t unit)
{
    return (n + unit - 1) / unit * unit;
}

static int find(const lsi_param_table *table, const char *name, uint64_t key)
{
    for (int i = 0; i < table->n; i++) {
        if (table->param[i].key == key && strcmp(table->param[i].name, name) == 0) {
            return i;
        }
    }
    return -1;
}

uint64_t lsi_param_identity(const lsi_param_table *table)
{
    uint64_t identity = (uint64_t)table->n;

    for (int i = 0; i < table->n; i++) {
        const lsi_param *p = &table->param[i];
        const struct {
            uint64_t before, key;
            int64_t rank, dim[LS_MAX_RANK], offset, kind;
            double value;
        } words = {
            .before = identity,
            .key = p->key,
            .rank = p->shape.rank,
            .dim = {p->shape.dim[0], p->shape.dim[1], p->shape.dim[2], p->shape.dim[3]},
            .offset = p->offset,
            .kind = (int64_t)p->init.kind,
            .value = (double)p->init.value,
        };

        identity = lsi_hash64(&words, sizeof words);
    }
    return identity;
}

int lsi_param_find(const lsi_param_table *table, const char *name)
{
    return find(table, name, lsi_hash_text(name));
}

int lsi_param_at(const lsi_param_table *table, int64_t element)
{
    int low = 0, high = table->n - 1;

    while (low < high) {
        int middle = low + (high - low + 1) / 2;

        if (table->param[middle].offset <= element) {
            low = middle;
        } else {
            high = middle - 1;
        }
    }
    return low;
}

static int64_t padded_count(const ls_param_spec *spec)
{
    int64_t count = ls_shape_count(&spec->shape);

    return spec->padded_rows == 0 ? count : count / spec->shape.dim[0] * spec->padded_rows;
}

static ls_status share(const lsi_param *p, const char *layer, const ls_param_spec *spec)
{
    LS_REQUIRE(lsi_shape_equal(&p->shape, &spec->shape), LS_ERR_CONFIG,
               "layer '%s' shares parameter '%s' as %s, but its shape is %s", layer, p->name,
               lsi_shape_text(&spec->shape).text, lsi_shape_text(&p->shape).text);
    LS_REQUIRE(p->padded_count == padded_count(spec), LS_ERR_CONFIG,
               "layer '%s' shares parameter '%s' %s padded to %" PRId64 " elements, but it is padded to %" PRId64,
               layer, p->name, lsi_shape_text(&p->shape).text, padded_count(spec), p->padded_count);
    return LS_OK;
}

ls_status lsi_param_declare(lsi_param_table *table, int *room, const char *layer, const ls_param_spec *spec, int *out)
{
    uint64_t key = lsi_hash_text(spec->name);
    int known = find(table, spec->name, key);
    bool positive = spec->shape.rank >= 1;

    for (int i = 0; i < spec->shape.rank; i++) {
        positive = positive && spec->shape.dim[i] > 0;
    }
    LS_REQUIRE(positive && (spec->padded_rows == 0 || spec->padded_rows >= spec->shape.dim[0]), LS_ERR_CONFIG,
               "layer '%s': parameter '%s' has shape %s, padded to %" PRId64 " rows", layer, spec->name,
               lsi_shape_text(&spec->shape).text, spec->padded_rows);
    if (spec->shared) {
        LS_REQUIRE(known >= 0, LS_ERR_CONFIG, "layer '%s' shares parameter '%s', which no layer before it has", layer,
                   spec->name);
        *out = known;
        return share(&table->param[known], layer, spec);
    }
    LS_REQUIRE(known < 0, LS_ERR_CONFIG, "layer '%s': there is a parameter '%s' %s already", layer, spec->name,
               lsi_shape_text(&table->param[known].shape).text);
    void *params = table->param;

    LS_TRY(lsi_graph_grow(table->n, room, sizeof(lsi_param), &params));
    table->param = params;
    lsi_param *p = &table->param[table->n];
    const lsi_param *last = table->n > 0 ? p - 1 : NULL;

    *p = (lsi_param){.shape = spec->shape,
                     .count = ls_shape_count(&spec->shape),
                     .padded_count = padded_count(spec),
                     .offset = last == NULL ? 0 : round_up(last->offset + last->padded_count, LSI_PARAM_ALIGN),
                     .group = spec->shape.rank >= 2 ? LSI_GROUP_DECAY : LSI_GROUP_NO_DECAY,
                     .init = spec->init,
                     .key = key};
    LS_TRY(lsi_memory_strdup(spec->name, &p->name));
    table->n_elements = round_up(p->offset + p->padded_count, LSI_BLOCK);
    table->n_counted += p->count;
    *out = table->n++;
    return LS_OK;
}

void lsi_param_free(lsi_param_table *table)
{
    for (int i = 0; i < table->n; i++) {
        lsi_memory_free(table->param[i].name);
    }
    lsi_memory_free(table->param);
}

/* ---- initial values ------------------------------------------------------------------------------------------ */

/* Box-Muller: two words give two independent normal values. 32 bits each, the first in (0, 1] for the logarithm. */
static void normal_pair(uint32_t a, uint32_t b, double deviation, float out[2])
{
    double radius = deviation * sqrt(-2.0 * log(((double)a + 1.0) * 0x1p-32));
    double angle = 6.283185307179586476925 * ((double)b * 0x1p-32);

    out[0] = (float)(radius * cos(angle));
    out[1] = (float)(radius * sin(angle));
}

static void draw4(const ls_init *init, lsi_random4 r, float out[4])
{
    if (init->kind == LS_INIT_NORMAL) {
        normal_pair(r.v[0], r.v[1], (double)init->value, out);
        normal_pair(r.v[2], r.v[3], (double)init->value, out + 2);
        return;
    }
    for (int i = 0; i < 4; i++) {
        out[i] = (2.0f * lsi_random_unit(r.v[i]) - 1.0f) * init->value;
    }
}

/* Elements [first, first + count) of the parameter; first is a multiple of 4. */
static void init_elements(const lsi_param *p, uint64_t seed, int64_t first, int64_t count, float *out)
{
    uint64_t key = lsi_random_key(seed, p->key);

    for (int64_t i = 0; i < count; i += 4) {
        float four[4] = {p->init.value, p->init.value, p->init.value, p->init.value};
        int64_t n = count - i < 4 ? count - i : 4, group = (first + i) / 4;

        if (p->init.kind != LS_INIT_CONSTANT) {
            draw4(&p->init, lsi_random_philox(key, (uint32_t)group, (uint32_t)(group >> 32), 0, 1), four);
        }
        memcpy(out + i, four, (size_t)n * sizeof(float));
    }
}

void lsi_param_init(const lsi_param_table *table, uint64_t seed, int64_t first, int64_t count, float *out)
{
    memset(out, 0, (size_t)count * sizeof(float));
    for (int i = table->n == 0 ? 0 : lsi_param_at(table, first); i < table->n; i++) {
        const lsi_param *p = &table->param[i];
        int64_t from = p->offset > first ? p->offset : first;
        int64_t end = p->offset + p->count, to = end < first + count ? end : first + count;

        if (p->offset >= first + count) {
            break;
        }
        if (from < to) {
            init_elements(p, seed, from - p->offset, to - from, out + (from - first));
        }
    }
}

/* ---- hash ---------------------------------------------------------------------------------------------------- */

enum { HASH_PIECE = 65536 / sizeof(float), HASH_BYTES = 16, PIECES_PER_READ = 64 };

/* Hashes the pieces of one parameter to *next on, which moves behind them. */
static ls_status hash_pieces(const lsi_param *p, lsi_param_reader read, void *argument, float *host,
                             unsigned char **next)
{
    enum { READ = HASH_PIECE * PIECES_PER_READ };

    for (int64_t start = 0; start < p->count; start += READ) {
        int64_t n_read = p->count - start < READ ? p->count - start : READ;

        LS_TRY(read(argument, p->offset + start, n_read, host));
        for (int64_t at = 0; at < n_read; at += HASH_PIECE) {
            int64_t n = n_read - at < HASH_PIECE ? n_read - at : HASH_PIECE;

            lsi_hash128(host + at, (size_t)n * sizeof(float), *next);
            *next += HASH_BYTES;
        }
    }
    return LS_OK;
}

ls_status lsi_param_hash(const lsi_param_table *table, lsi_param_reader read, void *argument, char out[33])
{
    const size_t read_bytes = (size_t)HASH_PIECE * PIECES_PER_READ * sizeof(float);
    int64_t n_pieces = 0;
    ls_status status = LS_OK;
    void *memory;

    for (int i = 0; i < table->n; i++) {
        n_pieces += round_up(table->param[i].count, HASH_PIECE) / HASH_PIECE;
    }
    LS_TRY(lsi_memory_alloc(read_bytes + (size_t)n_pieces * HASH_BYTES, "hashes of weights", &memory));
    unsigned char *hashes = (unsigned char *)memory + read_bytes, *next = hashes;

    for (int i = 0; status == LS_OK && i < table->n; i++) {
        status = hash_pieces(&table->param[i], read, argument, memory, &next);
    }
    if (status == LS_OK) {
        unsigned char all[HASH_BYTES];

        lsi_hash128(hashes, (size_t)n_pieces * HASH_BYTES, all);
        lsi_hash128_hex(all, out);
    }
    lsi_memory_free(memory);
    return status;
}
