/* RUN: */
/* What arrives on standard output and standard error, which are pipes here, or a terminal. */
#include "support/test.h"

#include <fcntl.h>
#include <pty.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

#include "base/log.h"

static char received[3][16384];      /* by descriptor: 1, 2 */
static int saved[3], readers[3];

static void redirect(int fd, int reader, int writer)
{
    fflush(stdout);
    saved[fd] = dup(fd);
    readers[fd] = reader;
    dup2(writer, fd);
    close(writer);
}

static void capture_pipe(int fd)
{
    int ends[2];

    assert_int_equal(pipe(ends), 0);
    redirect(fd, ends[0], ends[1]);
}

static void capture_terminal(int fd, unsigned short columns)
{
    struct winsize size = {24, columns, 0, 0};
    struct termios raw;
    int master, slave;

    assert_int_equal(openpty(&master, &slave, NULL, NULL, &size), 0);
    assert_int_equal(tcgetattr(slave, &raw), 0);
    cfmakeraw(&raw);
    assert_int_equal(tcsetattr(slave, TCSANOW, &raw), 0);
    redirect(fd, master, slave);
}

/* Ends the capture; what was written is in received[fd]. */
static void restore(int fd)
{
    size_t n = 0;
    ssize_t got;

    fcntl(readers[fd], F_SETFL, O_NONBLOCK);
    while ((got = read(readers[fd], received[fd] + n, sizeof received[fd] - 1 - n)) > 0) {
        n += (size_t)got;
    }
    received[fd][n] = '\0';
    dup2(saved[fd], fd);
    close(saved[fd]);
    close(readers[fd]);
}

static void messages_go_where_they_belong(void **state)
{
    (void)state;
    lsi_log_open("trainer", 0, 4, "node17");
    lsi_log_set_level(LSI_LOG_DEBUG);
    capture_pipe(1);
    capture_pipe(2);
    lsi_log_error("bad %d", 1);
    lsi_log_warn("odd %d", 2);
    lsi_log_info("info %d", 3);
    lsi_log_debug("debug %d", 4);
    lsi_log_progress("progress %d", 5);
    restore(2);
    restore(1);
    assert_string_equal(received[2], "trainer: error [rank 0/4 node17]: bad 1\n"
                                     "trainer: warning [rank 0/4 node17]: odd 2\n");
    assert_string_equal(received[1], "info 3\ndebug 4\nprogress 5\n");
}

static void other_ranks_only_warn(void **state)
{
    (void)state;
    lsi_log_open("trainer", 3, 4, "node17");
    capture_pipe(1);
    capture_pipe(2);
    lsi_log_error("bad");
    lsi_log_info("info");
    lsi_log_debug("debug");
    lsi_log_progress("progress");
    restore(2);
    restore(1);
    assert_string_equal(received[2], "trainer: error [rank 3/4 node17]: bad\n");
    assert_string_equal(received[1], "");
}

static void levels_hide_what_is_less_important(void **state)
{
    (void)state;
    static const char *const out[] = {"", "", "i\np\n", "i\nd\np\n"};

    lsi_log_open("trainer", 0, 1, "node17");
    for (int level = LSI_LOG_ERROR; level <= LSI_LOG_DEBUG; level++) {
        lsi_log_set_level((lsi_log_level)level);
        capture_pipe(1);
        capture_pipe(2);
        lsi_log_error("e");
        lsi_log_warn("w");
        lsi_log_info("i");
        lsi_log_debug("d");
        lsi_log_progress("p");
        restore(2);
        restore(1);
        assert_string_equal(received[2], level >= LSI_LOG_WARN ? "trainer: error: e\ntrainer: warning: w\n"
                                                               : "trainer: error: e\n");
        assert_string_equal(received[1], out[level]);
    }
    lsi_log_set_level(LSI_LOG_INFO);
}

static void a_message_is_one_line(void **state)
{
    (void)state;
    char text[10000];

    lsi_log_open("trainer", 0, 1, "node17");
    capture_pipe(2);
    lsi_log_error("a\nb\tc\x1b[31md\x7f");
    restore(2);
    assert_string_equal(received[2], "trainer: error: a?b?c?[31md?\n");

    /* Cut at a character, in one piece of a pipe's size. */
    for (size_t shift = 0; shift < 3; shift++) {
        for (size_t i = 0; i < sizeof text; i++) {
            text[i] = "\xe2\x82\xac"[(i + shift) % 3];
        }
        text[sizeof text - 1] = '\0';
        capture_pipe(2);
        lsi_log_error("%s", text + (3 - shift) % 3);
        restore(2);
        size_t n = strlen(received[2]), prefix = strlen("trainer: error: ");
        assert_in_range(n, 4096 - 3, 4096);
        assert_int_equal((n - prefix - 1) % 3, 0);
        assert_int_equal(received[2][n - 1], '\n');
    }
}

static void progress_is_overwritten_on_a_terminal(void **state)
{
    (void)state;
    lsi_log_open("trainer", 0, 1, "node17");
    capture_terminal(1, 20);
    lsi_log_progress("step 1");
    lsi_log_progress("step 2 with a line that is too long");
    lsi_log_info("saved");
    lsi_log_info("done");
    restore(1);
    assert_string_equal(received[1], "\r\x1b[Kstep 1"
                                     "\r\x1b[Kstep 2 with a line "
                                     "\r\x1b[Ksaved\ndone\n");

    capture_terminal(1, 20);
    capture_pipe(2);
    lsi_log_progress("step 3");
    lsi_log_warn("slow");
    restore(2);
    restore(1);
    assert_string_equal(received[1], "\r\x1b[Kstep 3\r\x1b[K");
    assert_string_equal(received[2], "trainer: warning: slow\n");
}

static void a_reader_that_left_does_not_kill(void **state)
{
    (void)state;
    sigset_t pending;

    lsi_log_open("trainer", 0, 1, "node17");
    capture_pipe(1);
    close(readers[1]);
    readers[1] = open("/dev/null", O_RDONLY);
    for (int i = 0; i < 3; i++) {
        lsi_log_info("nobody reads this");
    }
    restore(1);
    sigpending(&pending);
    assert_false(sigismember(&pending, SIGPIPE));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_go_where_they_belong),
        cmocka_unit_test(other_ranks_only_warn),
        cmocka_unit_test(levels_hide_what_is_less_important),
        cmocka_unit_test(a_message_is_one_line),
        cmocka_unit_test(progress_is_overwritten_on_a_terminal),
        cmocka_unit_test(a_reader_that_left_does_not_kill),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
