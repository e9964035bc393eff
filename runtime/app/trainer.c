/* trainer CONFIG [--set section.key=value]...: trains what a configuration names, one process per rank; and the
 * commands of config/command_line.h. */
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/version.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/compare.h"
#include "config/command_line.h"
#include "config/config.h"
#include "device/list.h"
#include "device/visibility.h"
#include "job/stop.h"
#include "loop/checkpoint_config.h"
#include "loop/evaluate_checkpoint.h"
#include "loop/generate.h"
#include "loop/run.h"
#include "loop/tune.h"

enum { EXIT_DIFFERENT = 1 };

/* ---- answers: rank 0 prints them ----------------------------------------------------------------------------- */

static ls_status print_config(const lsi_command *command, lsi_text *text)
{
    lsi_config *config;

    LS_TRY(lsi_config_load(command->operand[0], command->sets, command->n_sets, &config));
    lsi_config_print(config, text);
    lsi_config_destroy(&config);
    return LS_OK;
}

static ls_status print_hash(const lsi_command *command, lsi_text *text)
{
    char hash[33];

    LS_TRY(lsi_checkpoint_weights_hash(command->operand[0], hash));
    lsi_text_append(text, "%s\n", hash);
    return LS_OK;
}

static ls_status list_devices(const lsi_command *command, const char *host, lsi_text *text)
{
    lsi_config *config;

    LS_TRY(lsi_config_load_program("trainer", "[train]\nsteps = 1\n", command->operand[0], command->sets,
                                   command->n_sets, &config));
    ls_status status = lsi_list_devices(lsi_config_values(config), host, text);
    lsi_config_destroy(&config);
    return status;
}

static ls_status generate(const lsi_command *command, const lsi_affinity *affinity)
{
    lsi_generate_options options = {
        .checkpoint = command->operand[0],
        .sets = command->sets,
        .n_sets = command->n_sets,
        .n_threads = affinity->cores_allowed,
        .prompt = command->prompt,
        .n_tokens = command->tokens,
        .sampling = {.temperature = command->temperature, .top_k = command->top_k, .seed = (uint64_t)command->seed},
    };

    return lsi_generate(&options);
}

/* *code is what the process ends with unless this fails. */
static ls_status compose(const lsi_command *command, const char *host, lsi_text *text, int *code)
{
    bool equal;

    switch (command->kind) {
    case LSI_COMMAND_HELP:
        lsi_command_help("trainer", text);
        return LS_OK;
    case LSI_COMMAND_HELP_CONFIG:
        lsi_config_describe(text);
        return LS_OK;
    case LSI_COMMAND_VERSION:
        lsi_text_append(text, "lockstep %s (%s), %s\n", lsi_version(), lsi_version_git(), lsi_version_compiler());
        return LS_OK;
    case LSI_COMMAND_PRINT_CONFIG:
        return print_config(command, text);
    case LSI_COMMAND_LIST_DEVICES:
        return list_devices(command, host, text);
    case LSI_COMMAND_HASH:
        return print_hash(command, text);
    case LSI_COMMAND_VERIFY_RUNS:
        LS_TRY(lsi_compare_runs(command->operand[0], command->operand[1], text, &equal));
        *code = equal ? 0 : EXIT_DIFFERENT;
        return LS_OK;
    default:
        return LS_FAIL(LS_ERR_INTERNAL, "command %d is not answered with a text", (int)command->kind);
    }
}

static ls_status answer(const lsi_command *command, const char *host, int *code)
{
    lsi_text text = {0};
    ls_status status = compose(command, host, &text, code);

    if (status == LS_OK) {
        status = lsi_text_status(&text);
    }
    if (status == LS_OK && (fputs(text.data, stdout) < 0 || fflush(stdout) != 0)) {
        status = LS_FAIL(LS_ERR_OUTPUT, "cannot write to standard output");
    }
    lsi_text_free(&text);
    return status;
}

/* Collective; closes the job. All ranks end with the same code. */
static int answer_and_close(lsi_job *job, const lsi_command *command)
{
    lsi_affinity affinity;
    ls_status status = LS_OK;
    int code = 0;

    lsi_log_set_level(LSI_LOG_WARN); /* standard output is the answer's alone */
    if (command->kind == LSI_COMMAND_GENERATE) {
        status = lsi_affinity_decide(job, 0, &affinity);
    }
    if (status == LS_OK) {
        if (job->rank == 0) {
            status = command->kind == LSI_COMMAND_GENERATE ? generate(command, &affinity)
                                                           : answer(command, job->host, &code);
        }
        status = lsi_job_agree(job, status);
    }
    if (status == LS_OK) {
        status = lsi_job_broadcast(job, &code, sizeof code, 0);
    }
    lsi_job_close(&job);
    return status == LS_OK ? code : ls_status_exit_code(status);
}

