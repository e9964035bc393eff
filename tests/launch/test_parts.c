/* RUN: timeout=60 */
/* The parts of launch that read and write text: its options, frames, lines, slots, quoting, and what is worth a start
 * again. */
#include "support/test.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "launch/frame.h"
#include "launch/host_list.h"
#include "launch/lines.h"
#include "launch/options.h"
#include "launch/policy.h"
#include "launch/saves.h"
#include "launch/slots.h"
#include "launch/words.h"

/* ---- options ----------------------------------------------------------------------------------------------------- */

static ls_status parse(const char *const *words, lsi_launch_options *out)
{
    int argc = 0;

    while (words[argc] != NULL) {
        argc++;
    }
    return lsi_launch_options_parse(argc, (char *const *)(void *)words, out);
}

static void test_options(void **state)
{
    static const char *const words[] = {"launch",
                                        "--np",
                                        "3",
                                        "--max_restarts=2",
                                        "--restart-delay",
                                        "500ms",
                                        "--mca",
                                        "btl",
                                        "tcp,self",
                                        "-x",
                                        "A",
                                        "--mpi-arg=--display-map",
                                        "-H",
                                        "a:2",
                                        "./t",
                                        "-n",
                                        "7",
                                        NULL};
    lsi_launch_options o;
    lsi_text mpi = {0};

    (void)state;
    CHECK_OK(parse(words, &o));
    lsi_words_quote(o.mpi.word, o.mpi.n, &mpi);
    assert_int_equal(o.n_ranks, 3);
    assert_int_equal(o.max_restarts, 2);
    assert_true(o.restart_delay == 0.5);
    assert_string_equal(mpi.data, "--mca btl tcp,self -x A --display-map");
    assert_string_equal(o.host, "a:2");
    /* The program's own arguments are not read. */
    assert_int_equal(o.n_command, 3);
    assert_string_equal(o.command[2], "7");
    lsi_launch_options_free(&o);
    lsi_text_free(&mpi);
    test_check_no_memory_live();
}

static void test_options_end(void **state)
{
    static const char *const words[] = {"launch", "-n", "1", "--", "-program", "-n", NULL};
    lsi_launch_options o;

    (void)state;
    CHECK_OK(parse(words, &o));
    assert_int_equal(o.n_command, 2);
    assert_string_equal(o.command[0], "-program");
    lsi_launch_options_free(&o);
}

static void test_options_refused(void **state)
{
    static const struct {
        const char *words[6], *part;
    } bad[] = {
        {{"launch", "-n", "x", "p"}, "-n x: "},
        {{"launch", "-n", "100001", "p"}, "not within 1 and 100000"},
        {{"launch", "--mca", "a"}, "--mca needs KEY VALUE"},
        {{"launch", "--mca=a", "b", "p"}, "takes KEY VALUE"},
        {{"launch", "--host", "", "p"}, "empty"},
        {{"launch", "--log-dir", "a", "--log-dir=b", "p"}, "given twice"},
        {{"launch", "--hots", "a", "p"}, "did you mean '--host'"},
        {{"launch", "--"}, "no program given"},
    };
    lsi_launch_options o;

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        CHECK_FAILS(parse(bad[i].words, &o), LS_ERR_USAGE, bad[i].part);
    }
    test_check_no_memory_live();
}

/* ---- texts ------------------------------------------------------------------------------------------------------- */

static void test_quote(void **state)
{
    static char *const words[] = {"plain/a-b.c=1", "two words", "it's", "", "$HOME;"};
    lsi_text command = {0};
    char answer[128] = "";

    (void)state;
    /* The shell itself says whether it reads them back. */
    lsi_text_append(&command, "printf '%%s|' ");
    lsi_words_quote(words, 5, &command);
    assert_true(strncmp(command.data + strlen("printf '%s|' "), "plain/a-b.c=1 ", 14) == 0);
    FILE *shell = popen(command.data, "r");
    assert_non_null(shell);
    assert_non_null(fgets(answer, sizeof answer, shell));
    assert_int_equal(pclose(shell), 0);
    assert_string_equal(answer, "plain/a-b.c=1|two words|it's||$HOME;|");
    lsi_text_free(&command);
}

