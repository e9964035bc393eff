/* A layer of your own, with an op and kernels of your own: each row divided by its root mean square, as RMSNorm does.
 *
 *     mpirun -np 2 custom_layer                                          # runs as it is, on synthetic data
 *     mpirun -np 2 custom_layer FILE.ini --set precision.compute=bf16    # FILE.ini names other data
 *
 * From the bottom: an op (what runs on a device), a layer kind (which ops, and what backward reads of forward), a
 * builder. Lanes, gradient sums, 16 bit, evaluation and checkpoints are the library's work. */
#include <math.h>

#include <lockstep/layer.h>
#include <lockstep/lockstep.h>

#include "custom_layer.h"

enum { MAX_COLS = 4096, TILE = 16 }; /* rows of a block: fixed, not by the number of threads */

static void rms_block(void *argument, int64_t block)
{
    const rms_args *a = argument;
    float x[MAX_COLS], dy[MAX_COLS] = {0}, y[MAX_COLS];
    int64_t n = a->cols, end = a->y.count / n < (block + 1) * TILE ? a->y.count / n : (block + 1) * TILE;

    for (int64_t row = block * TILE; row < end; row++) {
        float squares = 0, products = 0;
        ls_view_load(&a->x, row * n, n, x); /* f32 here, whatever type the plan stores */
        ls_view_load(&a->dy, row * n, a->dy.count > 0 ? n : 0, dy);
        for (int64_t i = 0; i < n; i++) {
            squares += x[i] * x[i];
            products += x[i] * dy[i];
        }
        float r = 1.0F / sqrtf(squares / (float)n + RMS_EPS), slope = products * r * r * r / (float)n;
        for (int64_t i = 0; i < n; i++) {
            y[i] = a->dy.count > 0 ? r * dy[i] - slope * x[i] : r * x[i];
        }
        ls_view_store(&a->y, row * n, n, y);
    }
}

static ls_status rms_cpu(const ls_cpu_run *run, const void *arguments)
{
    rms_args a = *(const rms_args *)arguments;
    ls_parallel_for(run, (a.y.count / a.cols + TILE - 1) / TILE, rms_block, &a);
    return LS_OK;
}

/* rms_cuda is in custom_layer.h; NULL in builds without CUDA. */
static const ls_op rms_op = {sizeof(ls_op), "rms", sizeof(rms_args), 2, 1, .cpu = rms_cpu, .cuda = rms_cuda};

static ls_status infer(ls_layer_node *node)
{
    const ls_shape *in = &node->in_shape[0]; /* of one sample */
    LS_REQUIRE(node->in_dtype[0] == LS_REAL && in->rank > 0 && in->dim[in->rank - 1] <= MAX_COLS, LS_ERR_CONFIG,
               "layer '%s' (rms) takes rows of at most %d real numbers", node->name, MAX_COLS);
    node->out_shape = *in;
    node->out_dtype = LS_REAL;    /* f32, bf16 or f16, as the plan computes */
    node->saves = LS_SAVES_IN(0); /* backward reads x */
    return LS_OK;
}

static ls_status launch(const ls_layer_run *run) /* forward, and backward: d_out is there */
{
    const ls_shape *in = &run->node->in_shape[0];
    ls_view to = run->d_out.count > 0 ? run->d_in[0] : run->out;
    return ls_op_launch(run->stream, &rms_op, &(rms_args){run->in[0], run->d_out, to, in->dim[in->rank - 1]});
}

static const ls_layer_kind kind = {sizeof kind, "rms", infer, launch, launch, .d_in_over_d_out = true};

static ls_status run(ls_runtime *rt)
{
    ls_run_parts parts = {.struct_size = sizeof parts, .accuracy = true};
    ls_linear_options options = {.weight = {LS_INIT_NORMAL, 0.1F}};

    LS_TRY(ls_op_register(ls_runtime_device(rt), &rms_op));
    LS_TRY(ls_data_open(rt, &parts.train, &parts.val));
    LS_TRY(ls_graph_create(&parts.graph));
    ls_var x = ls_input(parts.graph, "x", LS_F32, parts.train->input_shape), t = ls_targets(parts.graph, "targets", 1);
    x = ls_linear(parts.graph, "fc1", x, 128, &options);
    x = ls_gelu(parts.graph, "act1", ls_layer_append(parts.graph, &kind, "rms1", &x, 1, NULL, 0));
    x = ls_linear(parts.graph, "out", x, parts.train->n_classes, &options);
    parts.loss = ls_softmax_xent(parts.graph, "loss", x, t, parts.train->n_classes);
    LS_TRY(ls_run_model(rt, &parts));
    ls_graph_destroy(&parts.graph);
    ls_data_close(&parts.val);
    ls_data_close(&parts.train);
    return LS_OK;
}

int main(int argc, char **argv)
{
    ls_program program = {sizeof program, "custom_layer", "Trains a perceptron with a layer of its own.",
                          "[data]\nkind = synthetic\nval_fraction = 0.1\n[train]\nsteps = 300\n"};
    ls_runtime *rt;
    ls_status status = ls_runtime_open(&argc, &argv, &program, &rt);

    return ls_runtime_close(&rt, status == LS_OK ? run(rt) : status);
}
