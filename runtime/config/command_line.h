/* The command line of a training program: CONFIG [--set section.key=value]... and the options that end at once. */
#ifndef LSI_CONFIG_COMMAND_LINE_H
#define LSI_CONFIG_COMMAND_LINE_H

#include <lockstep/status.h>

/* Rows: name, option, help. */
#define LSI_COMMANDS(ROW)                                                                                       \
    ROW(TRAIN, NULL, "")                                                                                        \
    ROW(HELP, "--help", "this text")                                                                            \
    ROW(HELP_CONFIG, "--help-config", "every configuration key: type, default, range, what it may change, help")      \
    ROW(PRINT_CONFIG, "--print-config", "the resolved configuration, each value with its origin")               \
    ROW(DRY_RUN, "--dry-run", "what a run would use: parameters, memory, buckets, lanes; trains nothing")       \
    ROW(VERSION, "--version", "version, commit, compiler")

typedef enum lsi_command_kind {
#define ROW(name, option, help) LSI_COMMAND_##name,
    LSI_COMMANDS(ROW)
#undef ROW
} lsi_command_kind;

typedef struct lsi_command {
    lsi_command_kind kind;
    const char *config_path;    /* NULL where the command needs none and none was given */
    const char **sets;          /* borrowed texts, owned array */
    int n_sets;
} lsi_command;

/* ERR_USAGE names the argument and the nearest option. */
LS_MUST_USE ls_status lsi_command_parse(int argc, char *const *argv, lsi_command *out);
void lsi_command_free(lsi_command *command);
/* Usage text of `program`, static part and options. */
struct lsi_text;
void lsi_command_help(const char *program, struct lsi_text *out);

#endif