static void test_frames(void **state)
{
    static const char *const no_frames[] = {"",         "o0 x",     "\x1e",    "\x1eo",     "\x1eo ",
                                            "\x1eoa x", "\x1ez0 x", "\x1eo12", "\x1eo-1 x", "\x1eo99999999999 x"};
    lsi_text text = {0};
    lsi_frame frame;

    (void)state;
    lsi_frame_append(&text, LSI_FRAME_ERROR_PART, 12, "a b", 3);
    assert_true(text.data[text.length - 1] == '\n');
    text.data[text.length - 1] = '\0';
    assert_true(lsi_frame_read(text.data, &frame));
    assert_int_equal(frame.kind, LSI_FRAME_ERROR_PART);
    assert_int_equal(frame.rank, 12);
    assert_string_equal(frame.text, "a b");
    for (size_t i = 0; i < sizeof no_frames / sizeof no_frames[0]; i++) {
        assert_false(lsi_frame_read(no_frames[i], &frame));
    }
    lsi_text_free(&text);
}

static ls_status take(void *user, const char *line, size_t n, bool complete)
{
    assert_int_equal(strlen(line), n);
    lsi_text_append(user, "%s%s", line, complete ? "|" : "+");
    return LS_OK;
}

/* However the bytes come in pieces, the lines are the same. */
static void test_lines(void **state)
{
    static const char input[] = "one\n\nthree\r\n12345678\n123456789\na\0b\n1234567890123456789012\nend";
    static const char expected[] = "one||three|12345678|12345678+9|a b|12345678+90123456+789012|end+";

    (void)state;
    for (size_t step = 1; step <= sizeof input; step++) {
        lsi_text seen = {0};
        int ends[2];

        assert_int_equal(pipe(ends), 0);
        fcntl(ends[0], F_SETFL, O_NONBLOCK);
        lsi_lines lines = {.fd = ends[0], .most = 8, .take = take, .user = &seen};
        for (size_t done = 0; done < sizeof input - 1; done += step) {
            size_t n = sizeof input - 1 - done < step ? sizeof input - 1 - done : step;

            assert_int_equal(write(ends[1], input + done, n), n);
            CHECK_OK(lsi_lines_read(&lines));
        }
        CHECK_OK(lsi_lines_read(&lines)); /* nothing there: no end either */
        assert_int_equal(lines.fd, ends[0]);
        close(ends[1]);
        CHECK_OK(lsi_lines_read(&lines));
        assert_int_equal(lines.fd, -1);
        assert_string_equal(seen.data, expected);
        lsi_text_free(&seen);
    }
    test_check_no_memory_live();
}

/* ---- hosts, codes, checkpoints ----------------------------------------------------------------------------------- */

static void test_slots(void **state)
{
    static const struct {
        const char *text;
        int slots;
    } files[] = {
        {"a slots=2\nb slots=3 max_slots=9\n", 5}, {"# no\n\n  a  slots=2 # b slots=7\r\n", 2}, {"a slots=2\nb\n", 0}};
    const char *folder = test_folder_make();
    static lsi_hosts hosts;
    static char text[LSI_HOSTS_TEXT];
    char path[512];

    (void)state;
    CHECK_OK(lsi_host_list_read("a:4,b", NULL, &hosts));
    assert_int_equal(lsi_host_list_slots(&hosts, 1), 5);
    CHECK_OK(lsi_host_list_read("a,a,b:0,,c:x", NULL, &hosts));
    assert_int_equal(lsi_host_list_slots(&hosts, 1), 2);
    assert_int_equal(hosts.n, 3);
    assert_int_equal(hosts.host[0].n_unsaid, 2);
    CHECK_OK(lsi_host_list_read("a:1,b:2,a:3,ab", NULL, &hosts));
    assert_int_equal(hosts.n, 3);
    assert_int_equal(hosts.host[0].slots, 4);
    hosts.host[0].n = 4;
    hosts.host[2].n = 1;
    assert_int_equal(lsi_host_list_text(&hosts, text), 5);
    assert_string_equal(text, "a:4,ab:1");
    CHECK_FAILS(lsi_host_list_read(",,", NULL, &hosts), LS_ERR_USAGE, "names no host");
    snprintf(path, sizeof path, "%s/hosts", folder);
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        FILE *file = fopen(path, "w");

        assert_non_null(file);
        fputs(files[i].text, file);
        fclose(file);
        CHECK_OK(lsi_host_list_read(NULL, path, &hosts));
        assert_int_equal(lsi_host_list_slots(&hosts, 0), files[i].slots);
    }
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs("# nobody\n", file);
    fclose(file);
    CHECK_FAILS(lsi_host_list_read(NULL, path, &hosts), LS_ERR_USAGE, "names no host");
    assert_true(lsi_slots_here() >= 1);
    test_folder_remove();
    test_check_no_memory_live();
}

