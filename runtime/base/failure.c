#include "base/failure.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/utf8.h"

static _Thread_local lsi_failure record;

void ls_fail_at(ls_status status, const char *file, int line, const char *format, ...)
{
    char message[LSI_FAILURE_MAX + 1];
    int saved_errno = errno;
    va_list arguments;

    /* Not straight into the record: the record's own message may be among the arguments. */
    va_start(arguments, format);
    int length = vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);

    size_t n = length < 0 ? 0 : (size_t)length;
    if (n >= LSI_FAILURE_MAX) {
        n = lsi_utf8_cut(message, LSI_FAILURE_MAX - 1);
    }
    memcpy(record.message, message, n);
    record.message[n] = '\0';
    record.status = status;
    record.file = file;
    record.line = line;
    errno = saved_errno;
}

const char *ls_failure_message(void)
{
    return record.message;
}

void lsi_failure_take(lsi_failure *out)
{
    *out = record;
}

ls_status lsi_failure_adopt(const lsi_failure *failure)
{
    record = *failure;
    return record.status;
}
