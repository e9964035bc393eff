/* RUN: timeout=60 */
/* The command line: what is understood, what is refused and with which words, and that the help has all of it. */
#include "support/test.h"

#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "config/command_line.h"

enum { MAX_ARGUMENTS = 12 };

/* `line` is cut at blanks; '_' stands for a blank and '~' for an empty argument. */
typedef struct arguments {
    char text[256];
    char *argv[MAX_ARGUMENTS];
    int argc;
} arguments;

static void cut(const char *line, arguments *out)
{
    char *rest, *word;

    snprintf(out->text, sizeof out->text, "trainer %s", line);
    out->argc = 0;
    for (word = strtok_r(out->text, " ", &rest); word != NULL; word = strtok_r(NULL, " ", &rest)) {
        assert_true(out->argc < MAX_ARGUMENTS);
        for (char *c = word; *c != '\0'; c++) {
            *c = *c == '_' ? ' ' : *c;
        }
        if (strcmp(word, "~") == 0) {
            word[0] = '\0';
        }
        out->argv[out->argc++] = word;
    }
}

static void right_lines_are_understood(void **state)
{
    static const struct {
        const char *line;
        lsi_command_kind kind;
        const char *first, *second;
        int n_sets;
    } cases[] = {
        {"run.ini", LSI_COMMAND_TRAIN, "run.ini", NULL, 0},
        {"--set a.b=1 run.ini --set=c.d=2", LSI_COMMAND_TRAIN, "run.ini", NULL, 2},
        {"-", LSI_COMMAND_TRAIN, "-", NULL, 0},
        {"--help", LSI_COMMAND_HELP, NULL, NULL, 0},
        {"run.ini --help", LSI_COMMAND_HELP, "run.ini", NULL, 0},
        {"--print-config", LSI_COMMAND_PRINT_CONFIG, NULL, NULL, 0},
        {"--print-config run.ini --set a.b=1", LSI_COMMAND_PRINT_CONFIG, "run.ini", NULL, 1},
        {"--dry-run run.ini", LSI_COMMAND_DRY_RUN, "run.ini", NULL, 0},
        {"--eval folder --set data.val=x", LSI_COMMAND_EVAL, "folder", NULL, 1},
        {"folder --eval", LSI_COMMAND_EVAL, "folder", NULL, 0},
        {"--hash w.safetensors", LSI_COMMAND_HASH, "w.safetensors", NULL, 0},
        {"--verify-runs a b", LSI_COMMAND_VERIFY_RUNS, "a", "b", 0},
        {"a=b/train.seed=3 --hash", LSI_COMMAND_HASH, "a=b/train.seed=3", NULL, 0},
        {"--generate c --prompt x", LSI_COMMAND_GENERATE, "c", NULL, 0},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        arguments a;
        lsi_command command;

        cut(cases[i].line, &a);
        CHECK_OK(lsi_command_parse(a.argc, a.argv, &command));
        const char *expected[] = {cases[i].first, cases[i].second};

        assert_int_equal(command.kind, cases[i].kind);
        assert_int_equal(command.n_sets, cases[i].n_sets);
        for (int k = 0; k < 2; k++) {
            assert_int_equal(command.operand[k] == NULL, expected[k] == NULL);
            if (expected[k] != NULL) {
                assert_string_equal(command.operand[k], expected[k]);
            }
        }
        lsi_command_free(&command);
    }
    test_check_no_memory_live();
}

static void values_have_defaults_and_are_read(void **state)
{
    arguments a;
    lsi_command command;

    (void)state;
    cut("--generate c --prompt -x_y", &a);
    CHECK_OK(lsi_command_parse(a.argc, a.argv, &command));
    assert_string_equal(command.prompt, "-x y");
    assert_int_equal(command.tokens, 256);
    assert_true(command.temperature == 0.8);
    assert_int_equal(command.top_k, 40);
    assert_int_equal(command.seed, 1);
    lsi_command_free(&command);

    cut("--tokens=2^10 --temperature 0 --top-k 0 --seed 4294967295 --prompt=a=b c --generate", &a);
    CHECK_OK(lsi_command_parse(a.argc, a.argv, &command));
    assert_string_equal(command.prompt, "a=b");
    assert_int_equal(command.tokens, 1024);
    assert_true(command.temperature == 0);
    assert_int_equal(command.top_k, 0);
    assert_int_equal(command.seed, 4294967295);
    lsi_command_free(&command);
}

