#include "metrics/jsonl.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/pipe_signal.h"

struct lsi_jsonl {
    int fd;
    char *path;
    lsi_text line;
};

/* Without O_NONBLOCK opening a pipe that nobody reads would wait for a reader, for ever. */
static ls_status open_file(const char *path, int *fd)
{
    struct stat info;
    int opened = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK, 0666);

    LS_REQUIRE(opened >= 0, LS_ERR_OUTPUT, "%s: cannot open for writing: %s", path,
               errno == ENXIO ? "nobody reads this pipe" : strerror(errno));
    *fd = opened;
    LS_REQUIRE(fcntl(opened, F_SETFL, O_APPEND) == 0 && fstat(opened, &info) == 0, LS_ERR_OUTPUT,
               "%s: cannot open for writing: %s", path, strerror(errno));
    return S_ISREG(info.st_mode) ? lsi_jsonl_lock(path, opened) : LS_OK;
}

ls_status lsi_jsonl_lock(const char *path, int fd)
{
    /* Where the file system knows no locks, there is none. */
    LS_REQUIRE(flock(fd, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK, LS_ERR_OUTPUT,
               "%s: another run is writing to it; wait for its end, or set another log.dir", path);
    return LS_OK;
}

ls_status lsi_jsonl_open(const char *path, lsi_jsonl **out)
{
    void *memory;

    LS_TRY(lsi_memory_alloc(sizeof(lsi_jsonl), "metrics file", &memory));
    lsi_jsonl *jsonl = memory;
    jsonl->fd = -1;
    ls_status status = lsi_memory_strdup(path, &jsonl->path);
    if (status == LS_OK) {
        status = open_file(path, &jsonl->fd);
    }
    if (status != LS_OK) {
        lsi_jsonl_close(&jsonl);
        return status;
    }
    *out = jsonl;
    return LS_OK;
}

void lsi_jsonl_close(lsi_jsonl **jsonl)
{
    if (*jsonl == NULL) {
        return;
    }
    if ((*jsonl)->fd >= 0) {
        close((*jsonl)->fd);
    }
    lsi_text_free(&(*jsonl)->line);
    lsi_memory_free((*jsonl)->path);
    lsi_memory_free(*jsonl);
    *jsonl = NULL;
}

int64_t lsi_jsonl_length(const lsi_jsonl *jsonl)
{
    struct stat info;

    return jsonl != NULL && fstat(jsonl->fd, &info) == 0 && S_ISREG(info.st_mode) ? (int64_t)info.st_size : -1;
}

int lsi_jsonl_fd(const lsi_jsonl *jsonl)
{
    return jsonl != NULL ? jsonl->fd : -1;
}

/* Length of the UTF-8 character `text` begins with, 0 when its bytes are none (RFC 3629: no overlong forms, no
 * surrogates, nothing above U+10FFFF). Never looks behind the NUL. */
static int utf8_length(const unsigned char *text)
{
    unsigned char first = text[0], low = 0x80, high = 0xBF;
    int length;

    if (first < 0x80) {
        return 1;
    }
    if (first >= 0xC2 && first <= 0xDF) {
        length = 2;
    } else if (first >= 0xE0 && first <= 0xEF) {
        length = 3;
        low = first == 0xE0 ? 0xA0 : 0x80;
        high = first == 0xED ? 0x9F : 0xBF;
    } else if (first >= 0xF0 && first <= 0xF4) {
        length = 4;
        low = first == 0xF0 ? 0x90 : 0x80;
        high = first == 0xF4 ? 0x8F : 0xBF;
    } else {
        return 0;
    }
    for (int i = 1; i < length; i++) {
        if (text[i] < low || text[i] > high) {
            return 0;
        }
        low = 0x80;
        high = 0xBF;
    }
    return length;
}

static void append_string(lsi_text *line, const char *value)
{
    const unsigned char *at = (const unsigned char *)value;

    lsi_text_append_bytes(line, "\"", 1);
    while (*at != '\0') {
        int length = utf8_length(at);

        if (length == 0) {
            lsi_text_append(line, "\\ufffd");
            length = 1;
        } else if (*at == '"' || *at == '\\') {
            lsi_text_append(line, "\\%c", *at);
        } else if (*at < ' ') {
            lsi_text_append(line, "\\u%04x", *at);
        } else {
            lsi_text_append_bytes(line, (const char *)at, (size_t)length);
        }
        at += length;
    }
    lsi_text_append_bytes(line, "\"", 1);
}

static void append_name(lsi_text *line, const char *name)
{
    lsi_text_append_bytes(line, ",", 1);
    append_string(line, name);
    lsi_text_append_bytes(line, ":", 1);
}

static void append_number(lsi_text *line, double value, int digits)
{
    char buffer[48];
    size_t length = 0;

    if (!isfinite(value)) {
        lsi_text_append(line, "%s", isnan(value) ? "\"nan\"" : value > 0 ? "\"inf\"" : "\"-inf\"");
        return;
    }
    snprintf(buffer, sizeof buffer, "%.*g", digits, value);
    /* The locale's decimal mark, which may have several bytes, becomes one point. */
    for (const char *at = buffer; *at != '\0'; at++) {
        bool is_mark = strchr("0123456789+-e", *at) == NULL;

        if (!is_mark) {
            buffer[length++] = *at;
        } else if (length > 0 && buffer[length - 1] != '.') {
            buffer[length++] = '.';
        }
    }
    lsi_text_append_bytes(line, buffer, length);
}

void lsi_jsonl_begin(lsi_jsonl *jsonl, const char *event)
{
    lsi_text_clear(&jsonl->line);
    lsi_text_append(&jsonl->line, "{\"event\":");
    append_string(&jsonl->line, event);
}

void lsi_jsonl_int(lsi_jsonl *jsonl, const char *name, int64_t value)
{
    append_name(&jsonl->line, name);
    lsi_text_append(&jsonl->line, "%" PRId64, value);
}

void lsi_jsonl_float(lsi_jsonl *jsonl, const char *name, float value)
{
    append_name(&jsonl->line, name);
    append_number(&jsonl->line, (double)value, 9);
}

void lsi_jsonl_double(lsi_jsonl *jsonl, const char *name, double value)
{
    append_name(&jsonl->line, name);
    append_number(&jsonl->line, value, 17);
}

void lsi_jsonl_bool(lsi_jsonl *jsonl, const char *name, bool value)
{
    append_name(&jsonl->line, name);
    lsi_text_append(&jsonl->line, "%s", value ? "true" : "false");
}

void lsi_jsonl_string(lsi_jsonl *jsonl, const char *name, const char *value)
{
    append_name(&jsonl->line, name);
    append_string(&jsonl->line, value);
}

void lsi_jsonl_strings(lsi_jsonl *jsonl, const char *name, const char *const *values, int n)
{
    append_name(&jsonl->line, name);
    lsi_text_append_bytes(&jsonl->line, "[", 1);
    for (int i = 0; i < n; i++) {
        lsi_text_append(&jsonl->line, "%s", i > 0 ? "," : "");
        append_string(&jsonl->line, values[i]);
    }
    lsi_text_append_bytes(&jsonl->line, "]", 1);
}

void lsi_jsonl_ints(lsi_jsonl *jsonl, const char *name, const int64_t *values, int n)
{
    append_name(&jsonl->line, name);
    lsi_text_append_bytes(&jsonl->line, "[", 1);
    for (int i = 0; i < n; i++) {
        lsi_text_append(&jsonl->line, "%s%" PRId64, i > 0 ? "," : "", values[i]);
    }
    lsi_text_append_bytes(&jsonl->line, "]", 1);
}

void lsi_jsonl_doubles(lsi_jsonl *jsonl, const char *name, const double *values, int n)
{
    append_name(&jsonl->line, name);
    lsi_text_append_bytes(&jsonl->line, "[", 1);
    for (int i = 0; i < n; i++) {
        lsi_text_append(&jsonl->line, "%s", i > 0 ? "," : "");
        append_number(&jsonl->line, values[i], 17);
    }
    lsi_text_append_bytes(&jsonl->line, "]", 1);
}

void lsi_jsonl_named_ints(lsi_jsonl *jsonl, const char *name, const char *const *keys, const int64_t *values, int n)
{
    append_name(&jsonl->line, name);
    lsi_text_append_bytes(&jsonl->line, "{", 1);
    for (int i = 0; i < n; i++) {
        lsi_text_append(&jsonl->line, "%s", i > 0 ? "," : "");
        append_string(&jsonl->line, keys[i]);
        lsi_text_append(&jsonl->line, ":%" PRId64, values[i]);
    }
    lsi_text_append_bytes(&jsonl->line, "}", 1);
}

/* One write unless it comes up short; the next one then finishes the line or says why it cannot. Returns the error. */
static int write_line(int fd, const lsi_text *line)
{
    const char *at = line->data;
    size_t left = line->length;

    while (left > 0) {
        ssize_t written = write(fd, at, left);

        if (written < 0 && errno == EINTR) {
            continue;
        }
        if (written <= 0) {
            return written < 0 ? errno : EIO;
        }
        at += written;
        left -= (size_t)written;
    }
    return 0;
}

ls_status lsi_jsonl_end(lsi_jsonl *jsonl)
{
    lsi_text_append_bytes(&jsonl->line, "}\n", 2);
    LS_TRY(lsi_text_status(&jsonl->line));

    lsi_pipe_signal signals;
    lsi_pipe_signal_hold(&signals);
    int error = write_line(jsonl->fd, &jsonl->line);
    lsi_pipe_signal_release(&signals, error == EPIPE);
    LS_REQUIRE(error == 0, LS_ERR_OUTPUT, "%s: cannot write: %s", jsonl->path, strerror(error));
    return LS_OK;
}
