/* RUN: */
/* The flat parameter index, initial values, the weights hash. */
#include "support/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "graph/param.h"
#include "graph/shape.h"
#include "kernels/ops.h"
#include <lockstep/layer.h>

/* One layer per parameter, named like it. */
typedef struct spec {
    const char *name;
    ls_shape shape;
    int64_t padded_rows;
    ls_init init;
    bool shared;
} spec;

static ls_status infer(ls_layer_node *node)
{
    const spec *s;

    memcpy(&s, node->attributes, sizeof s);
    ls_param_spec *p = ls_layer_add_param(node, s->name, "weight", s->shape, s->init);

    p->padded_rows = s->padded_rows;
    p->shared = s->shared;
    node->out_shape = node->in_shape[0];
    node->out_dtype = LS_REAL;
    return LS_OK;
}

static ls_status nothing(const ls_layer_run *run)
{
    (void)run;
    return LS_OK;
}

static const ls_layer_kind kind = {.struct_size = sizeof(ls_layer_kind), .name = "holder", .infer = infer,
                                   .forward = nothing};

static ls_graph *make(const spec *specs, int n)
{
    ls_graph *graph;
    char name[24];

    CHECK_OK(ls_graph_create(&graph));
    ls_var x = ls_input(graph, "x", LS_F32, ls_shape1(2));

    for (int i = 0; i < n; i++) {
        const spec *s = &specs[i];

        snprintf(name, sizeof name, "layer%d", i);
        x = ls_layer_append(graph, &kind, name, &x, 1, &s, sizeof s);
    }
    return graph;
}

static ls_status compile(ls_graph *graph)
{
    ls_compile_options options = {.struct_size = sizeof options, .mode = LS_INFER, .micro_batch = 1};
    ls_plan *plan;

    return ls_graph_compile(graph, &options, &plan);
}

static const spec specs[] = {
    {"a", {2, {3, 50, 0, 0}}, 0, {LS_INIT_NORMAL, 0.5f}, false},
    {"b", {1, {256, 0, 0, 0}}, 0, {LS_INIT_CONSTANT, 1.5f}, false},
    {"c", {2, {65, 300, 0, 0}}, 128, {LS_INIT_UNIFORM, 0.25f}, false},
    {"b", {1, {256, 0, 0, 0}}, 0, {LS_INIT_CONSTANT, 1.5f}, true},
    {"d", {1, {1, 0, 0, 0}}, 0, {LS_INIT_NORMAL, 2.0f}, false},
};
enum { N_SPECS = sizeof specs / sizeof specs[0] };

static void test_table(void **state)
{
    ls_graph *graph = make(specs, N_SPECS);
    const lsi_param_table *t = lsi_graph_params(graph);

    (void)state;
    assert_int_equal(t->n, 4);
    assert_int_equal(t->param[0].offset, 0);
    assert_int_equal(t->param[1].offset, 256);
    assert_int_equal(t->param[2].offset, 512);
    assert_int_equal(t->param[2].count, 65 * 300);
    assert_int_equal(t->param[2].padded_count, 128 * 300);
    assert_int_equal(t->param[3].offset, 512 + 128 * 300);
    assert_int_equal(t->n_elements, 3 * LSI_BLOCK);
    assert_int_equal(t->n_counted, 150 + 256 + 65 * 300 + 1);
    assert_int_equal(t->param[0].group, LSI_GROUP_DECAY);
    assert_int_equal(t->param[1].group, LSI_GROUP_NO_DECAY);
    assert_string_equal(t->param[2].name, "c.weight");
    assert_int_equal(lsi_param_find(t, "d.weight"), 3);
    assert_int_equal(lsi_param_find(t, "e.weight"), -1);
    for (int64_t e = 0; e < t->n_elements; e++) {
        int at = lsi_param_at(t, e), n_reach = 0;

        assert_true(t->param[at].offset <= e && (at == t->n - 1 || e < t->param[at + 1].offset));
        for (int k = 0; k < t->n; k++) {
            bool reaches = lsi_param_reaches(&t->param[k], e, 1);

            assert_true(!reaches || k == at);
            n_reach += reaches;
        }
        assert_int_equal(n_reach, e < t->param[at].offset + t->param[at].padded_count);
    }
    assert_true(lsi_param_reaches(&t->param[2], LSI_BLOCK, LSI_BLOCK));
    assert_true(lsi_param_reaches(&t->param[2], 511, 2) && !lsi_param_reaches(&t->param[2], 0, 512));
    assert_true(!lsi_param_reaches(&t->param[0], 150, 1000));
    ls_graph_destroy(&graph);
    test_check_no_memory_live();
}

