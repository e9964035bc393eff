#include "support/test.h"

#include "base/memory.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void test_check_fails(ls_status status, ls_status expected, const char *part, const char *what, const char *file,
                      int line)
{
    if (status != expected) {
        print_error("%s: got '%s' (%s), expected '%s'\n", what, ls_status_text(status),
                    status == LS_OK ? "" : ls_failure_message(), ls_status_text(expected));
        _fail(file, line);
    }
    if (part != NULL && strstr(ls_failure_message(), part) == NULL) {
        print_error("%s: message '%s' lacks '%s'\n", what, ls_failure_message(), part);
        _fail(file, line);
    }
}

void test_check_no_memory_live(void)
{
    assert_int_equal(lsi_memory_live_blocks(), 0);
    assert_int_equal(lsi_memory_live_bytes(), 0);
}

static char folder[64];

const char *test_folder_make(void)
{
    snprintf(folder, sizeof folder, "/tmp/lockstep-test-XXXXXX");
    if (mkdtemp(folder) == NULL) {
        fail_msg("cannot make %s", folder);
    }
    return folder;
}

static int remove_one(const char *path, const struct stat *status, int type, struct FTW *where)
{
    (void)status, (void)type, (void)where;
    return remove(path);
}

void test_folder_remove(void)
{
    if (folder[0] != '\0') {
        nftw(folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
        folder[0] = '\0';
    }
}
