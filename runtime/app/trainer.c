/* trainer CONFIG [--set section.key=value]...: trains what a configuration names, one process per rank. */
#include <stdio.h>

#include "base/log.h"
#include "base/memory.h"
#include "base/version.h"
#include "config/command_line.h"
#include "config/config.h"
#include "job/stop.h"
#include "loop/run.h"

/* Answers that need no job; rank 0 prints them. */
static ls_status answer(const lsi_command *command)
{
    lsi_text text = {0};
    lsi_config *config = NULL;
    ls_status status = LS_OK;

    if (command->kind == LSI_COMMAND_HELP) {
        lsi_command_help("trainer", &text);
    } else if (command->kind == LSI_COMMAND_HELP_CONFIG) {
        lsi_config_describe(&text);
    } else if (command->kind == LSI_COMMAND_VERSION) {
        lsi_text_append(&text, "lockstep %s (%s), %s\n", lsi_version(), lsi_version_git(), lsi_version_compiler());
    } else {
        status = lsi_config_load(command->config_path, command->sets, command->n_sets, &config);
        if (status == LS_OK) {
            lsi_config_print(config, &text);
        }
        lsi_config_destroy(&config);
    }
    if (status == LS_OK) {
        status = lsi_text_status(&text);
    }
    if (status == LS_OK && (fputs(text.data, stdout) < 0 || fflush(stdout) != 0)) {
        status = LS_FAIL(LS_ERR_OUTPUT, "cannot write to standard output");
    }
    lsi_text_free(&text);
    return status;
}

/* What rank 0 makes of the command line, for all ranks. */
static ls_status resolve(lsi_job *job, int argc, char **argv, lsi_command_kind *kind, lsi_config **config)
{
    lsi_command command = {0};
    lsi_text unused = {0};
    ls_status status = LS_OK;

    if (job->rank == 0) {
        status = lsi_command_parse(argc, argv, &command);
        *kind = command.kind;
        if (status == LS_OK && (*kind == LSI_COMMAND_TRAIN || *kind == LSI_COMMAND_DRY_RUN)) {
            status = lsi_config_load(command.config_path, command.sets, command.n_sets, config);
        } else if (status == LS_OK) {
            status = answer(&command);
        }
        lsi_command_free(&command);
        if (*config != NULL) {
            lsi_config_unused(*config, &unused);
            if (unused.length > 0) {
                lsi_log_warn("%s", unused.data);
            }
            lsi_text_free(&unused);
        }
    }
    LS_TRY(lsi_job_agree(job, status));
    return lsi_job_broadcast(job, kind, sizeof *kind, 0);
}

int main(int argc, char **argv)
{
    lsi_job *job;
    lsi_config *config = NULL;
    lsi_command_kind kind = LSI_COMMAND_TRAIN;
    ls_runtime *rt = NULL;

    ls_status status = lsi_job_open("trainer", &argc, &argv, &job);
    if (status != LS_OK) {
        return ls_status_exit_code(status);
    }
    status = resolve(job, argc, argv, &kind, &config);
    if (kind != LSI_COMMAND_TRAIN) {
        lsi_stop_unwatch();
    }
    bool runs = status == LS_OK && (kind == LSI_COMMAND_TRAIN || kind == LSI_COMMAND_DRY_RUN);
    if (runs) {
        status = lsi_runtime_share_config(job, LS_OK, &config);
        runs = status == LS_OK;
    }
    if (!runs) {
        lsi_config_destroy(&config);
        lsi_job_close(&job);
        return ls_status_exit_code(status);
    }
    status = lsi_runtime_open(job, config, &rt);
    if (status != LS_OK) {
        return ls_status_exit_code(status);
    }
    status = kind == LSI_COMMAND_TRAIN ? ls_run(rt) : lsi_run_dry(rt);
    return ls_runtime_close(&rt, status);
}