static void test_allocation(void **state)
{
    static const char *const names[] = {"SLURM_JOB_ID", "SLURM_NTASKS", "PBS_NODEFILE", "LSB_DJOB_HOSTFILE",
                                        "PE_HOSTFILE"};

    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        unsetenv(names[i]);
    }
    assert_int_equal(lsi_slots_of_allocation(), -1);
    setenv("SLURM_NTASKS", "4", 1); /* alone it says nothing */
    assert_int_equal(lsi_slots_of_allocation(), -1);
    setenv("SLURM_JOB_ID", "7", 1);
    assert_int_equal(lsi_slots_of_allocation(), 4);
    unsetenv("SLURM_NTASKS");
    assert_int_equal(lsi_slots_of_allocation(), 0);
    unsetenv("SLURM_JOB_ID");
    setenv("PBS_NODEFILE", "/x", 1);
    assert_int_equal(lsi_slots_of_allocation(), 0);
    unsetenv("PBS_NODEFILE");
}

/* Every code of the runtime is decided; what it does not know is worth a try. */
static void test_policy(void **state)
{
    static const int worth[] = {5, 6, 7, 1, 42, 134, 137, 139, 255}, not_worth[] = {0, 2, 3, 4, 8, 9, 10, 11, 75, 127};
    lsi_text text = {0};

    (void)state;
    for (size_t i = 0; i < sizeof worth / sizeof worth[0]; i++) {
        assert_true(lsi_launch_policy_restarts(worth[i]));
    }
    for (size_t i = 0; i < sizeof not_worth / sizeof not_worth[0]; i++) {
        assert_false(lsi_launch_policy_restarts(not_worth[i]));
    }
    lsi_launch_policy_describe(137, &text);
    assert_string_equal(text.data, "killed by signal 9 (Killed), exit code 137");
    lsi_text_clear(&text);
    lsi_launch_policy_describe(5, &text);
    assert_string_equal(text.data, "exit code 5, device error");
    lsi_text_free(&text);
}

static void save(const char *folder, const char *name, bool whole)
{
    char path[512];

    snprintf(path, sizeof path, "mkdir -p %s/%s && touch %s/%s/%s", folder, name, folder, name,
             whole ? "manifest.json" : "other");
    assert_int_equal(system(path), 0);
}

static void test_saves(void **state)
{
    const char *folder = test_folder_make();
    lsi_saves before, now;
    char command[512];

    (void)state;
    CHECK_OK(lsi_saves_read("/nonexistent", &before));
    assert_int_equal(before.n, 0);
    save(folder, "step-00000010", true);
    save(folder, "step-00000020", true);
    save(folder, "step-00000030.partial", true);
    save(folder, "step-00000040", false);
    CHECK_OK(lsi_saves_read(folder, &before));
    assert_int_equal(before.n, 2);
    CHECK_OK(lsi_saves_read(folder, &now));
    assert_int_equal(lsi_saves_newest(&before, &now), -1);
    lsi_saves_free(&now);
    /* The same step again counts as new: the old folder has been moved aside. */
    snprintf(command, sizeof command, "mv %s/step-00000010 %s/old", folder, folder);
    assert_int_equal(system(command), 0);
    save(folder, "step-00000010", true);
    CHECK_OK(lsi_saves_read(folder, &now));
    assert_int_equal(lsi_saves_newest(&before, &now), 10);
    lsi_saves_free(&now);
    lsi_saves_free(&before);
    test_folder_remove();
    test_check_no_memory_live();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_options), cmocka_unit_test(test_options_end), cmocka_unit_test(test_options_refused),
        cmocka_unit_test(test_quote),   cmocka_unit_test(test_frames),      cmocka_unit_test(test_lines),
        cmocka_unit_test(test_slots),   cmocka_unit_test(test_allocation),  cmocka_unit_test(test_policy),
        cmocka_unit_test(test_saves),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
