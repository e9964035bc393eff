#include "config/command_line.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "base/memory.h"
#include "base/number.h"
#include "base/text.h"
#include "config/table.h"

/* ---- the lists as data --------------------------------------------------------------------------------------- */

static const struct {
    const char *option;
    int least, most;
    const char *operands;
    bool takes_sets;
    const char *help;
} commands[] = {
#define ROW(name, option, least, most, operands, sets, help) {option, least, most, operands, sets, help},
    LSI_COMMANDS(ROW)
#undef ROW
};
enum { N_COMMANDS = sizeof commands / sizeof commands[0] };

typedef enum value_kind { VALUE_TEXT, VALUE_INT, VALUE_REAL } value_kind;

static const struct {
    value_kind kind;
    size_t offset;
    const char *option, *value, *fallback, *lowest, *highest;
    lsi_command_kind command;
    const char *help;
} values[] = {
#define AT(member) offsetof(lsi_command, member)
#define TEXT(member, option, value, command, help)                                                                     \
    {VALUE_TEXT, AT(member), option, value, NULL, NULL, NULL, LSI_COMMAND_##command, help},
#define INT(member, option, value, def, lo, hi, command, help)                                                         \
    {VALUE_INT, AT(member), option, value, def, lo, hi, LSI_COMMAND_##command, help},
#define REAL(member, option, value, def, lo, hi, command, help)                                                        \
    {VALUE_REAL, AT(member), option, value, def, lo, hi, LSI_COMMAND_##command, help},
    LSI_COMMAND_VALUES(TEXT, INT, REAL)
#undef TEXT
#undef INT
#undef REAL
#undef AT
};
enum { N_VALUES = sizeof values / sizeof values[0] };

static const char set_option[] = "--set", set_value[] = "section.key=value";

/* What parsing remembers besides the result. */
typedef struct parsing {
    lsi_command *command;
    const char *given[N_VALUES]; /* NULL: not */
} parsing;

/* ---- single arguments ---------------------------------------------------------------------------------------- */

static ls_status unknown_option(const char *argument)
{
    const char *names[1 + N_COMMANDS + N_VALUES] = {set_option};
    int n = 1;

    for (int i = 0; i < N_COMMANDS; i++) {
        if (commands[i].option != NULL) {
            names[n++] = commands[i].option;
        }
    }
    for (int i = 0; i < N_VALUES; i++) {
        names[n++] = values[i].option;
    }
    const char *near = lsi_text_nearest(argument, names, n);
    return LS_FAIL(LS_ERR_USAGE, "unknown option '%s'%s%s%s; --help lists them", argument,
                   near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
}

/* "train.seed=3" without the --set in front. */
static bool looks_like_set(const char *argument)
{
    char section[64];
    size_t length = strcspn(argument, ".=/");

    if (argument[length] != '.' || length >= sizeof section || strchr(argument + length, '=') == NULL) {
        return false;
    }
    memcpy(section, argument, length);
    section[length] = '\0';
    return lsi_table_has_section(section);
}

static ls_status add_operand(lsi_command *command, const char *argument)
{
    LS_REQUIRE(!looks_like_set(argument), LS_ERR_USAGE, "'%s' where the name of a file is expected; write --set %s",
               argument, argument);
    /* How many the command takes is known when all options have been seen. */
    LS_REQUIRE(command->n_operands < LSI_COMMAND_MAX_OPERANDS, LS_ERR_USAGE,
               "'%s', '%s' and '%s': more names than any command takes; see --help", command->operand[0],
               command->operand[1], argument);
    command->operand[command->n_operands++] = argument;
    return LS_OK;
}

static ls_status set_command(lsi_command *command, int kind)
{
    LS_REQUIRE(command->kind == LSI_COMMAND_TRAIN || (int)command->kind == kind, LS_ERR_USAGE,
               "'%s' and '%s' together: give one of them", commands[command->kind].option, commands[kind].option);
    command->kind = (lsi_command_kind)kind;
    return LS_OK;
}

/* Argument i is `option` or option=VALUE. *value is that one, or the next argument, which is then taken; NULL: none. */
static bool has_value(const char *option, int argc, char *const *argv, int *i, const char **value)
{
    size_t length = strlen(option);

    if (strncmp(argv[*i], option, length) != 0) {
        return false;
    }
    if (argv[*i][length] == '=') {
        *value = argv[*i] + length + 1;
        return true;
    }
    if (argv[*i][length] != '\0') {
        return false;
    }
    *value = *i + 1 < argc ? argv[++*i] : NULL;
    return true;
}

static ls_status take_argument(parsing *p, int argc, char *const *argv, int *i)
{
    const char *argument = argv[*i], *value;

    if (argument[0] != '-' || argument[1] == '\0') {
        return add_operand(p->command, argument);
    }
    for (int c = 0; c < N_COMMANDS; c++) {
        if (commands[c].option != NULL && strcmp(commands[c].option, argument) == 0) {
            return set_command(p->command, c);
        }
    }
    if (has_value(set_option, argc, argv, i, &value)) {
        LS_REQUIRE(value != NULL, LS_ERR_USAGE, "%s needs %s behind it", set_option, set_value);
        p->command->sets[p->command->n_sets++] = value;
        return LS_OK;
    }
    for (int v = 0; v < N_VALUES; v++) {
        if (has_value(values[v].option, argc, argv, i, &value)) {
            LS_REQUIRE(value != NULL, LS_ERR_USAGE, "%s needs %s behind it", values[v].option, values[v].value);
            LS_REQUIRE(p->given[v] == NULL, LS_ERR_USAGE, "%s is given twice: '%.100s' and '%.100s'", values[v].option,
                       p->given[v], value);
            p->given[v] = value;
            return LS_OK;
        }
    }
    return unknown_option(argument);
}

/* ---- what goes together -------------------------------------------------------------------------------------- */

static const char *command_name(lsi_command_kind kind)
{
    return commands[kind].option != NULL ? commands[kind].option : "training";
}

static ls_status check_operands(const lsi_command *command, bool config_optional)
{
    lsi_command_kind kind = command->kind;
    int least = commands[kind].least, most = commands[kind].most;

    if (config_optional && strcmp(commands[kind].operands, "CONFIG") == 0) {
        least = 0;
    }
    LS_REQUIRE(kind != LSI_COMMAND_TRAIN || command->n_operands >= least, LS_ERR_USAGE,
               "no configuration file given; usage: CONFIG [%s %s]..., see --help", set_option, set_value);
    LS_REQUIRE(command->n_operands >= least, LS_ERR_USAGE, "%s needs %s behind it%s", command_name(kind),
               commands[kind].operands, command->n_operands > 0 ? ", one is missing" : "");
    LS_REQUIRE(command->n_operands <= most || strcmp(commands[kind].operands, "CONFIG") != 0, LS_ERR_USAGE,
               "two configuration files, '%s' and '%s': give one, and single values by %s %s", command->operand[0],
               command->operand[1], set_option, set_value);
    LS_REQUIRE(command->n_operands <= most, LS_ERR_USAGE, "%s takes %s, but is given '%s' and '%s'", command_name(kind),
               commands[kind].operands[0] != '\0' ? commands[kind].operands : "no names", command->operand[0],
               command->operand[1]);
    LS_REQUIRE(command->n_sets == 0 || commands[kind].takes_sets, LS_ERR_USAGE,
               "%s does not go with %s: it reads no configuration", set_option, command_name(kind));
    return LS_OK;
}

static ls_status read_int(int v, const char *text, int64_t *out)
{
    int64_t lowest, highest;
    const char *why = lsi_number_int(text, out);

    LS_REQUIRE(why == NULL, LS_ERR_USAGE, "%s %.60s: %s", values[v].option, text, why);
    LS_REQUIRE(lsi_number_int(values[v].lowest, &lowest) == NULL && lsi_number_int(values[v].highest, &highest) == NULL,
               LS_ERR_INTERNAL, "%s: its range cannot be read", values[v].option);
    LS_REQUIRE(*out >= lowest && *out <= highest, LS_ERR_USAGE, "%s %.60s: not within %s and %s", values[v].option,
               text, values[v].lowest, values[v].highest);
    return LS_OK;
}

static ls_status read_real(int v, const char *text, double *out)
{
    double lowest, highest;
    const char *why = lsi_number_real(text, out);

    LS_REQUIRE(why == NULL, LS_ERR_USAGE, "%s %.60s: %s", values[v].option, text, why);
    LS_REQUIRE(lsi_number_real(values[v].lowest, &lowest) == NULL &&
                   lsi_number_real(values[v].highest, &highest) == NULL,
               LS_ERR_INTERNAL, "%s: its range cannot be read", values[v].option);
    LS_REQUIRE(*out >= lowest && *out <= highest, LS_ERR_USAGE, "%s %.60s: not within %s and %s", values[v].option,
               text, values[v].lowest, values[v].highest);
    return LS_OK;
}

static ls_status read_value(const parsing *p, int v)
{
    const char *text = p->given[v] != NULL ? p->given[v] : values[v].fallback;
    char *member = (char *)p->command + values[v].offset;

    if (p->command->kind != values[v].command) {
        LS_REQUIRE(p->given[v] == NULL, LS_ERR_USAGE, "%s goes with %s only", values[v].option,
                   command_name(values[v].command));
        return LS_OK;
    }
    if (values[v].kind == VALUE_INT) {
        return read_int(v, text, (int64_t *)(void *)member);
    }
    if (values[v].kind == VALUE_REAL) {
        return read_real(v, text, (double *)(void *)member);
    }
    LS_REQUIRE(text != NULL, LS_ERR_USAGE, "%s needs %s %s", command_name(values[v].command), values[v].option,
               values[v].value);
    LS_REQUIRE(text[0] != '\0', LS_ERR_USAGE, "%s is empty: give it at least one token", values[v].option);
    *(const char **)(void *)member = text;
    return LS_OK;
}

static ls_status parse(int argc, char *const *argv, bool config_optional, lsi_command *command)
{
    parsing p = {.command = command};

    for (int i = 1; i < argc; i++) {
        LS_TRY(take_argument(&p, argc, argv, &i));
    }
    LS_TRY(check_operands(command, config_optional));
    for (int v = 0; v < N_VALUES; v++) {
        LS_TRY(read_value(&p, v));
    }
    return LS_OK;
}

ls_status lsi_command_parse_program(int argc, char *const *argv, bool config_optional, lsi_command *out)
{
    lsi_command command = {0};

    LS_TRY(
        lsi_memory_alloc((size_t)(argc > 0 ? argc : 1) * sizeof *command.sets, "command line", (void **)&command.sets));
    ls_status status = parse(argc, argv, config_optional, &command);
    if (status != LS_OK) {
        lsi_command_free(&command);
        return status;
    }
    *out = command;
    return LS_OK;
}

ls_status lsi_command_parse(int argc, char *const *argv, lsi_command *out)
{
    return lsi_command_parse_program(argc, argv, false, out);
}

void lsi_command_free(lsi_command *command)
{
    lsi_memory_free(command->sets);
    *command = (lsi_command){0};
}