static void wrong_lines_are_refused(void **state)
{
    static const struct {
        const char *line, *message;
    } cases[] = {
        {"", "no configuration file given"},
        {"--dry-run", "--dry-run needs CONFIG"},
        {"a.ini b.ini", "two configuration files, 'a.ini' and 'b.ini'"},
        {"--print-config a.ini b.ini", "two configuration files, 'a.ini' and 'b.ini'"},
        {"a b c", "'a', 'b' and 'c': more names"},
        {"run.ini train.seed=3", "'train.seed=3' where the name of a file is expected; write --set train.seed=3"},
        {"--eval c data.val=/x/y.txt", "write --set data.val=/x/y.txt"},
        {"--eval", "--eval needs CHECKPOINT"},
        {"--eval a b", "--eval takes CHECKPOINT, but is given 'a' and 'b'"},
        {"--verify-runs a", "--verify-runs needs A B behind it, one is missing"},
        {"--verify-runs a b c", "more names"},
        {"--version a b", "--version takes no names"},
        {"--hash c --set train.seed=3", "--set does not go with --hash"},
        {"--eval c --hash", "'--eval' and '--hash' together"},
        {"--evall c", "did you mean '--eval'?"},
        {"--sett a.b=1", "did you mean '--set'?"},
        {"--tempersture 1", "did you mean '--temperature'?"},
        {"run.ini --set", "--set needs section.key=value"},
        {"run.ini --prompt x", "--prompt goes with --generate only"},
        {"--eval c --seed 3", "--seed goes with --generate only"},
        {"--generate c", "--generate needs --prompt TEXT"},
        {"--generate --prompt x", "--generate needs CHECKPOINT"},
        {"--generate c --prompt", "--prompt needs TEXT behind it"},
        {"--generate c --prompt ~", "--prompt is empty"},
        {"--generate c --prompt=", "--prompt is empty"},
        {"--generate c --prompt a --prompt b", "--prompt is given twice: 'a' and 'b'"},
        {"--generate c --prompt a --tokens 0", "--tokens 0: not within 1 and 2147483647"},
        {"--generate c --prompt a --tokens ten", "--tokens ten: not a whole number"},
        {"--generate c --prompt a --tokens 1e3", "--tokens 1e3: not a whole number"},
        {"--generate c --prompt a --temperature nan", "--temperature nan: not a finite number"},
        {"--generate c --prompt a --temperature -1", "--temperature -1: not within 0 and 1000"},
        {"--generate c --prompt a --temperature 0,8", "--temperature 0,8: use a point: 0.8"},
        {"--generate c --prompt a --top-k -1", "--top-k -1: not within 0"},
        {"--generate c --prompt a --seed 4294967296", "--seed 4294967296: not within 0 and 4294967295"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        arguments a;
        lsi_command command;

        cut(cases[i].line, &a);
        CHECK_FAILS(lsi_command_parse(a.argc, a.argv, &command), LS_ERR_USAGE, cases[i].message);
    }
    test_check_no_memory_live();
}

static void help_has_all_of_it(void **state)
{
    static const char *const parts[] = {
#define ROW(name, option, least, most, operands, sets, help) option, operands, help,
        LSI_COMMANDS(ROW)
#undef ROW
#define TEXT(member, option, value, command, help) option " " value, help,
#define INT(member, option, value, def, lo, hi, command, help) option " " value, help " (" def ")",
        LSI_COMMAND_VALUES(TEXT, INT, INT)
#undef TEXT
#undef INT
#define LS_STATUS(name, exit_code, text) #exit_code, text,
#include <lockstep/status.def>
#undef LS_STATUS
        "9 checkpoint error", "75 stopped on request", "128+n", "1 --verify-runs",
    };
    lsi_text text = {0};

    (void)state;
    lsi_command_help("trainer", &text);
    CHECK_OK(lsi_text_status(&text));
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        if (parts[i] != NULL && strstr(text.data, parts[i]) == NULL) {
            fail_msg("'%s' is not in the help:\n%s", parts[i], text.data);
        }
    }
    for (const char *line = text.data; *line != '\0'; line += strcspn(line, "\n") + 1) {
        if (strcspn(line, "\n") > 120) {
            fail_msg("too long: %.*s", (int)strcspn(line, "\n"), line);
        }
    }
    lsi_text_free(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(right_lines_are_understood),
        cmocka_unit_test(values_have_defaults_and_are_read),
        cmocka_unit_test(wrong_lines_are_refused),
        cmocka_unit_test(help_has_all_of_it),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
