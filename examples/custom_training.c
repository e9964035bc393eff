/* A training loop of your own: model, schedule, evaluation, checkpoints, stopping.
 *
 *     mpirun -np 2 custom_training                  # runs as it is, on synthetic data
 *     mpirun -np 2 custom_training FILE.ini         # FILE.ini names other data, sizes, precision, ...
 *
 * Every rank runs the same lines. ls_run_model (custom_dataset.c) is shorter where it does what you need. After a
 * failure return its status: ls_runtime_close prints the message and takes everything down. */
#include <math.h>
#include <stdio.h>

#include <lockstep/lockstep.h>

static const char settings[] = "[data]\nkind = synthetic\nval_fraction = 0.1\n[train]\nsteps = 300\nlog_every = 50\n";

/* A perceptron with a short cut from the input to its second layer. Parameters are called after their layers. */
static ls_var build(ls_graph *graph, const ls_dataset *data)
{
    ls_linear_options wide = {.weight = {LS_INIT_NORMAL, 0.1F}};
    ls_var x = ls_input(graph, "x", LS_F32, data->input_shape), targets = ls_targets(graph, "targets", 1);
    ls_var h = ls_gelu(graph, "act1", ls_linear(graph, "fc1", x, 128, &wide));
    h = ls_dropout(graph, "drop", ls_linear(graph, "fc2", h, 128, &wide), 0.1F);
    h = ls_gelu(graph, "act2", ls_add(graph, "sum", h, ls_linear(graph, "short", x, 128, &wide)));
    return ls_softmax_xent(graph, "loss", ls_linear(graph, "out", h, data->n_classes, &wide), targets, data->n_classes);
}

/* A pure function of the number of applied steps: up over 20 steps, then down with the square root. */
static double rate(void *argument, int64_t applied)
{
    double lr = *(const double *)argument, n = (double)(applied + 1);

    return lr * fmin(n / 20, sqrt(20 / n));
}

static ls_status one_step(ls_trainer *t, ls_step_info *info)
{
    ls_slot *slot; /* one micro-batch; a rank has several, or none when there are more ranks than lanes */

    LS_TRY(ls_trainer_begin(t));
    while (ls_trainer_next_slot(t, &slot)) {
        LS_TRY(ls_trainer_forward(t, slot));
        LS_TRY(ls_trainer_backward(t, slot));
    }
    return ls_trainer_end(t, info); /* *info describes the step before; this one is still running */
}

static ls_status loop(ls_runtime *rt, ls_trainer *t, const ls_dataset *val)
{
    ls_step_info info = {.struct_size = sizeof info};
    ls_evaluation e = {.struct_size = sizeof e, .loss = NAN, .accuracy = NAN};
    ls_checkpoints *checkpoints;
    int64_t every = ls_runtime_config(rt)->train.log_every, step; /* step > 0: the run goes on from a checkpoint */
    bool stop = false;
    char hash[33];

    LS_TRY(ls_checkpoints_open(t, &checkpoints, &step));
    while (!stop && step < ls_trainer_n_steps(t)) {
        LS_TRY(one_step(t, &info));
        step++;
        if (info.step > 0 && info.step % every == 0 && ls_rank(rt) == 0) {
            printf("step %lld  loss %.4f  lr %.3g\n", (long long)info.step, info.loss, info.learning_rate);
        }
        LS_TRY(ls_checkpoints_step(checkpoints, &stop)); /* on every rank alike: a signal, or checkpoint.every */
    }
    LS_TRY(ls_trainer_settle(t, NULL)); /* before anything that reads weights */
    LS_TRY(val != NULL ? ls_trainer_evaluate(t, val, 0, &e) : LS_OK);
    LS_TRY(ls_trainer_weights_hash(t, hash));
    if (ls_rank(rt) == 0) {
        printf("step %lld, validation loss %.4f, accuracy %.4f, weights %s\n", (long long)step, e.loss, e.accuracy,
               hash);
    }
    return ls_checkpoints_close(&checkpoints); /* STOPPED, exit code 75, after a stop on request */
}

static ls_status run(ls_runtime *rt)
{
    double lr = ls_runtime_config(rt)->optimizer.lr;
    ls_dataset *data, *val;
    ls_graph *graph;
    ls_trainer *t;

    LS_TRY(ls_data_open(rt, &data, &val));
    LS_TRY(ls_graph_create(&graph));
    LS_TRY(ls_trainer_create(rt, graph, build(graph, data), data, &t));
    ls_trainer_set_schedule(t, rate, &lr);
    LS_TRY(loop(rt, t, val));
    ls_trainer_destroy(&t); /* before what it borrows */
    ls_graph_destroy(&graph);
    ls_data_close(&val);
    ls_data_close(&data);
    return LS_OK;
}

int main(int argc, char **argv)
{
    ls_program program = {sizeof program, "custom_training", "Trains a perceptron with a loop of its own.", settings};
    ls_runtime *rt;
    ls_status status = ls_runtime_open(&argc, &argv, &program, &rt);
    return ls_runtime_close(&rt, status == LS_OK ? run(rt) : status);
}
