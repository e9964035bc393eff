#include "launch/ask.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "config/command_line.h"
#include "launch/spawn.h"
#include "launch/words.h"

static const double patience_seconds = 60;
static const size_t answer_most = 1 << 20;

/* Until the end of input, the last second, or a request to stop; false for the latter two. */
static bool read_all(int fd, double seconds, lsi_signals *signals, lsi_text *out)
{
    double end = lsi_clock_seconds() + seconds;
    char piece[4096];

    while (lsi_clock_seconds() < end && signals->n_requests == 0 && out->length < answer_most) {
        struct pollfd fds[] = {{fd, POLLIN, 0}, {signals->fd, POLLIN, 0}};

        poll(fds, 2, 100);
        if (fds[1].revents != 0) {
            lsi_signals_take(signals);
        }
        if (fds[0].revents != 0) {
            ssize_t n = read(fd, piece, sizeof piece);

            if (n == 0) {
                return true;
            }
            if (n > 0) {
                lsi_text_append_bytes(out, piece, (size_t)n);
            }
        }
    }
    return false;
}

ls_status lsi_ask_run(char *const *argv, double patience, lsi_signals *signals, lsi_text *answer, int *code)
{
    lsi_spawn_options options = {
        .err = -1, .without_input = true, .signal_at_our_end = SIGKILL, .mask = &signals->before};
    int ends[2], wait_status = 0;
    pid_t pid;

    LS_REQUIRE(pipe2(ends, O_CLOEXEC) == 0, LS_ERR_INTERNAL, "cannot make a pipe: %s", strerror(errno));
    options.out = ends[1];
    ls_status status = lsi_spawn(argv, &options, &pid);
    close(ends[1]);
    if (status == LS_OK) {
        bool answered = read_all(ends[0], patience, signals, answer);

        if (!answered) {
            kill(pid, SIGKILL);
        }
        while (waitpid(pid, &wait_status, 0) < 0 && errno == EINTR) {
        }
        *code = answered ? lsi_spawn_exit_code(wait_status) : -1;
        status = lsi_text_status(answer);
    }
    close(ends[0]);
    return status;
}

static ls_status read_answer(const char *program, const char *answer, int code, lsi_config **out)
{
    LS_REQUIRE(code != -1, LS_ERR_USAGE,
               "'%.200s --print-config' has not answered in %g s; launch starts training programs of Lockstep, others "
               "start with mpirun",
               program, patience_seconds);
    LS_REQUIRE(code == 0, LS_ERR_CONFIG,
               "'%.200s --print-config' ended with %d, so nothing is started; what is wrong stands above", program,
               code);
    /* An empty answer would be one, of defaults. */
    ls_status status = answer[strspn(answer, " \t\n")] == '\0' ? LS_FAIL(LS_ERR_CONFIG, "nothing at all")
                                                               : lsi_config_parse(answer, out);
    LS_REQUIRE(status != LS_ERR_CONFIG, LS_ERR_USAGE,
               "'%.200s --print-config' gave no configuration (%.200s); launch starts training programs of Lockstep, "
               "others start with mpirun",
               program, ls_failure_message());
    return status;
}

/* Options that turn training into something else; what they print is over in a moment, or needs no config. */
static ls_status check_trains(char *const *command, int n)
{
    static const char *const other[] = {
#define ROW(name, option, least, most, operands, sets, help) option,
        LSI_COMMANDS(ROW)
#undef ROW
    };

    for (int i = 1; i < n; i++) {
        for (size_t c = 0; c < sizeof other / sizeof other[0]; c++) {
            LS_REQUIRE(other[c] == NULL || strcmp(command[i], other[c]) != 0, LS_ERR_USAGE,
                       "launch starts training; for %s start '%.200s' itself, or under mpirun", other[c], command[0]);
        }
    }
    return LS_OK;
}

ls_status lsi_ask_config(char *const *command, int n, lsi_signals *signals, lsi_config **out)
{
    lsi_words words = {0};
    lsi_text answer = {0};
    int code = 0;

    LS_TRY(check_trains(command, n));
    ls_status status = lsi_words_add(&words, command[0]);
    if (status == LS_OK) {
        status = lsi_words_add(&words, "--print-config");
    }
    if (status == LS_OK) {
        status = lsi_words_add_all(&words, command + 1, n - 1);
    }
    if (status == LS_OK) {
        status = lsi_ask_run(words.word, patience_seconds, signals, &answer, &code);
    }
    if (status == LS_OK) {
        status = read_answer(command[0], answer.data != NULL ? answer.data : "", code, out);
    }
    lsi_words_free(&words);
    lsi_text_free(&answer);
    return status;
}