static void check_refused(spec second, const char *part, const char *also)
{
    spec both[] = {{"a", ls_shape2(3, 50), 0, {LS_INIT_NORMAL, 0.5f}, false}, second};
    ls_graph *graph = make(both, 2);

    CHECK_FAILS(compile(graph), LS_ERR_CONFIG, part);
    assert_non_null(strstr(ls_failure_message(), also));
    assert_non_null(strstr(ls_failure_message(), "layer 'layer1'"));
    ls_graph_destroy(&graph);
}

static void test_refused(void **state)
{
    ls_init zero = {LS_INIT_CONSTANT, 0.0f};

    (void)state;
    check_refused((spec){"a", ls_shape2(3, 50), 0, zero, false}, "a parameter 'a.weight'", "[3, 50]");
    check_refused((spec){"a", ls_shape2(50, 3), 0, zero, true}, "as [50, 3]", "shape is [3, 50]");
    check_refused((spec){"a", ls_shape2(3, 50), 64, zero, true}, "padded", "3200");
    check_refused((spec){"b", ls_shape2(3, 50), 0, zero, true}, "shares parameter 'b.weight'", "no layer before");
    check_refused((spec){"b", ls_shape2(3, 50), 2, zero, false}, "padded to 2 rows", "[3, 50]");
    check_refused((spec){"b", {LS_MAX_RANK + 1, {1, 1, 1, 1}}, 0, zero, false}, "parameter 'b.weight'", "5 extents");
}

static float *init(const spec *s, int n, uint64_t seed, ls_graph **graph)
{
    *graph = make(s, n);
    const lsi_param_table *t = lsi_graph_params(*graph);
    float *w = malloc((size_t)t->n_elements * sizeof *w);

    memset(w, 0xff, (size_t)t->n_elements * sizeof *w);
    lsi_param_init(t, seed, 0, t->n_elements, w);
    return w;
}

/* The pieces may be cut anywhere at multiples of 4: threads share them out. */
static void test_init_in_pieces(void **state)
{
    ls_graph *g;
    float *whole = init(specs, N_SPECS, 5, &g);
    const lsi_param_table *t = lsi_graph_params(g);
    size_t bytes = (size_t)t->n_elements * sizeof *whole;
    float *pieces = malloc(bytes);

    (void)state;
    for (int64_t piece = 4; piece <= 4096; piece = 3 * piece + 4) {
        memset(pieces, 0xff, bytes);
        for (int64_t at = 0; at < t->n_elements; at += piece) {
            int64_t left = t->n_elements - at;

            lsi_param_init(t, 5, at, left < piece ? left : piece, pieces + at);
        }
        assert_memory_equal(pieces, whole, bytes);
    }
    free(pieces);
    free(whole);
    ls_graph_destroy(&g);
}

/* The same values wherever the parameter stands; others for another seed or name; zero outside of the parameters. */
static void test_init_is_keyed(void **state)
{
    const spec turned[] = {specs[2], specs[4], specs[0]};
    ls_graph *g1, *g2, *g3;
    float *w1 = init(specs, N_SPECS, 5, &g1), *w2 = init(turned, 3, 5, &g2), *w3 = init(specs, N_SPECS, 6, &g3);
    const lsi_param_table *t1 = lsi_graph_params(g1), *t2 = lsi_graph_params(g2);
    int64_t at = 0;

    (void)state;
    for (int k = 0; k < t2->n; k++) {
        const lsi_param *p2 = &t2->param[k], *p1 = &t1->param[lsi_param_find(t1, p2->name)];

        assert_memory_equal(w1 + p1->offset, w2 + p2->offset, (size_t)p1->padded_count * sizeof *w1);
        assert_memory_not_equal(w1 + p1->offset, w3 + p1->offset, (size_t)p1->count * sizeof *w1);
    }
    for (int k = 0; k <= t1->n; k++) {
        int64_t begin = k < t1->n ? t1->param[k].offset : t1->n_elements;

        for (; at < begin; at++) {
            assert_true(w1[at] == 0.0f);
        }
        at += k < t1->n ? t1->param[k].count : 0;
    }
    free(w1), free(w2), free(w3);
    ls_graph_destroy(&g1), ls_graph_destroy(&g2), ls_graph_destroy(&g3);
}

