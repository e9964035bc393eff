/* The command line of a training program: what it is to do, on what, and options. One list of commands and one of
 * options; help, parsing and suggestions come from them. */
#ifndef LSI_CONFIG_COMMAND_LINE_H
#define LSI_CONFIG_COMMAND_LINE_H

#include <stdbool.h>
#include <stdint.h>

#include <lockstep/status.h>

/* Rows: name, option, fewest and most operands, what they are called in help and messages, whether --set goes with it,
 * help. The first row is what is done without an option. Operands may stand before and behind the option. */
#define LSI_COMMANDS(ROW)                                                                                              \
    ROW(TRAIN, NULL, 1, 1, "CONFIG", true, "")                                                                         \
    ROW(HELP, "--help", 0, 1, "", true, "this text")                                                                   \
    ROW(HELP_CONFIG, "--help-config", 0, 1, "", true,                                                                  \
        "every configuration key: type, default, range, what it may change, help")                                     \
    ROW(PRINT_CONFIG, "--print-config", 0, 1, "CONFIG", true,                                                          \
        "the resolved configuration, each value with its origin")                                                      \
    ROW(DRY_RUN, "--dry-run", 1, 1, "CONFIG", true,                                                                    \
        "what a run would use: parameters, memory, buckets, lanes; trains nothing")                                    \
    ROW(EVAL, "--eval", 1, 1, "CHECKPOINT", true,                                                                      \
        "validation loss of its weights, as its own configuration says; --set changes that")                           \
    ROW(HASH, "--hash", 1, 1, "CHECKPOINT", false, "weights hash of a checkpoint, or of a safetensors file")           \
    ROW(VERIFY_RUNS, "--verify-runs", 2, 2, "A B", false,                                                              \
        "first step and parameter where two runs or checkpoints differ; ends with 1 if they do")                       \
    ROW(GENERATE, "--generate", 1, 1, "CHECKPOINT", true,                                                              \
        "continues a prompt (gpt): bytes for text, ids for tokens; one process")                                       \
    ROW(TUNE_GEMM, "--tune-gemm", 2, 2, "FILE CONFIG", true,                                                           \
        "times the algorithms of CONFIG's matrix products; writes FILE, for device.gemm_plan")                           \
    ROW(LIST_DEVICES, "--list-devices", 0, 1, "CONFIG", true,                                                          \
        "the GPUs of this host, who uses them, and which ones this configuration could have")                          \
    ROW(VERSION, "--version", 0, 1, "", true, "version, commit, compiler")

/* Options with a value, of one command each: kind, member of lsi_command, option, value's name, default, lowest and
 * highest, command, help. Numbers are text, read by the strict readers. A text without a default must be given. */
#define LSI_COMMAND_VALUES(TEXT, INT, REAL)                                                                            \
    TEXT(prompt, "--prompt", "TEXT", GENERATE, "text to continue; of a model of tokens: ids, \"15496 995\"")           \
    INT(tokens, "--tokens", "N", "256", "1", "2147483647", GENERATE, "tokens to generate")                             \
    REAL(temperature, "--temperature", "X", "0.8", "0", "1000", GENERATE,                                              \
         "divides the logits; 0: always the most likely token")                                                        \
    INT(top_k, "--top-k", "K", "40", "0", "2147483647", GENERATE, "draw among the K most likely tokens; 0: all")       \
    INT(seed, "--seed", "N", "1", "0", "4294967295", GENERATE, "another seed, another continuation")

typedef enum lsi_command_kind {
#define ROW(name, option, least, most, operands, sets, help) LSI_COMMAND_##name,
    LSI_COMMANDS(ROW)
#undef ROW
} lsi_command_kind;

enum { LSI_COMMAND_MAX_OPERANDS = 2 };

typedef struct lsi_command {
    lsi_command_kind kind;
    int n_operands;
    const char *operand[LSI_COMMAND_MAX_OPERANDS]; /* borrowed; NULL behind the last */
    const char **sets;                             /* borrowed texts, owned array */
    int n_sets;
#define TEXT(member, option, value, command, help) const char *member;
#define INT(member, option, value, def, lo, hi, command, help) int64_t member;
#define REAL(member, option, value, def, lo, hi, command, help) double member;
    LSI_COMMAND_VALUES(TEXT, INT, REAL)
#undef TEXT
#undef INT
#undef REAL
} lsi_command;

/* ERR_USAGE names the argument and the nearest option, or the range of a value. Texts are borrowed from argv. */
LS_MUST_USE ls_status lsi_command_parse(int argc, char *const *argv, lsi_command *out);
/* config_optional: the program has values of its own, and CONFIG may be left out. */
LS_MUST_USE ls_status lsi_command_parse_program(int argc, char *const *argv, bool config_optional, lsi_command *out);
void lsi_command_free(lsi_command *command);
/* Usage text of `program`: static part, commands, options, exit codes. */
struct lsi_text;
void lsi_command_help(const char *program, struct lsi_text *out);
/* Whether a training program of one's own has the command; the others are about what a configuration names. */
bool lsi_command_of_programs(lsi_command_kind kind);
/* Usage text of such a program; `about` may be NULL. */
void lsi_command_help_program(const char *program, const char *about, bool config_optional, struct lsi_text *out);

#endif