/* ---- runs: all ranks work ------------------------------------------------------------------------------------ */

static void warn_unused(const lsi_config *config)
{
    lsi_text unused = {0};

    lsi_config_unused(config, &unused);
    if (unused.length > 0) {
        lsi_log_warn("%s", unused.data);
    }
    lsi_text_free(&unused);
}

/* The plan that is going to be made is none to be used, and may not be there yet. */
static ls_status load_config_to_tune(const lsi_command *command, lsi_config **config)
{
    size_t n = (size_t)command->n_sets;
    const char **sets;

    LS_TRY(lsi_memory_alloc((n + 1) * sizeof *sets, "command line", (void **)&sets));
    memcpy(sets, command->sets, n * sizeof *sets);
    sets[n] = "device.gemm_plan=";
    ls_status status = lsi_config_load(command->operand[1], sets, (int)n + 1, config);
    lsi_memory_free(sets);
    return status;
}

/* Rank 0: the configuration, and the path that the other ranks need, too. */
static ls_status load_config(const lsi_command *command, lsi_config **config, char **path)
{
    LS_TRY(lsi_file_absolute(command->operand[0], path));
    if (command->kind == LSI_COMMAND_EVAL) {
        return lsi_checkpoint_load_config(*path, command->sets, command->n_sets, config);
    }
    if (command->kind == LSI_COMMAND_TUNE_GEMM) {
        return load_config_to_tune(command, config);
    }
    LS_TRY(lsi_config_load(command->operand[0], command->sets, command->n_sets, config));
    warn_unused(*config);
    return LS_OK;
}

static ls_status run(ls_runtime *rt, lsi_command_kind kind, const char *path)
{
    switch (kind) {
    case LSI_COMMAND_DRY_RUN:
        return lsi_run_dry(rt);
    case LSI_COMMAND_EVAL:
        return lsi_run_evaluation(rt, path);
    case LSI_COMMAND_TUNE_GEMM:
        return lsi_run_tuning(rt, path);
    default:
        return ls_run(rt);
    }
}

/* Collective; closes the job. */
static int run_and_close(lsi_job *job, const lsi_command *command)
{
    lsi_config *config = NULL;
    char *path = NULL;
    ls_runtime *rt = NULL;

    ls_status status = job->rank == 0 ? load_config(command, &config, &path) : LS_OK;
    status = lsi_runtime_share_config(job, status, &config);
    if (status == LS_OK) {
        status = lsi_job_broadcast_text(job, &path, 0);
    }
    if (status != LS_OK) {
        lsi_memory_free(path);
        lsi_config_destroy(&config);
        lsi_job_close(&job);
        return ls_status_exit_code(status);
    }
    status = lsi_runtime_open(job, config, &rt);
    if (status == LS_OK) {
        status = run(rt, command->kind, path);
    }
    lsi_memory_free(path);
    return ls_runtime_close(&rt, status);
}

/* ---- both ---------------------------------------------------------------------------------------------------- */

/* Collective. Ranks other than 0 learn the kind alone: what stands on their command line does not matter. */
static ls_status parse(lsi_job *job, int argc, char **argv, lsi_command *command)
{
    ls_status status = job->rank == 0 ? lsi_command_parse(argc, argv, command) : LS_OK;

    LS_TRY(lsi_job_agree(job, status));
    return lsi_job_broadcast(job, &command->kind, sizeof command->kind, 0);
}

int main(int argc, char **argv)
{
    lsi_job *job;
    lsi_command command = {0};
    int code;

    (void)lsi_visibility_fix_order(); /* before MPI, which may initialise CUDA */
    ls_status status = lsi_job_open("trainer", &argc, &argv, &job);
    if (status != LS_OK) {
        return ls_status_exit_code(status);
    }
    status = parse(job, argc, argv, &command);
    if (command.kind != LSI_COMMAND_TRAIN) {
        lsi_stop_unwatch();
    }
    if (status != LS_OK) {
        lsi_job_close(&job);
        code = ls_status_exit_code(status);
    } else if (command.kind == LSI_COMMAND_TRAIN || command.kind == LSI_COMMAND_DRY_RUN ||
               command.kind == LSI_COMMAND_EVAL || command.kind == LSI_COMMAND_TUNE_GEMM) {
        code = run_and_close(job, &command);
    } else {
        code = answer_and_close(job, &command);
    }
    lsi_command_free(&command);
    return code;
}
