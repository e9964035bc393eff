#include "launch/attempt.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"
#include "launch/frame.h"
#include "launch/lines.h"
#include "launch/policy.h"
#include "launch/spawn.h"

enum { LINE_MOST = 8192, TICK_MS = 50, IDLE_MS = 1000 };
/* mpirun takes two seconds to end its ranks after SIGTERM. A rank that never starts must not swallow a request. */
static const double end_seconds = 10, start_seconds = 60;
/* Keepers look every 0.2 s whether mpirun lives. */
static const double outlive_seconds = 5;

typedef struct rank_state {
    bool started, ended;
    int code, asked; /* of one that has ended */
    int order;       /* the how-manieth to end */
    long pid;
    char host[LSI_ATTEMPT_HOST];
} rank_state;

typedef struct attempt {
    pid_t pid;
    int wait_status;
    bool over;
    int n_expected, n_started, n_ended;
    rank_state *ranks;
    int n_ranks; /* in the list */
    lsi_signals *signals;
    lsi_logs *logs;
    bool handed_on;          /* the request to stop */
    double stop_at, kill_at; /* when a request first waited; when mpirun is killed; 0: not set */
    lsi_lines out, err;
} attempt;

/* ---- what the keepers tell --------------------------------------------------------------------------------------- */

static ls_status find_rank(attempt *a, int rank, rank_state **out)
{
    if (rank >= a->n_ranks) {
        void *list = a->ranks;

        LS_TRY(lsi_memory_resize(&list, ((size_t)rank + 1) * sizeof *a->ranks, "the state of the ranks"));
        a->ranks = list;
        a->n_ranks = rank + 1;
    }
    *out = &a->ranks[rank];
    return LS_OK;
}

static void take_started(attempt *a, rank_state *rank, const char *text)
{
    int length = (int)strcspn(text, " ");

    snprintf(rank->host, sizeof rank->host, "%.*s", length, text);
    rank->pid = strtol(text + length, NULL, 10);
    a->n_started += rank->started ? 0 : 1;
    rank->started = true;
}

static void take_ended(attempt *a, rank_state *rank, const char *text)
{
    char *end;

    rank->code = (int)strtol(text, &end, 10);
    rank->asked = (int)strtol(end, NULL, 10);
    rank->order = a->n_ended++;
    rank->ended = true;
}

static ls_status take_line(void *user, const char *line, size_t n, bool complete)
{
    attempt *a = user;
    rank_state *rank;
    lsi_frame frame;

    (void)n;
    if (!complete || !lsi_frame_read(line, &frame)) {
        return lsi_logs_take(a->logs, -1, true, line, complete);
    }
    LS_TRY(find_rank(a, frame.rank, &rank));
    switch (frame.kind) {
    case LSI_FRAME_STARTED:
        take_started(a, rank, frame.text);
        return LS_OK;
    case LSI_FRAME_ENDED:
        take_ended(a, rank, frame.text);
        return LS_OK;
    default:
        return lsi_logs_take(a->logs, frame.rank, frame.kind == LSI_FRAME_ERROR || frame.kind == LSI_FRAME_ERROR_PART,
                             frame.text, frame.kind == LSI_FRAME_OUT || frame.kind == LSI_FRAME_ERROR);
    }
}

/* ---- signals ----------------------------------------------------------------------------------------------------- */

/* mpirun hands SIGUSR1 on only when it has started the ranks, and dies of it before it has come to that. */
static bool can_hand_on(const attempt *a)
{
    bool all_started = a->n_expected > 0 ? a->n_started >= a->n_expected : a->n_started > 0;

    /* A keeper is ready before it reports, and mpirun before it starts one. */
    return all_started || (lsi_clock_seconds() - a->stop_at > start_seconds && lsi_spawn_catches(a->pid, SIGUSR1));
}

static void act(attempt *a)
{
    double now = lsi_clock_seconds();

    if (a->signals->n_requests > 0 && a->stop_at == 0) {
        a->stop_at = now;
    }
    if (a->signals->n_requests > 0 && !a->handed_on && can_hand_on(a)) {
        kill(a->pid, SIGUSR1);
        a->handed_on = true;
    }
    if (a->signals->n_requests > 1 && a->kill_at == 0) {
        kill(a->pid, SIGTERM);
        a->kill_at = now + end_seconds;
    }
    if (a->kill_at > 0 && now > a->kill_at) {
        kill(a->pid, SIGKILL);
        a->kill_at = now + end_seconds;
    }
}

static ls_status watch(attempt *a)
{
    while (!a->over) {
        struct pollfd fds[] = {{a->signals->fd, POLLIN, 0}, {a->out.fd, POLLIN, 0}, {a->err.fd, POLLIN, 0}};
        bool acting = a->signals->n_requests > 0;

        poll(fds, 3, acting ? TICK_MS : IDLE_MS);
        lsi_signals_take(a->signals);
        if (fds[1].revents != 0) {
            LS_TRY(lsi_lines_read(&a->out));
        }
        if (fds[2].revents != 0) {
            LS_TRY(lsi_lines_read(&a->err));
        }
        a->over = waitpid(a->pid, &a->wait_status, WNOHANG) == a->pid;
        if (!a->over) {
            act(a);
        }
    }
    return LS_OK;
}

/* ---- the result -------------------------------------------------------------------------------------------------- */

static bool has_failed(const rank_state *rank)
{
    return rank->ended && rank->code != 0 && rank->code != ls_status_exit_code(LS_STOPPED);
}

/* mpirun ends the other ranks with SIGTERM and SIGKILL, so a rank that was asked by SIGTERM may be a victim. */
static bool is_victim(const rank_state *rank)
{
    return rank->asked == SIGTERM;
}

