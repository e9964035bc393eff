/* A training program's beginning: its command line, its configuration, or the answer to an option such as --help. */
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/version.h"
#include "config/command_line.h"
#include "config/config.h"
#include "data/datasets.h"
#include "device/visibility.h"
#include "train/runtime.h"

static const ls_program unnamed = {.struct_size = sizeof(ls_program), .name = "program"};

/* ---- answers ------------------------------------------------------------------------------------------------- */

static ls_status answer(const ls_program *program, lsi_command_kind kind, const lsi_config *config)
{
    lsi_text text = {0};

    if (kind == LSI_COMMAND_HELP) {
        lsi_command_help_program(program->name, program->help, program->defaults != NULL, &text);
    } else if (kind == LSI_COMMAND_HELP_CONFIG) {
        lsi_config_describe(&text);
    } else if (kind == LSI_COMMAND_VERSION) {
        lsi_text_append(&text, "%s on lockstep %s (%s), %s\n", program->name, lsi_version(), lsi_version_git(),
                        lsi_version_compiler());
    } else {
        lsi_config_print(config, &text);
    }
    ls_status status = lsi_text_status(&text);
    if (status == LS_OK && (fputs(text.data, stdout) < 0 || fflush(stdout) != 0)) {
        status = LS_FAIL(LS_ERR_OUTPUT, "cannot write to standard output");
    }
    lsi_text_free(&text);
    return status;
}

/* ---- opening ------------------------------------------------------------------------------------------------- */

static bool needs_config(lsi_command_kind kind)
{
    return kind == LSI_COMMAND_TRAIN || kind == LSI_COMMAND_DRY_RUN || kind == LSI_COMMAND_PRINT_CONFIG;
}

static void warn_of_unused(const lsi_config *config)
{
    lsi_text unused = {0};

    lsi_config_unused(config, &unused);
    if (unused.length > 0) {
        lsi_log_warn("%s", unused.data);
    }
    lsi_text_free(&unused);
}

/* Rank 0's part: the command line, then the configuration or the answer. */
static ls_status resolve(const ls_program *program, int argc, char **argv, lsi_command_kind *kind, lsi_config **config)
{
    lsi_command command = {0};

    LS_REQUIRE(program->struct_size == sizeof *program && program->name != NULL, LS_ERR_INTERNAL,
               "a program description of %zu bytes (this library's has %zu) must have a name", program->struct_size,
               sizeof *program);
    LS_TRY(lsi_command_parse_program(argc, argv, program->defaults != NULL, &command));
    *kind = command.kind;
    ls_status status = LS_OK;
    if (!lsi_command_of_programs(command.kind)) {
        status = LS_FAIL(LS_ERR_USAGE, "this option is one of the trainer's; --help lists those of %s", program->name);
    } else if (needs_config(command.kind)) {
        status = lsi_config_load_program(program->name, program->defaults, command.operand[0], command.sets,
                                         command.n_sets, config);
    }
    lsi_command_free(&command);
    if (status == LS_OK && *kind != LSI_COMMAND_TRAIN && *kind != LSI_COMMAND_DRY_RUN) {
        status = answer(program, *kind, *config);
        lsi_config_destroy(config);
    }
    if (*config != NULL) {
        warn_of_unused(*config);
    }
    return status;
}

/* Collective. ANSWERED, or the configuration on every rank. */
static ls_status configure(lsi_job *job, const ls_program *program, int argc, char **argv, bool *dry_run,
                           lsi_config **config)
{
    lsi_command_kind kind = LSI_COMMAND_TRAIN;

    LS_TRY(lsi_job_agree(job, job->rank == 0 ? resolve(program, argc, argv, &kind, config) : LS_OK));
    LS_TRY(lsi_job_broadcast(job, &kind, sizeof kind, 0));
    *dry_run = kind == LSI_COMMAND_DRY_RUN;
    return kind == LSI_COMMAND_TRAIN || *dry_run ? lsi_runtime_share_config(job, LS_OK, config) : LS_ANSWERED;
}

ls_status ls_runtime_open(int *argc, char ***argv, const ls_program *program, ls_runtime **out)
{
    lsi_job *job;
    lsi_config *config = NULL;
    bool dry_run = false;

    *out = NULL;
    program = program != NULL ? program : &unnamed;
    (void)lsi_visibility_fix_order(); /* before MPI, which may initialise CUDA */
    LS_TRY(lsi_job_open(program->name != NULL ? program->name : unnamed.name, argc, argv, &job));
    ls_status status = configure(job, program, *argc, *argv, &dry_run, &config);
    if (status != LS_OK) {
        lsi_config_destroy(&config);
        lsi_job_close(&job);
        return status;
    }
    LS_TRY(lsi_runtime_open(job, config, out));
    (*out)->dry_run = dry_run;
    return LS_OK;
}

/* ---- data of the configuration ----------------------------------------------------------------------------------- */

static ls_status open_data(ls_runtime *rt, ls_dataset **train, ls_dataset **val)
{
    LS_TRY(lsi_config_check_inputs(rt->loaded));
    return lsi_datasets_open(rt->config, train, val);
}

ls_status ls_data_open(ls_runtime *runtime, ls_dataset **train, ls_dataset **val)
{
    *train = *val = NULL;
    return lsi_runtime_agree(runtime, open_data(runtime, train, val));
}

void ls_data_close(ls_dataset **dataset)
{
    lsi_dataset_close(dataset);
}
