#include "config/command_line.h"

#include <stdbool.h>
#include <string.h>

#include "base/text.h"

enum { OPTION_COLUMN = 28, LINE_END = 100 };

static void append_option(lsi_text *out, const char *indent, const char *option, const char *value, const char *help)
{
    int used = (int)(strlen(indent) + strlen(option) + 1 + strlen(value));

    lsi_text_append(out, "%s%s %s%*s %s\n", indent, option, value, used < OPTION_COLUMN ? OPTION_COLUMN - used : 0, "",
                    help);
}

/* Options of one command, below it. */
static void append_values(lsi_text *out, lsi_command_kind kind)
{
#define TEXT(member, option, value, command, help)                                                                     \
    if (kind == LSI_COMMAND_##command) {                                                                               \
        append_option(out, "    ", option, value, help);                                                               \
    }
#define INT(member, option, value, def, lo, hi, command, help) TEXT(member, option, value, command, help " (" def ")")
#define REAL INT
    LSI_COMMAND_VALUES(TEXT, INT, REAL)
#undef TEXT
#undef INT
#undef REAL
}

/* "2 usage error or configuration error": every code of status.def once. */
static void append_exit_codes(lsi_text *out, bool compares)
{
    static const struct {
        int code;
        const char *text;
    } row[] = {
#define LS_STATUS(name, exit_code, text) {exit_code, text},
#include <lockstep/status.def>
#undef LS_STATUS
        {1, "--verify-runs: they differ"},
    };
    size_t line = out->length, n = sizeof row / sizeof row[0] - (compares ? 0 : 1);

    lsi_text_append(out, "exit codes:");
    for (size_t i = 0; i < n; i++) {
        bool again = i > 0 && row[i].code == row[i - 1].code;

        lsi_text_append(out, "%s", i > 0 ? again ? " or" : ";" : "");
        if (out->length - line + strlen(row[i].text) + 4 > LINE_END) {
            lsi_text_append(out, "\n");
            line = out->length;
        }
        if (again) {
            lsi_text_append(out, " %s", row[i].text);
        } else {
            lsi_text_append(out, " %d %s", row[i].code, row[i].text);
        }
    }
    lsi_text_append(out, ";\n 128+n ended by signal n\n");
}

void lsi_command_help(const char *program, lsi_text *out)
{
    lsi_text_append(
        out,
        "usage: %s CONFIG [--set section.key=value]...\n"
        "       mpirun -np 4 %s CONFIG ...\n"
        "       %s OPTION ...\n\n"
        "Trains the model of the configuration file CONFIG, one process per rank, with the same bits at any\n"
        "number of processes. A value comes from its default, the file, the environment variable\n"
        "LOCKSTEP_SECTION_KEY, or --set; the last of these wins. A CHECKPOINT is a folder step-NNNNNNNN or a\n"
        "link to one.\n\n",
        program, program, program);
    append_option(out, "  ", "--set", "section.key=value", "one value of the configuration");
#define ROW(name, option, least, most, operands, sets, help)                                                           \
    if (LSI_COMMAND_##name != LSI_COMMAND_TRAIN) {                                                                     \
        append_option(out, "  ", option != NULL ? option : "", operands, help);                                        \
        append_values(out, LSI_COMMAND_##name);                                                                        \
    }
    LSI_COMMANDS(ROW)
#undef ROW
    lsi_text_append(out, "\n");
    append_exit_codes(out, true);
}

bool lsi_command_of_programs(lsi_command_kind kind)
{
    return kind == LSI_COMMAND_TRAIN || kind == LSI_COMMAND_HELP || kind == LSI_COMMAND_HELP_CONFIG ||
           kind == LSI_COMMAND_PRINT_CONFIG || kind == LSI_COMMAND_DRY_RUN || kind == LSI_COMMAND_VERSION;
}

void lsi_command_help_program(const char *program, const char *about, bool config_optional, lsi_text *out)
{
    const char *config = config_optional ? "[CONFIG]" : "CONFIG";

    lsi_text_append(out, "usage: %s %s [--set section.key=value]...\n       mpirun -np 4 %s %s ...\n\n", program,
                    config, program, config);
    lsi_text_append(out, "%s%s", about != NULL ? about : "", about != NULL ? "\n\n" : "");
    lsi_text_append(out,
                    "A value comes from its default, %sthe file CONFIG, the environment variable\n"
                    "LOCKSTEP_SECTION_KEY, or --set; the last of these wins.\n\n",
                    config_optional ? "the program, " : "");
    append_option(out, "  ", "--set", "section.key=value", "one value of the configuration");
#define ROW(name, option, least, most, operands, sets, help)                                                           \
    if (LSI_COMMAND_##name != LSI_COMMAND_TRAIN && lsi_command_of_programs(LSI_COMMAND_##name)) {                      \
        append_option(out, "  ", option != NULL ? option : "", config_optional ? "" : operands, help);                 \
    }
    LSI_COMMANDS(ROW)
#undef ROW
    lsi_text_append(out, "\n");
    append_exit_codes(out, false);
}