static bool was_killed(const rank_state *rank)
{
    return rank->asked == 0 && lsi_launch_policy_is_signal(rank->code);
}

/* It may have failed because another one did. */
static bool misses_others(const rank_state *rank)
{
    return rank->code == ls_status_exit_code(LS_ERR_COMM) || rank->code == ls_status_exit_code(LS_ERR_TIMEOUT);
}

/* Whether rank a is more likely to be the cause than b. Ranks that agree on a failure leave with one code, and one of
 * them has said why. */
static bool comes_before(const attempt *at, int a, int b)
{
    const rank_state *x = &at->ranks[a], *y = &at->ranks[b];

    if (is_victim(x) != is_victim(y)) {
        return is_victim(y);
    }
    /* News of another host's rank may come later than what its end did here. */
    if ((was_killed(x) && misses_others(y)) || (was_killed(y) && misses_others(x))) {
        return was_killed(x);
    }
    bool x_said = lsi_logs_source(at->logs, a)->said_error, y_said = lsi_logs_source(at->logs, b)->said_error;
    if (x->code == y->code && x_said != y_said) {
        return x_said;
    }
    return x->order < y->order;
}

static void conclude(const attempt *a, lsi_attempt_result *out)
{
    int mpirun_code = lsi_spawn_exit_code(a->wait_status);

    *out = (lsi_attempt_result){.cause = -1, .code = mpirun_code, .n_ranks = a->n_started};
    for (int rank = 0; rank < a->n_ranks; rank++) {
        const rank_state *r = &a->ranks[rank];

        if (r->ended && r->code == ls_status_exit_code(LS_STOPPED) && mpirun_code == 0) {
            out->code = r->code; /* which its keeper has not told mpirun */
        }
        if (has_failed(r)) {
            out->n_failed++;
            if (out->cause < 0 || comes_before(a, rank, out->cause)) {
                out->cause = rank;
            }
        }
    }
    if (a->kill_at > 0) {
        out->code = 128 + a->signals->last;
    } else if (out->cause >= 0) {
        out->code = a->ranks[out->cause].code;
    }
    if (out->cause >= 0) {
        out->pid = a->ranks[out->cause].pid;
        snprintf(out->host, sizeof out->host, "%s", a->ranks[out->cause].host);
    }
}

/* ---- life -------------------------------------------------------------------------------------------------------- */

static ls_status open_pipe(attempt *a, lsi_lines *lines, int *write_end)
{
    int ends[2];

    LS_REQUIRE(pipe2(ends, O_CLOEXEC) == 0, LS_ERR_INTERNAL, "cannot make a pipe: %s", strerror(errno));
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    *lines = (lsi_lines){.fd = ends[0], .most = LINE_MOST, .take = take_line, .user = a};
    *write_end = ends[1];
    return LS_OK;
}

static ls_status start(attempt *a, char *const *argv)
{
    /* SIGTERM, so that mpirun ends ranks on other hosts as well; keepers see it go when it cannot. */
    lsi_spawn_options options = {
        .out = -1, .err = -1, .without_input = true, .signal_at_our_end = SIGTERM, .mask = &a->signals->before};

    ls_status status = open_pipe(a, &a->out, &options.out);
    if (status == LS_OK) {
        status = open_pipe(a, &a->err, &options.err);
    }
    if (status == LS_OK) {
        status = lsi_spawn(argv, &options, &a->pid);
    }
    if (options.out >= 0) {
        close(options.out);
    }
    if (options.err >= 0) {
        close(options.err);
    }
    return status;
}

/* What the pipes hold at the end; a process that still has them open is not waited for. */
static ls_status read_rest(lsi_lines *lines)
{
    struct pollfd fd = {lines->fd, POLLIN, 0};

    while (lines->fd >= 0 && poll(&fd, 1, 0) > 0) {
        LS_TRY(lsi_lines_read(lines));
    }
    return lsi_lines_close(lines);
}

/* Ranks whose mpirun was killed end a moment after it; a start again would meet them at the same files. Those on other
 * hosts cannot be seen from here. */
static void await_ranks(const attempt *a)
{
    char here[LSI_ATTEMPT_HOST] = "";
    double end = lsi_clock_seconds() + outlive_seconds;

    gethostname(here, sizeof here - 1);
    for (int rank = 0; rank < a->n_ranks; rank++) {
        const rank_state *r = &a->ranks[rank];

        while (r->started && !r->ended && r->pid > 0 && strcmp(r->host, here) == 0 && kill((pid_t)r->pid, 0) == 0 &&
               lsi_clock_seconds() < end) {
            poll(NULL, 0, TICK_MS);
        }
    }
}

static ls_status run(attempt *a, char *const *argv)
{
    LS_TRY(start(a, argv));
    LS_TRY(watch(a));
    LS_TRY(read_rest(&a->out));
    LS_TRY(read_rest(&a->err));
    await_ranks(a);
    return lsi_logs_end(a->logs);
}

ls_status lsi_attempt_run(char *const *argv, int n_ranks, lsi_signals *signals, lsi_logs *logs, lsi_attempt_result *out)
{
    attempt a = {.n_expected = n_ranks, .signals = signals, .logs = logs, .out.fd = -1, .err.fd = -1};
    lsi_lines *both[] = {&a.out, &a.err};

    ls_status status = run(&a, argv);
    if (status == LS_OK) {
        conclude(&a, out);
    } else if (a.pid > 0 && !a.over) {
        kill(a.pid, SIGKILL); /* its ranks' keepers see it go */
        waitpid(a.pid, NULL, 0);
    }
    for (int i = 0; i < 2; i++) {
        if (both[i]->fd >= 0) {
            close(both[i]->fd);
        }
        lsi_text_free(&both[i]->rest);
    }
    lsi_memory_free(a.ranks);
    return status;
}
