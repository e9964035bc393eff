/* Status codes, and the four macros that may return from the calling function.
 *
 * The code that knows the cause calls LS_FAIL once, with the key, path, size or layer in the message; everyone above
 * passes the status up with LS_TRY. The message lives in a record of the thread until it is printed. */
#ifndef LS_STATUS_H
#define LS_STATUS_H

#ifdef __cplusplus
extern "C" {
#endif

typedef enum ls_status {
#define LS_STATUS(name, exit_code, text) LS_##name,
#include <lockstep/status.def>
#undef LS_STATUS
    LS_STATUS_COUNT
} ls_status;

#define LS_MUST_USE __attribute__((warn_unused_result))

/* A short text for the code, never NULL. */
const char *ls_status_text(ls_status status);
/* The exit code a process ends with because of this status. */
int ls_status_exit_code(ls_status status);

/* Records why on this thread. */
void ls_fail_at(ls_status status, const char *file, int line, const char *format, ...)
    __attribute__((cold, format(printf, 4, 5)));

/* The message of this thread's last failure; valid until its next one. Empty when there was none. */
const char *ls_failure_message(void);

/* Records why, with a message that stands alone, and has the value `status` (evaluated twice: a constant or a
 * variable). */
#define LS_FAIL(status, ...) (ls_fail_at((status), __FILE__, __LINE__, __VA_ARGS__), (status))

#define LS_TRY(expression)                              \
    do {                                                \
        ls_status ls_try_status_ = (expression);        \
        if (ls_try_status_ != LS_OK) {                  \
            return ls_try_status_;                      \
        }                                               \
    } while (0)

#define LS_TRY_GOTO(status, label, expression)          \
    do {                                                \
        (status) = (expression);                        \
        if ((status) != LS_OK) {                        \
            goto label;                                 \
        }                                               \
    } while (0)

#define LS_REQUIRE(condition, status, ...)              \
    do {                                                \
        if (!(condition)) {                             \
            return LS_FAIL((status), __VA_ARGS__);      \
        }                                               \
    } while (0)

#ifdef __cplusplus
}
#endif
#endif
