/* A layer of your own, with an op and a kernel of your own: SiLU, y = x * sigmoid(x).
 *
 *     mpirun -np 2 custom_layer                                          # runs as it is, on synthetic data
 *     mpirun -np 2 custom_layer FILE.ini --set precision.compute=bf16    # FILE.ini names other data
 *
 * From the bottom: an op (what runs on a device), a layer kind (which ops, and what backward reads of forward), a
 * builder. Lanes, gradient sums, 16 bit, evaluation and checkpoints are the library's work. */
#include <math.h>

#include <lockstep/layer.h>
#include <lockstep/lockstep.h>

/* An op's arguments begin with its views, inputs first. Forward leaves dy out (count 0); backward writes dx to y. */
typedef struct silu_args {
    ls_view x, dy, y;
} silu_args;

enum { TILE = 1024 }; /* fixed: what a block computes may not depend on the number of threads */

static void silu_block(void *argument, int64_t block)
{
    const silu_args *a = argument;
    int64_t first = block * TILE, n = a->y.count - first < TILE ? a->y.count - first : TILE;
    float x[TILE], dy[TILE] = {0}, y[TILE];

    ls_view_load(&a->x, first, n, x); /* f32 here, whatever type the plan stores */
    ls_view_load(&a->dy, first, a->dy.count > 0 ? n : 0, dy);
    for (int64_t i = 0; i < n; i++) {
        float s = 1.0F / (1.0F + expf(-x[i]));
        y[i] = a->dy.count > 0 ? dy[i] * s * (1.0F + x[i] * (1.0F - s)) : x[i] * s;
    }
    ls_view_store(&a->y, first, n, y);
}

static ls_status silu_cpu(const ls_cpu_run *run, const void *arguments)
{
    silu_args a = *(const silu_args *)arguments;

    ls_parallel_for(run, (a.y.count + TILE - 1) / TILE, silu_block, &a);
    return LS_OK;
}

/* Put a GPU's kernel in here, too: .cuda = silu_cuda, a function of a .cu file that launches it on the stream. */
static const ls_op silu_op = {sizeof(ls_op), "silu", sizeof(silu_args), .n_in = 2, .n_out = 1, .cpu = silu_cpu};

static ls_status infer(ls_layer_node *node)
{
    LS_REQUIRE(node->in_dtype[0] == LS_REAL, LS_ERR_CONFIG, "layer '%s' (silu) takes real numbers", node->name);
    node->out_shape = node->in_shape[0]; /* of one sample */
    node->out_dtype = LS_REAL;           /* f32, bf16 or f16, as the plan computes */
    node->saves = LS_SAVES_IN(0);        /* backward reads x */
    return LS_OK;
}

static ls_status forward(const ls_layer_run *run)
{
    return ls_op_launch(run->stream, &silu_op, &(silu_args){.x = run->in[0], .y = run->out});
}

static ls_status backward(const ls_layer_run *run)
{
    return ls_op_launch(run->stream, &silu_op, &(silu_args){.x = run->in[0], .dy = run->d_out, .y = run->d_in[0]});
}

static const ls_layer_kind kind = {sizeof kind, "silu", infer, forward, backward, .d_in_over_d_out = true};

static ls_var silu(ls_graph *graph, const char *name, ls_var x)
{
    return ls_layer_append(graph, &kind, name, &x, 1, NULL, 0);
}

static ls_status run(ls_runtime *rt)
{
    ls_run_parts parts = {.struct_size = sizeof parts, .accuracy = true};
    ls_linear_options options = {.weight = {LS_INIT_NORMAL, 0.1F}};

    LS_TRY(ls_op_register(ls_runtime_device(rt), &silu_op));
    LS_TRY(ls_data_open(rt, &parts.train, &parts.val));
    LS_TRY(ls_graph_create(&parts.graph));
    ls_var x = ls_input(parts.graph, "x", LS_F32, parts.train->input_shape), t = ls_targets(parts.graph, "targets", 1);
    x = silu(parts.graph, "act1", ls_linear(parts.graph, "fc1", x, 128, &options));
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
    ls_program program = {sizeof program, "custom_layer", "Trains a perceptron with a SiLU of its own.",
                          "[data]\nkind = synthetic\nval_fraction = 0.1\n[train]\nsteps = 300\n"};
    ls_runtime *rt;
    ls_status status = ls_runtime_open(&argc, &argv, &program, &rt);

    return ls_runtime_close(&rt, status == LS_OK ? run(rt) : status);
}
