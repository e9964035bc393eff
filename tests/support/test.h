/* What every test includes: cmocka, and checks that print what went wrong. */
#ifndef LS_TESTS_SUPPORT_TEST_H
#define LS_TESTS_SUPPORT_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <lockstep/status.h>

/* Fails with the failure record's message. */
#define CHECK_OK(expression)                                                                        \
    do {                                                                                            \
        ls_status check_status_ = (expression);                                                     \
        if (check_status_ != LS_OK) {                                                               \
            fail_msg("%s: %s: %s", #expression, ls_status_text(check_status_), ls_failure_message()); \
        }                                                                                           \
    } while (0)

/* Expects this failure, with `part` somewhere in its message. */
#define CHECK_FAILS(expression, expected, part) \
    test_check_fails((expression), (expected), (part), #expression, __FILE__, __LINE__)
void test_check_fails(ls_status status, ls_status expected, const char *part, const char *what, const char *file,
                      int line);

/* Fails unless all counted memory has been freed. */
void test_check_no_memory_live(void);

/* Path of a new empty folder, removed by test_folder_remove; counted nowhere. */
const char *test_folder_make(void);
void test_folder_remove(void);

#endif
