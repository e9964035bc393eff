#include "launch/rank.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "launch/frame.h"
#include "launch/lines.h"
#include "launch/mig.h"
#include "launch/spawn.h"

enum {
    PARENT_MS = 200,         /* how often to look whether mpirun lives */
    WAITING_MS = 2,          /* until the program is ready for a signal, or launch has read */
    PIECE_BYTES = 4096,      /* what mpirun reads at once, and what a pipe takes whole */
    HELD_BYTES = 256 * 1024, /* of output not taken yet; then the program waits */
};
static const double ready_seconds = 20, last_words_seconds = 5;

typedef struct keeper {
    int rank;
    pid_t parent, child;
    int wait_status;
    bool ended, parent_gone;
    int asked;                 /* the last signal handed on; 0: none */
    int waiting[8], n_waiting; /* signals that came before the program was ready */
    double started;
    lsi_lines out, err;
    lsi_text frames; /* not yet written */
} keeper;

static int own_rank(void)
{
    static const char *const names[] = {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK"};

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const char *value = getenv(names[i]);

        if (value != NULL && value[0] >= '0' && value[0] <= '9') {
            return atoi(value);
        }
    }
    return 0;
}

/* ---- what is said ------------------------------------------------------------------------------------------------ */

static ls_status frame_line(keeper *k, lsi_frame_kind whole, lsi_frame_kind part, const char *line, size_t n,
                            bool complete)
{
    lsi_frame_append(&k->frames, complete ? whole : part, k->rank, line, n);
    return lsi_text_status(&k->frames);
}

static ls_status take_out(void *user, const char *line, size_t n, bool complete)
{
    return frame_line(user, LSI_FRAME_OUT, LSI_FRAME_OUT_PART, line, n, complete);
}

static ls_status take_error(void *user, const char *line, size_t n, bool complete)
{
    return frame_line(user, LSI_FRAME_ERROR, LSI_FRAME_ERROR_PART, line, n, complete);
}

/* mpirun reads up to 4,096 bytes of a rank and hands them on as they are, so that lines of two ranks mix where one of
 * them is cut there. Whole frames into an empty pipe are read whole. False: nothing can be written now. */
static bool write_piece(keeper *k)
{
    int unread = 0;
    size_t n = 0;

    if (ioctl(STDERR_FILENO, FIONREAD, &unread) == 0 && unread > 0) {
        return false;
    }
    while (n < k->frames.length) {
        const char *end = memchr(k->frames.data + n, '\n', k->frames.length - n);
        size_t next = end != NULL ? (size_t)(end + 1 - k->frames.data) : k->frames.length;

        if (n > 0 && next > PIECE_BYTES) {
            break;
        }
        n = next;
    }
    ssize_t written = write(STDERR_FILENO, k->frames.data, n);
    if (written <= 0) {
        /* Nobody can hear us: mpirun is gone, which is seen elsewhere. */
        k->parent_gone = k->parent_gone || (written < 0 && errno != EAGAIN && errno != EINTR);
        return false;
    }
    memmove(k->frames.data, k->frames.data + written, k->frames.length - (size_t)written + 1);
    k->frames.length -= (size_t)written;
    return true;
}

static void write_frames(keeper *k)
{
    while (k->frames.length > 0 && write_piece(k)) {
    }
}

/* ---- what happens ------------------------------------------------------------------------------------------------ */

static void hand_on(keeper *k)
{
    if (k->n_waiting == 0 || k->ended) {
        return;
    }
    /* A request to stop would end a program that has not come to its first line. */
    if (!lsi_spawn_catches(k->child, SIGUSR1) && lsi_clock_seconds() - k->started < ready_seconds) {
        return;
    }
    for (int i = 0; i < k->n_waiting; i++) {
        k->asked = k->waiting[i];
        kill(k->child, k->waiting[i]);
    }
    k->n_waiting = 0;
}

static void take_signals(keeper *k, int fd)
{
    struct signalfd_siginfo info;

    while (read(fd, &info, sizeof info) == (ssize_t)sizeof info) {
        if (info.ssi_signo != SIGCHLD && k->n_waiting < (int)(sizeof k->waiting / sizeof k->waiting[0])) {
            k->waiting[k->n_waiting++] = (int)info.ssi_signo;
        }
    }
    if (!k->ended && waitpid(k->child, &k->wait_status, WNOHANG) == k->child) {
        k->ended = true;
    }
}

static int poll_milliseconds(const keeper *k)
{
    return k->n_waiting > 0 || k->frames.length > 0 ? WAITING_MS : PARENT_MS;
}

static ls_status watch(keeper *k, int signals)
{
    while (!k->ended && !k->parent_gone) {
        bool hold = k->frames.length > HELD_BYTES;
        struct pollfd fds[] = {
            {signals, POLLIN, 0}, {hold ? -1 : k->out.fd, POLLIN, 0}, {hold ? -1 : k->err.fd, POLLIN, 0}};

        poll(fds, 3, poll_milliseconds(k));
        if (fds[0].revents != 0) {
            take_signals(k, signals);
        }
        if (fds[1].revents != 0) {
            LS_TRY(lsi_lines_read(&k->out));
        }
        if (fds[2].revents != 0) {
            LS_TRY(lsi_lines_read(&k->err));
        }
        hand_on(k);
        write_frames(k);
        k->parent_gone = k->parent_gone || getppid() != k->parent;
    }
    return LS_OK;
}

