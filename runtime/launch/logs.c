#include "launch/logs.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "base/memory.h"

/* A line longer than this is shown in pieces; of a remembered one that much is kept. */
enum { LINE_MOST = 65536, REMEMBERED_MOST = 400 };

static const lsi_log_source fresh = {.fd = -1};

/* Nobody may be reading any more: no reason to end a training run. */
static void write_all(int fd, const char *bytes, size_t n)
{
    while (n > 0) {
        ssize_t written = write(fd, bytes, n);

        if (written < 0 && errno != EINTR) {
            return;
        }
        if (written > 0) {
            bytes += written;
            n -= (size_t)written;
        }
    }
}

/* ---- files ------------------------------------------------------------------------------------------------------- */

static void warn_once(lsi_logs *logs, const char *path, const char *what)
{
    if (!logs->failed) {
        logs->failed = true;
        lsi_log_warn("%s: cannot %s: %s; the output of some ranks is not kept", path, what, strerror(errno));
    }
}

static void keep(lsi_logs *logs, lsi_log_source *source, const lsi_text *line)
{
    if (source->fd >= 0 && write(source->fd, line->data, line->length) != (ssize_t)line->length) {
        warn_once(logs, logs->folder, "write there");
    }
}

static ls_status open_file(lsi_logs *logs, int rank, lsi_log_source *source)
{
    lsi_text path = {0};

    if (rank < 0) {
        lsi_text_append(&path, "%s/mpirun.log", logs->folder);
    } else {
        lsi_text_append(&path, "%s/rank-%d.log", logs->folder, rank);
    }
    ls_status status = lsi_text_status(&path);
    if (status == LS_OK) {
        source->fd = open(path.data, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
        if (source->fd < 0) {
            warn_once(logs, path.data, "open it");
        }
        keep(logs, source, &logs->heading);
    }
    lsi_text_free(&path);
    return status;
}

/* ---- lines ------------------------------------------------------------------------------------------------------- */

static ls_status remember(lsi_log_source *source, const char *line, size_t length)
{
    char **place = &source->last[source->n_lines % LSI_LOGS_LAST];
    void *copy;

    /* mpirun gives the reason first, then pages of advice. */
    if (source->first_only && source->n_lines == LSI_LOGS_LAST) {
        return LS_OK;
    }
    if (length > REMEMBERED_MOST) {
        length = REMEMBERED_MOST;
    }
    LS_TRY(lsi_memory_alloc(length + 1, "the last lines of a rank", &copy));
    memcpy(copy, line, length);
    lsi_memory_free(*place);
    *place = copy;
    source->n_lines++;
    return LS_OK;
}

static void forget(lsi_log_source *source)
{
    for (int i = 0; i < LSI_LOGS_LAST; i++) {
        lsi_memory_free(source->last[i]);
        source->last[i] = NULL;
    }
    for (int i = 0; i < 2; i++) {
        lsi_text_clear(&source->part[i]);
    }
    source->n_lines = 0;
    source->said_error = false;
}

static ls_status take_line(lsi_logs *logs, int rank, bool is_error, lsi_log_source *source, const lsi_text *text)
{
    lsi_text line = {0};

    if (rank >= 0 && logs->prefixes) {
        lsi_text_append(&line, "[%d] ", rank);
    }
    size_t prefix = line.length;
    lsi_text_append_bytes(&line, text->data, text->length);
    lsi_text_append_bytes(&line, "\n", 1);
    ls_status status = lsi_text_status(&line);
    if (status == LS_OK) {
        if (rank >= 0) {
            write_all(is_error ? STDERR_FILENO : STDOUT_FILENO, line.data, line.length);
        }
        lsi_text kept = {.data = line.data + prefix, .length = line.length - prefix};
        keep(logs, source, &kept);
        source->said_error = source->said_error || (is_error && strstr(line.data, ": error") != NULL);
        status = remember(source, text->data, text->length);
    }
    lsi_text_free(&line);
    return status;
}

static ls_status find_source(lsi_logs *logs, int rank, lsi_log_source **out)
{
    if (rank >= logs->n_ranks) {
        void *list = logs->ranks;

        LS_TRY(lsi_memory_resize(&list, ((size_t)rank + 1) * sizeof *logs->ranks, "the output of the ranks"));
        logs->ranks = list;
        for (; logs->n_ranks <= rank; logs->n_ranks++) {
            logs->ranks[logs->n_ranks] = fresh;
        }
    }
    *out = rank < 0 ? &logs->mpirun : &logs->ranks[rank];
    if ((*out)->fd < 0 && !logs->failed) {
        LS_TRY(open_file(logs, rank, *out));
    }
    return LS_OK;
}

ls_status lsi_logs_take(lsi_logs *logs, int rank, bool is_error, const char *text, bool complete)
{
    lsi_log_source *source;

    LS_TRY(find_source(logs, rank, &source));
    lsi_text *part = &source->part[is_error];
    lsi_text_append_bytes(part, text, strlen(text));
    LS_TRY(lsi_text_status(part));
    if (!complete && part->length < LINE_MOST) {
        return LS_OK;
    }
    LS_TRY(take_line(logs, rank, is_error, source, part));
    lsi_text_clear(part);
    return LS_OK;
}

/* ---- life -------------------------------------------------------------------------------------------------------- */

ls_status lsi_logs_open(const char *folder, lsi_logs *out)
{
    lsi_logs logs = {.mpirun = {.fd = -1, .first_only = true}};

    LS_TRY(lsi_file_make_folders(folder));
    LS_TRY(lsi_memory_strdup(folder, &logs.folder));
    *out = logs;
    return LS_OK;
}

static ls_status begin_source(lsi_logs *logs, int rank, lsi_log_source *source)
{
    forget(source);
    if (source->fd < 0) {
        return logs->failed ? LS_OK : open_file(logs, rank, source);
    }
    keep(logs, source, &logs->heading);
    return LS_OK;
}

ls_status lsi_logs_begin(lsi_logs *logs, const char *heading, bool prefixes)
{
    logs->prefixes = prefixes;
    lsi_text_clear(&logs->heading);
    lsi_text_append(&logs->heading, "---- %s ----\n", heading);
    LS_TRY(lsi_text_status(&logs->heading));
    LS_TRY(begin_source(logs, -1, &logs->mpirun));
    for (int rank = 0; rank < logs->n_ranks; rank++) {
        LS_TRY(begin_source(logs, rank, &logs->ranks[rank]));
    }
    return LS_OK;
}

static ls_status end_source(lsi_logs *logs, int rank, lsi_log_source *source)
{
    for (int i = 0; i < 2; i++) {
        if (source->part[i].length > 0) {
            LS_TRY(take_line(logs, rank, i == 1, source, &source->part[i]));
            lsi_text_clear(&source->part[i]);
        }
    }
    return LS_OK;
}

ls_status lsi_logs_end(lsi_logs *logs)
{
    LS_TRY(end_source(logs, -1, &logs->mpirun));
    for (int rank = 0; rank < logs->n_ranks; rank++) {
        LS_TRY(end_source(logs, rank, &logs->ranks[rank]));
    }
    return LS_OK;
}

static void close_source(lsi_log_source *source)
{
    forget(source);
    for (int i = 0; i < 2; i++) {
        lsi_text_free(&source->part[i]);
    }
    if (source->fd >= 0) {
        close(source->fd);
    }
}

void lsi_logs_close(lsi_logs *logs)
{
    if (logs->folder == NULL) {
        return;
    }
    close_source(&logs->mpirun);
    for (int rank = 0; rank < logs->n_ranks; rank++) {
        close_source(&logs->ranks[rank]);
    }
    lsi_memory_free(logs->ranks);
    lsi_text_free(&logs->heading);
    lsi_memory_free(logs->folder);
    *logs = (lsi_logs){0};
}

const lsi_log_source *lsi_logs_source(const lsi_logs *logs, int rank)
{
    return rank < 0 ? &logs->mpirun : rank < logs->n_ranks ? &logs->ranks[rank] : &fresh;
}

void lsi_logs_last(const lsi_log_source *source, const char *indent, lsi_text *out)
{
    int n = source->n_lines < LSI_LOGS_LAST ? source->n_lines : LSI_LOGS_LAST;

    for (int i = source->n_lines - n; i < source->n_lines; i++) {
        lsi_text_append(out, "%s%s\n", indent, source->last[i % LSI_LOGS_LAST]);
    }
}
