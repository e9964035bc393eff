/* A job that takes its GPUs, holds them and gives them back, without training: for test_binding.py.
 *
 *     gpu_probe START HOLD [section.key=value]...
 *
 * START: a file whose appearance is the start, "-" for at once. HOLD: likewise for the end, or seconds. Each rank
 * prints "bound RANK UUID ORDINAL" and "free RANK"; between the two it holds the GPU. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "config/config.h"
#include "device/binding.h"
#include "device/visibility.h"
#include "train/runtime.h"

static ls_status load(lsi_job *job, int argc, char **argv, lsi_config **config)
{
    ls_status status = LS_OK;

    if (job->rank == 0) {
        status = lsi_config_load_program("gpu_probe", "[train]\nsteps = 1\n", NULL, (const char *const *)argv + 3,
                                         argc - 3, config);
    }
    return lsi_runtime_share_config(job, status, config);
}

static void wait_for_file(const char *path)
{
    while (access(path, F_OK) != 0) {
        usleep(1000);
    }
}

static ls_status hold(lsi_job *job, const ls_config *config, const char *start, const char *end)
{
    lsi_binding *binding;
    char line[160];

    if (strcmp(start, "-") != 0) {
        wait_for_file(start);
    }
    LS_TRY(lsi_binding_open(job, config, "probe", NULL, &binding));
    int n = snprintf(line, sizeof line, "bound %d %s %d\n", job->rank, binding->gpu.uuid, binding->gpu.ordinal);
    if (write(STDOUT_FILENO, line, (size_t)n) != n) {
        _exit(1);
    }
    if (end[0] == '/') {
        wait_for_file(end);
    } else {
        usleep((useconds_t)(atof(end) * 1e6));
    }
    n = snprintf(line, sizeof line, "free %d\n", job->rank);
    if (write(STDOUT_FILENO, line, (size_t)n) != n) {
        _exit(1);
    }
    lsi_binding_close(&binding);
    return LS_OK;
}

int main(int argc, char **argv)
{
    lsi_job *job;
    lsi_config *config = NULL;

    if (argc < 3) {
        return 2;
    }
    (void)lsi_visibility_fix_order();
    ls_status status = lsi_job_open("gpu_probe", &argc, &argv, &job);
    if (status != LS_OK) {
        return ls_status_exit_code(status);
    }
    status = load(job, argc, argv, &config);
    if (status == LS_OK) {
        status = hold(job, lsi_config_values(config), argv[1], argv[2]);
    }
    lsi_config_destroy(&config);
    lsi_job_close(&job);
    return ls_status_exit_code(status);
}
