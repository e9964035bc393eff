#include "config/command_line.h"

#include <stdbool.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"

static const struct {
    const char *option, *help;
} options[] = {
#define ROW(name, option, help) {option, help},
    LSI_COMMANDS(ROW)
#undef ROW
};
enum { N_OPTIONS = sizeof options / sizeof options[0] };

static ls_status unknown_option(const char *argument)
{
    const char *names[N_OPTIONS] = {"--set"};
    int n = 1;

    for (int i = 0; i < N_OPTIONS; i++) {
        if (options[i].option != NULL) {
            names[n++] = options[i].option;
        }
    }
    const char *near = lsi_text_nearest(argument, names, n);
    return LS_FAIL(LS_ERR_USAGE, "unknown option '%s'%s%s%s; --help lists them", argument,
                   near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
}

static ls_status add_argument(lsi_command *command, const char *argument)
{
    if (argument[0] == '-' && argument[1] != '\0') {
        for (int i = 0; i < N_OPTIONS; i++) {
            if (options[i].option != NULL && strcmp(options[i].option, argument) == 0) {
                LS_REQUIRE(command->kind == LSI_COMMAND_TRAIN || (int)command->kind == i, LS_ERR_USAGE,
                           "'%s' and '%s' together: give one of them", options[command->kind].option, argument);
                command->kind = (lsi_command_kind)i;
                return LS_OK;
            }
        }
        return unknown_option(argument);
    }
    LS_REQUIRE(command->config_path == NULL, LS_ERR_USAGE,
               "two configuration files, '%s' and '%s': give one, and single values by --set section.key=value",
               command->config_path, argument);
    command->config_path = argument;
    return LS_OK;
}

static ls_status parse(int argc, char *const *argv, lsi_command *command)
{
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--set") == 0) {
            LS_REQUIRE(i + 1 < argc, LS_ERR_USAGE, "--set needs section.key=value behind it");
            command->sets[command->n_sets++] = argv[++i];
        } else if (strncmp(argv[i], "--set=", 6) == 0) {
            command->sets[command->n_sets++] = argv[i] + 6;
        } else {
            LS_TRY(add_argument(command, argv[i]));
        }
    }
    bool needs_config = command->kind == LSI_COMMAND_TRAIN || command->kind == LSI_COMMAND_DRY_RUN;
    LS_REQUIRE(command->config_path != NULL || !needs_config, LS_ERR_USAGE,
               "no configuration file given; usage: CONFIG [--set section.key=value]..., see --help");
    return LS_OK;
}

ls_status lsi_command_parse(int argc, char *const *argv, lsi_command *out)
{
    lsi_command command = {0};

    LS_TRY(
        lsi_memory_alloc((size_t)(argc > 0 ? argc : 1) * sizeof *command.sets, "command line", (void **)&command.sets));
    ls_status status = parse(argc, argv, &command);
    if (status != LS_OK) {
        lsi_command_free(&command);
        return status;
    }
    *out = command;
    return LS_OK;
}

void lsi_command_free(lsi_command *command)
{
    lsi_memory_free(command->sets);
    *command = (lsi_command){0};
}

void lsi_command_help(const char *program, lsi_text *out)
{
    lsi_text_append(
        out,
        "usage: %s CONFIG [--set section.key=value]...\n"
        "       mpirun -np 4 %s CONFIG ...\n\n"
        "Trains the model of the configuration file CONFIG, one process per rank, with the same bits at any\n"
        "number of processes. A value comes from its default, the file, the environment variable\n"
        "LOCKSTEP_SECTION_KEY, or --set; the last of these wins.\n\n",
        program, program);
    lsi_text_append(out, "  %-28s one value of the configuration\n", "--set section.key=value");
    for (int i = 0; i < N_OPTIONS; i++) {
        if (options[i].option != NULL) {
            lsi_text_append(out, "  %-28s %s\n", options[i].option, options[i].help);
        }
    }
    lsi_text_append(out,
                    "\nexit codes: 0 done, 2 usage or configuration, 3 data, 4 memory, 5 device, 6 communication,\n"
                    "7 timeout, 8 numeric, 10 output, 11 internal error\n");
}
