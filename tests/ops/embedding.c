/* RUN: cuda timeout=60 label=contract */
/* embedding_fwd and _bwd: rows of the tables, sums in token order, tokens outside of the table. */
#include "support/op_case.h"

#include <stdlib.h>

typedef struct size {
    int64_t samples, context, width, rows;
} size;

static const size sizes[] = {{0, 4, 8, 5}, {1, 1, 1, 1}, {3, 5, 7, 11}, {4, 33, 129, 700}, {2, 64, 128, 3},
                             {1, 20, 300, 2500}, {1, 3, 2051, 7}};
enum { N_SIZES = sizeof sizes / sizeof sizes[0] };

static const int32_t *fill_tokens(op_case *c, ls_view *view, size s)
{
    int32_t *tokens = op_case_view(c, view, s.samples * s.context, LS_I32);

    for (int64_t i = 0; i < s.samples * s.context; i++) {
        tokens[i] = (int32_t)(i % 5 == 0 ? s.rows - 1 : i * i % s.rows);    /* some often, some never */
    }
    return tokens;
}

/* One f32 addition, rounded once. */
static void forward(void **unused)
{
    (void)unused;
    for (int k = 0; k < OP_CASE_N_TYPES * N_SIZES; k++) {
        size s = sizes[k % N_SIZES];
        ls_dtype dtype = op_case_types[k / N_SIZES];
        int64_t n = s.samples * s.context;
        lsi_embedding_fwd_args a = {.samples = s.samples, .context = s.context, .width = s.width};
        op_case c;

        op_case_open(&c, &lsi_op_embedding_fwd, &a);
        const int32_t *tokens = fill_tokens(&c, &a.tokens, s);
        const float *wte = op_case_random_as(&c, &a.wte, s.rows * s.width, 1.0, dtype);
        const float *wpe = op_case_random_as(&c, &a.wpe, s.context * s.width, 1.0, dtype);
        op_case_view(&c, &a.y, n * s.width, dtype);
        double *y = op_case_zeros(n * s.width);
        for (int64_t i = 0; i < n * s.width; i++) {
            int64_t at = i / s.width, column = i % s.width;
            y[i] = (double)(wte[tokens[at] * s.width + column] + wpe[at % s.context * s.width + column]);
        }
        op_case_run(&c);
        op_case_expect(&c, &a.y, y, 0.0, 0.0);
        op_case_expect_as_f32(&c);
        free(y);
        op_case_close(&c);
    }
}

static void backward_case(size s, ls_dtype dtype, int accumulate_wte, int accumulate_wpe)
{
    int64_t n = s.samples * s.context;
    lsi_embedding_bwd_args a = {.samples = s.samples, .context = s.context, .width = s.width, .rows = s.rows,
                                .accumulate_wte = accumulate_wte, .accumulate_wpe = accumulate_wpe};
    op_case c;

    op_case_open(&c, &lsi_op_embedding_bwd, &a);
    const int32_t *tokens = fill_tokens(&c, &a.tokens, s);
    const float *dy = op_case_random_as(&c, &a.dy, n * s.width, 1.0, dtype);
    const float *wte = op_case_random(&c, &a.dwte, s.rows * s.width, 1.0);
    const float *wpe = op_case_random(&c, &a.dwpe, s.context * s.width, 1.0);
    double *dwte = op_case_zeros(s.rows * s.width), *dwpe = op_case_zeros(s.context * s.width);
    for (int64_t i = 0; i < s.rows * s.width && accumulate_wte; i++) {
        dwte[i] = (double)wte[i];
    }
    for (int64_t i = 0; i < s.context * s.width && accumulate_wpe; i++) {
        dwpe[i] = (double)wpe[i];
    }
    for (int64_t i = 0; i < n * s.width; i++) {
        int64_t at = i / s.width, column = i % s.width;
        /* in f32 and in order, as the op is told to: equal to the last bit */
        double *te = &dwte[tokens[at] * s.width + column], *pe = &dwpe[at % s.context * s.width + column];
        *te = (double)((float)*te + dy[i]);
        *pe = (double)((float)*pe + dy[i]);
    }
    op_case_run(&c);
    op_case_expect(&c, &a.dwte, dwte, 0.0, 0.0);
    op_case_expect(&c, &a.dwpe, dwpe, 0.0, 0.0);
    free(dwte);
    free(dwpe);
    op_case_close(&c);
}

static void backward(void **unused)
{
    (void)unused;
    for (int k = 0; k < OP_CASE_N_TYPES * N_SIZES; k++) {
        backward_case(sizes[k % N_SIZES], op_case_types[k / N_SIZES], 0, 0);
        backward_case(sizes[k % N_SIZES], op_case_types[k / N_SIZES], 1, 0);
        backward_case(sizes[k % N_SIZES], op_case_types[k / N_SIZES], 0, 1);
    }
}

static void token_out_of_range(void **unused)
{
    static const int32_t wrong[] = {5, -1};

    (void)unused;
    for (int i = 0; i < 2; i++) {
        lsi_embedding_fwd_args a = {.samples = 1, .context = 3, .width = 2};
        op_case c;
        op_case_open(&c, &lsi_op_embedding_fwd, &a);
        ((int32_t *)op_case_view(&c, &a.tokens, 3, LS_I32))[2] = wrong[i];
        op_case_random(&c, &a.wte, 10, 1.0);
        op_case_random(&c, &a.wpe, 6, 1.0);
        op_case_view(&c, &a.y, 6, LS_F32);
        CHECK_FAILS(op_case_try(&c), LS_ERR_DATA,
                    "at position 2 of the micro-batch is outside of the embedding's 5 rows");
        op_case_close(&c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(forward),
        cmocka_unit_test(backward),
        cmocka_unit_test(token_out_of_range),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
