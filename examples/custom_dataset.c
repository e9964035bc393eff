/* A data set of your own, trained by the library's loop: two spirals, one class each.
 *
 *     mpirun -np 2 custom_dataset                                    # runs as it is: its settings are below
 *     mpirun -np 2 custom_dataset --set train.steps=3000 --set checkpoint.every=500
 *
 * To make it yours: say in ls_dataset what one sample is, and write it in read(). Shuffling, batches, threads, ranks,
 * evaluation, checkpoints, stopping and metrics are the loop's work. */
#include <math.h>

#include <lockstep/dataset.h>
#include <lockstep/lockstep.h>

enum { N_TRAIN = 6000, N_HELD_OUT = 1000 };

static const char settings[] = "[train]\nsteps = 1500\neval_every = 500\nlog_every = 100\n"
                               "[optimizer]\nlr = 3e-3\n[schedule]\nkind = cosine\n";

/* Your own fields come behind the common head. */
typedef struct spirals {
    ls_dataset base;
    int64_t first; /* sample 0 of this part is sample `first` of all: parts do not overlap */
} spirals;

/* A number in [0, 1) that depends on (sample, k) alone: a sample must be the same whenever, by whichever thread or
 * process it is read. A C library's rand() would not do. */
static double noise(uint64_t sample, uint64_t k)
{
    uint64_t x = sample * 0x9E3779B97F4A7C15u + (k + 1) * 0xBF58476D1CE4E5B9u;

    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    return (double)((x ^ (x >> 31)) >> 11) * 0x1p-53;
}

/* Several threads call it at once: write to input and targets, change nothing else. A file that cannot be read ends as
 * return LS_FAIL(LS_ERR_DATA, "%s: ...", path). */
static ls_status spirals_read(const ls_dataset *dataset, int64_t index, void *input, void *targets)
{
    const spirals *s = (const spirals *)dataset;
    uint64_t sample = (uint64_t)(s->first + index);
    int32_t spiral = (int32_t)(sample % 2);
    double turn = 0.5 + 9.0 * noise(sample, 0), radius = turn / 9.5 + 0.05 * (noise(sample, 1) - 0.5);
    float *point = input;

    point[0] = (float)(radius * cos(turn + 3.14159265358979 * spiral));
    point[1] = (float)(radius * sin(turn + 3.14159265358979 * spiral));
    *(int32_t *)targets = spiral;
    return LS_OK;
}

/* A data set that holds memory or files gives it back here. */
static void spirals_close(ls_dataset *dataset)
{
    (void)dataset;
}

static spirals make_spirals(int64_t first, int64_t n, const char *description, const char *content)
{
    static const ls_dataset_ops ops = {sizeof ops, "spirals", spirals_close, spirals_read};
    spirals s = {.base = {.ops = &ops,
                          .n_samples = n,
                          .input_dtype = LS_F32,
                          .input_shape = ls_shape1(2),
                          .target_count = 1,
                          .n_classes = 2,
                          .description = description,
                          .content = content},
                 .first = first};
    return s;
}

static ls_status run(ls_runtime *rt)
{
    spirals train = make_spirals(0, N_TRAIN, "two spirals", "two spirals, version 1");
    spirals held_out = make_spirals(N_TRAIN, N_HELD_OUT, "two spirals, held out", "two spirals, held out, version 1");
    ls_linear_options options = {.weight = {LS_INIT_NORMAL, 0.3F}};
    ls_graph *graph;

    LS_TRY(ls_graph_create(&graph));
    ls_var x = ls_input(graph, "point", LS_F32, ls_shape1(2)), targets = ls_targets(graph, "spiral", 1);
    x = ls_gelu(graph, "act1", ls_linear(graph, "fc1", x, 64, &options));
    x = ls_gelu(graph, "act2", ls_linear(graph, "fc2", x, 64, &options));
    ls_var loss = ls_softmax_xent(graph, "loss", ls_linear(graph, "out", x, 2, &options), targets, 2);
    ls_run_parts parts = {sizeof parts, graph, loss, &train.base, &held_out.base, .accuracy = true};
    ls_status status = ls_run_model(rt, &parts); /* reports a mistake made above, with the layer's name */
    ls_graph_destroy(&graph);
    return status;
}

int main(int argc, char **argv)
{
    ls_program program = {sizeof program, "custom_dataset", "Learns which of two spirals a point lies on.", settings};
    ls_runtime *rt;
    ls_status status = ls_runtime_open(&argc, &argv, &program, &rt);

    return ls_runtime_close(&rt, status == LS_OK ? run(rt) : status);
}