enum { N_DRAWN = 200000 };

/* Mean, variance, tails and neighbours of many values. */
static void check_moments(ls_init_kind init_kind, float value, double deviation, double fourth)
{
    spec s = {"w", ls_shape1(N_DRAWN), 0, {init_kind, value}, false};
    ls_graph *graph;
    float *w = init(&s, 1, 9, &graph);
    double sum = 0, square = 0, quad = 0, neighbours = 0, largest = 0;

    for (int i = 0; i < N_DRAWN; i++) {
        double x = (double)w[i] / deviation;

        sum += x;
        square += x * x;
        quad += x * x * x * x;
        neighbours += i > 0 ? x * (double)w[i - 1] / deviation : 0;
        largest = fabs(x) > largest ? fabs(x) : largest;
    }
    assert_true(fabs(sum / N_DRAWN) < 0.01);
    assert_true(fabs(square / N_DRAWN - 1.0) < 0.01);
    assert_true(fabs(quad / N_DRAWN - fourth) < 0.1);
    assert_true(fabs(neighbours / N_DRAWN) < 0.01);
    assert_true(init_kind == LS_INIT_NORMAL ? largest > 4.0 && largest < 6.7 : largest <= sqrt(3.0) * 1.0001);
    free(w);
    ls_graph_destroy(&graph);
}

static void test_init_statistics(void **state)
{
    (void)state;
    check_moments(LS_INIT_NORMAL, 0.02f, 0.02, 3.0);
    check_moments(LS_INIT_UNIFORM, 0.3f, 0.3 / sqrt(3.0), 1.8);
}

/* Against the definition; padding and gaps do not count, every element does. */
static ls_status read_flat(void *argument, int64_t first, int64_t count, float *host)
{
    memcpy(host, (const float *)argument + first, (size_t)count * sizeof *host);
    return LS_OK;
}

static void test_hash(void **state)
{
    ls_graph *graph;
    float *w = init(specs, N_SPECS, 5, &graph);
    const lsi_param_table *t = lsi_graph_params(graph);
    unsigned char pieces[16 * 8], all[16];
    char expected[33], hash[33];
    int n = 0;

    (void)state;
    lsi_hash128(w + t->param[0].offset, 150 * 4, pieces + 16 * n++);
    lsi_hash128(w + t->param[1].offset, 256 * 4, pieces + 16 * n++);
    lsi_hash128(w + t->param[2].offset, 65536, pieces + 16 * n++);
    lsi_hash128(w + t->param[2].offset + 16384, (65 * 300 - 16384) * 4, pieces + 16 * n++);
    lsi_hash128(w + t->param[3].offset, 4, pieces + 16 * n++);
    lsi_hash128(pieces, (size_t)(16 * n), all);
    lsi_hash128_hex(all, expected);
    CHECK_OK(lsi_param_hash(t, read_flat, w, hash));
    assert_string_equal(hash, expected);
    w[t->param[0].offset + 150] = 1.0f;
    w[t->param[2].offset + 65 * 300] = 1.0f;
    CHECK_OK(lsi_param_hash(t, read_flat, w, hash));
    assert_string_equal(hash, expected);
    w[t->param[2].offset + 65 * 300 - 1] += 1.0f;
    CHECK_OK(lsi_param_hash(t, read_flat, w, hash));
    assert_string_not_equal(hash, expected);
    free(w);
    ls_graph_destroy(&graph);
    test_check_no_memory_live();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_table),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_init_is_keyed),
        cmocka_unit_test(test_init_in_pieces),
        cmocka_unit_test(test_init_statistics),
        cmocka_unit_test(test_hash),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