/* What the pipes still hold. Somebody else may have them open, so the end of input is not waited for. */
static ls_status read_rest(lsi_lines *lines)
{
    struct pollfd fd = {lines->fd, POLLIN, 0};

    while (lines->fd >= 0 && poll(&fd, 1, 0) > 0) {
        LS_TRY(lsi_lines_read(lines));
    }
    return lsi_lines_close(lines);
}

static ls_status say_last_words(keeper *k, int code)
{
    char text[64];
    double begun = lsi_clock_seconds();

    LS_TRY(read_rest(&k->out));
    LS_TRY(read_rest(&k->err));
    int n = snprintf(text, sizeof text, "%d %d", code, k->asked);
    lsi_frame_append(&k->frames, LSI_FRAME_ENDED, k->rank, text, (size_t)n);
    LS_TRY(lsi_text_status(&k->frames));
    while (k->frames.length > 0 && !k->parent_gone && lsi_clock_seconds() - begun < last_words_seconds) {
        write_frames(k);
        poll(NULL, 0, 1);
        k->parent_gone = k->parent_gone || getppid() != k->parent;
    }
    return LS_OK;
}

/* ---- life -------------------------------------------------------------------------------------------------------- */

static ls_status open_pipe(lsi_lines *lines, lsi_lines_take *take, keeper *k, int *write_end)
{
    int ends[2];

    LS_REQUIRE(pipe2(ends, O_CLOEXEC) == 0, LS_ERR_INTERNAL, "cannot make a pipe: %s", strerror(errno));
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    *lines = (lsi_lines){.fd = ends[0], .most = LSI_FRAME_MAX - 24, .take = take, .user = k};
    *write_end = ends[1];
    return LS_OK;
}

static ls_status start(keeper *k, char *const *command, const sigset_t *mask)
{
    lsi_spawn_options options = {.out = -1, .err = -1, .signal_at_our_end = SIGKILL, .mask = mask};

    ls_status status = open_pipe(&k->out, take_out, k, &options.out);
    if (status == LS_OK) {
        status = open_pipe(&k->err, take_error, k, &options.err);
    }
    if (status == LS_OK) {
        status = lsi_spawn(command, &options, &k->child);
    }
    if (options.out >= 0) {
        close(options.out);
    }
    if (options.err >= 0) {
        close(options.err);
    }
    return status;
}

static ls_status say_started(keeper *k)
{
    char host[256] = "", text[320];

    gethostname(host, sizeof host - 1);
    int n = snprintf(text, sizeof text, "%s %ld", host[0] != '\0' ? host : "localhost", (long)k->child);
    lsi_frame_append(&k->frames, LSI_FRAME_STARTED, k->rank, text, (size_t)n);
    return lsi_text_status(&k->frames);
}

static ls_status keep(keeper *k, int signals, int *code)
{
    LS_TRY(say_started(k));
    write_frames(k);
    LS_TRY(watch(k, signals));
    if (!k->ended) {
        kill(k->child, SIGKILL);
        while (waitpid(k->child, &k->wait_status, 0) < 0 && errno == EINTR) {
        }
        k->ended = true;
    }
    int ended_with = lsi_spawn_exit_code(k->wait_status);
    *code = ended_with == ls_status_exit_code(LS_STOPPED) ? 0 : ended_with;
    return say_last_words(k, ended_with);
}

/* The program could not be started. launch says why, as it does for a program that fails. */
static ls_status say_failure(keeper *k, ls_status why, int *code)
{
    char text[LSI_FRAME_MAX - 24];
    int n = snprintf(text, sizeof text, "launch: error: %s", ls_failure_message());

    *code = ls_status_exit_code(why);
    LS_TRY(say_started(k));
    lsi_frame_append(&k->frames, LSI_FRAME_ERROR, k->rank, text, strnlen(text, (size_t)n));
    return say_last_words(k, *code);
}

ls_status lsi_rank_run(char *const *command, int n, int *code)
{
    static const int caught[] = {SIGCHLD, SIGUSR1, SIGUSR2, SIGTERM, SIGINT, SIGHUP, SIGQUIT};
    keeper k = {.rank = own_rank(), .parent = getppid(), .started = lsi_clock_seconds(), .out.fd = -1, .err.fd = -1};
    sigset_t ours, before;

    signal(SIGPIPE, SIG_IGN);
    sigemptyset(&ours);
    for (size_t i = 0; i < sizeof caught / sizeof caught[0]; i++) {
        sigaddset(&ours, caught[i]);
    }
    sigprocmask(SIG_BLOCK, &ours, &before);
    int signals = signalfd(-1, &ours, SFD_NONBLOCK | SFD_CLOEXEC);
    ls_status status = signals < 0 ? LS_FAIL(LS_ERR_INTERNAL, "cannot watch for signals: %s", strerror(errno)) : LS_OK;
    if (status == LS_OK) {
        status = lsi_mig_choose(command, n, &(lsi_signals){.fd = -1, .before = before});
        status = status == LS_OK ? start(&k, command, &before) : status;
        status = status == LS_OK ? keep(&k, signals, code) : say_failure(&k, status, code);
    }
    if (k.child > 0 && !k.ended) {
        kill(k.child, SIGKILL);
    }
    for (lsi_lines *lines = &k.out; lines != NULL; lines = lines == &k.out ? &k.err : NULL) {
        if (lines->fd >= 0) {
            close(lines->fd);
            lsi_text_free(&lines->rest);
        }
    }
    lsi_text_free(&k.frames);
    if (signals >= 0) {
        close(signals);
    }
    return status;
}
