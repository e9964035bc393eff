#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/pipe_signal.h"
#include "base/utf8.h"

/* A write of at most PIPE_BUF bytes is never mixed with another process's. */
enum { LINE_MAX_BYTES = PIPE_BUF };

#define CLEAR_LINE "\r\x1b[K"

/* Written by lsi_log_open before there are threads; level and progress afterwards. */
static struct {
    char program[64];
    char where[128];            /* " [rank r/w host]" or nothing */
    int rank;
    atomic_int level;
    atomic_bool in_progress;    /* a progress line stands on the terminal, its end is not written */
} state = {.program = "lockstep", .level = LSI_LOG_INFO};

void lsi_log_open(const char *program, int rank, int world, const char *host)
{
    snprintf(state.program, sizeof state.program, "%s", program);
    state.where[0] = '\0';
    if (world > 1) {
        snprintf(state.where, sizeof state.where, " [rank %d/%d %.80s]", rank, world, host);
    }
    state.rank = rank;
}

void lsi_log_set_level(lsi_log_level level)
{
    atomic_store(&state.level, (int)level);
}

/* One write where the system allows it. Nobody reads us any more: no reason to end a training run, so SIGPIPE is held
 * back and swallowed, and a message that cannot be written is lost. */
static void write_all(int fd, const char *bytes, size_t n)
{
    lsi_pipe_signal signals;
    bool broken = false;

    lsi_pipe_signal_hold(&signals);
    while (n > 0) {
        ssize_t written = write(fd, bytes, n);
        if (written >= 0) {
            bytes += written;
            n -= (size_t)written;
        } else if (errno == EAGAIN) {
            struct pollfd wait = {fd, POLLOUT, 0};
            if (poll(&wait, 1, 1000) == 0) {
                break;
            }
        } else if (errno != EINTR) {
            broken = errno == EPIPE;
            break;
        }
    }
    lsi_pipe_signal_release(&signals, broken);
}

/* Columns of the terminal that fd ends on, 0 when it is none. */
static int terminal_columns(int fd)
{
    struct winsize size;
    char link[64], path[64];

    if (!isatty(fd)) {
        return 0;
    }
    if (ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) {
        return size.ws_col;
    }
    /* mpirun gives every rank a pseudo terminal without a size, wherever its own output goes: look at the latter. */
    snprintf(link, sizeof link, "/proc/%d/fd/%d", (int)getppid(), fd);
    ssize_t n = readlink(link, path, sizeof path - 1);
    if (n < 0) {
        return 0;
    }
    path[n] = '\0';
    if (strncmp(path, "/dev/pts/", 9) != 0 && strncmp(path, "/dev/tty", 8) != 0) {
        return 0;
    }
    int terminal = open(path, O_WRONLY | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
    if (terminal < 0) {
        return 0;
    }
    int columns = ioctl(terminal, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
    close(terminal);
    return columns;
}

/* Prefix and message into line[LINE_MAX_BYTES + 1], without an end; at most `columns` bytes of message when not 0. */
__attribute__((format(printf, 4, 0)))
static size_t compose(char *line, const char *severity, int columns, const char *format, va_list arguments)
{
    size_t start = 0, room = LINE_MAX_BYTES - 1;     /* the end of line */

    if (severity != NULL) {
        start = (size_t)snprintf(line, LINE_MAX_BYTES, "%s: %s%s: ", state.program, severity, state.where);
    }
    if (columns > 0 && (size_t)columns < room) {
        room = (size_t)columns;
    }
    /* One byte more than is shown, to see whether the cut is inside a character. */
    int length = vsnprintf(line + start, LINE_MAX_BYTES + 1 - start, format, arguments);
    size_t end = start + (length < 0 ? 0 : (size_t)length);
    if (end > room) {
        end = start + lsi_utf8_cut(line + start, room - start);
    }
    for (size_t i = start; i < end; i++) {
        if ((unsigned char)line[i] < 0x20 || line[i] == 0x7f) {
            line[i] = '?';
        }
    }
    return end;
}

__attribute__((format(printf, 4, 0)))
static void message(int fd, lsi_log_level level, const char *severity, const char *format, va_list arguments)
{
    char line[LINE_MAX_BYTES + sizeof CLEAR_LINE];
    size_t start = 0;

    if ((int)level > atomic_load(&state.level)) {
        return;
    }
    if (atomic_exchange(&state.in_progress, false)) {
        if (fd == STDOUT_FILENO) {
            start = sizeof CLEAR_LINE - 1;
            memcpy(line, CLEAR_LINE, start);
        } else {
            write_all(STDOUT_FILENO, CLEAR_LINE, sizeof CLEAR_LINE - 1);
        }
    }
    size_t end = start + compose(line + start, severity, 0, format, arguments);
    line[end++] = '\n';
    write_all(fd, line, end);
}

void lsi_log_error(const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    message(STDERR_FILENO, LSI_LOG_ERROR, "error", format, arguments);
    va_end(arguments);
}

void lsi_log_warn(const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    message(STDERR_FILENO, LSI_LOG_WARN, "warning", format, arguments);
    va_end(arguments);
}

void lsi_log_info(const char *format, ...)
{
    va_list arguments;

    if (state.rank == 0) {
        va_start(arguments, format);
        message(STDOUT_FILENO, LSI_LOG_INFO, NULL, format, arguments);
        va_end(arguments);
    }
}

void lsi_log_debug(const char *format, ...)
{
    va_list arguments;

    if (state.rank == 0) {
        va_start(arguments, format);
        message(STDOUT_FILENO, LSI_LOG_DEBUG, NULL, format, arguments);
        va_end(arguments);
    }
}

void lsi_log_progress(const char *format, ...)
{
    char line[LINE_MAX_BYTES + sizeof CLEAR_LINE];
    va_list arguments;

    if (state.rank != 0 || atomic_load(&state.level) < LSI_LOG_INFO) {
        return;
    }
    int columns = terminal_columns(STDOUT_FILENO);
    va_start(arguments, format);
    if (columns > 0) {
        size_t start = sizeof CLEAR_LINE - 1;
        memcpy(line, CLEAR_LINE, start);
        /* A line as wide as the terminal would wrap, and could not be cleared any more. */
        size_t end = start + compose(line + start, NULL, columns > 1 ? columns - 1 : 1, format, arguments);
        atomic_store(&state.in_progress, true);
        write_all(STDOUT_FILENO, line, end);
    } else {
        message(STDOUT_FILENO, LSI_LOG_INFO, NULL, format, arguments);
    }
    va_end(arguments);
}
