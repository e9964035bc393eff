/* RUN: */
#include "support/test.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "base/memory.h"

static char folder[64];

/* A path in the test's folder; the last one stays valid until the next call. */
static const char *in_folder(const char *name)
{
    static char path[256];

    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static void write_plainly(const char *name, const void *data, size_t size)
{
    FILE *file = fopen(in_folder(name), "wb");

    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
}

static void what_is_written_is_read(void **state)
{
    (void)state;
    static const size_t sizes[] = {0, 1, 4095, 4096, 4097, 1000003};
    char *data = malloc(1000003), *back;
    size_t size;

    for (size_t i = 0; i < 1000003; i++) {
        data[i] = (char)(i * 7 + i / 251);
    }
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        CHECK_OK(lsi_file_replace(in_folder("file"), data, sizes[i]));
        CHECK_OK(lsi_file_read(in_folder("file"), sizes[i], LS_ERR_DATA, &back, &size));
        assert_int_equal(size, sizes[i]);
        assert_memory_equal(back, data, size);
        assert_int_equal(back[size], '\0');
        lsi_memory_free(back);
        if (sizes[i] > 0) {
            CHECK_FAILS(lsi_file_read(in_folder("file"), sizes[i] - 1, LS_ERR_DATA, &back, &size), LS_ERR_DATA,
                        "file: is larger than");
        }
        lsi_mapping map;
        CHECK_OK(lsi_file_map(in_folder("file"), LS_ERR_DATA, &map));
        assert_int_equal(map.size, sizes[i]);
        assert_true((map.data == NULL) == (sizes[i] == 0));
        assert_true(sizes[i] == 0 || memcmp(map.data, data, sizes[i]) == 0);
        lsi_file_unmap(&map);
        assert_null(map.data);
    }
    free(data);
    test_check_no_memory_live();
}

static void files_without_a_known_size_are_read(void **state)
{
    (void)state;
    char *back;
    size_t size;
    int ends[2];

    CHECK_OK(lsi_file_read("/proc/self/status", 1 << 20, LS_ERR_DATA, &back, &size));
    assert_non_null(strstr(back, "VmRSS"));
    lsi_memory_free(back);

    assert_int_equal(pipe(ends), 0);
    assert_int_equal(write(ends[1], "through a pipe", 14), 14);
    close(ends[1]);
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", ends[0]);
    CHECK_OK(lsi_file_read(path, 14, LS_ERR_DATA, &back, &size));
    assert_string_equal(back, "through a pipe");
    lsi_memory_free(back);
    CHECK_FAILS(lsi_file_read("/dev/zero", 100000, LS_ERR_DATA, &back, &size), LS_ERR_DATA, "is larger than");
    close(ends[0]);
    test_check_no_memory_live();
}

static void failures_name_path_and_reason(void **state)
{
    (void)state;
    lsi_mapping map;
    char *back;
    size_t size;

    CHECK_FAILS(lsi_file_read(in_folder("absent"), 10, LS_ERR_CONFIG, &back, &size), LS_ERR_CONFIG,
                "absent: cannot open: No such file");
    CHECK_FAILS(lsi_file_read(folder, 10, LS_ERR_DATA, &back, &size), LS_ERR_DATA, "is a directory");
    CHECK_FAILS(lsi_file_map(folder, LS_ERR_DATA, &map), LS_ERR_DATA, "is a directory");
    CHECK_FAILS(lsi_file_map("/dev/null", LS_ERR_DATA, &map), LS_ERR_DATA, "is not a regular file");
    CHECK_FAILS(lsi_file_replace(in_folder("absent/file"), "x", 1), LS_ERR_OUTPUT, "absent/file.tmp");
    CHECK_FAILS(lsi_file_replace("/dev/full/x", "x", 1), LS_ERR_OUTPUT, "cannot create");
    test_check_no_memory_live();
}

static void a_failed_replacement_leaves_nothing(void **state)
{
    (void)state;
    char command[256];

    assert_int_equal(mkdir(in_folder("target"), 0777), 0);
    CHECK_FAILS(lsi_file_replace(in_folder("target"), "x", 1), LS_ERR_OUTPUT, "target: cannot replace");
    snprintf(command, sizeof command, "ls %s | grep -q tmp", folder);
    assert_int_not_equal(system(command), 0);

    write_plainly("kept", "old", 3);
    for (long k = 1; k <= 2; k++) {
        lsi_memory_fail_at(k);
        ls_status status = lsi_file_replace(in_folder("kept"), "newer", 5);
        assert_int_equal(status, LS_ERR_MEMORY);
        char *back;
        size_t size;
        CHECK_OK(lsi_file_read(in_folder("kept"), 10, LS_ERR_DATA, &back, &size));
        assert_true(strcmp(back, "old") == 0 || strcmp(back, "newer") == 0);
        lsi_memory_free(back);
    }
    lsi_memory_fail_at(0);
    test_check_no_memory_live();
}

/* Root could: a rename puts a file where the device was. */
static void only_files_are_replaced(void **state)
{
    (void)state;
    char link[256];
    struct stat info;

    assert_int_equal(mkfifo(in_folder("pipe"), 0666), 0);
    CHECK_FAILS(lsi_file_replace(in_folder("pipe"), "x", 1), LS_ERR_OUTPUT, "pipe: cannot replace: not a regular file");
    assert_int_equal(stat(in_folder("pipe"), &info), 0);
    assert_true(S_ISFIFO(info.st_mode));

    write_plainly("real", "old", 3);
    snprintf(link, sizeof link, "%s", in_folder("link"));
    assert_int_equal(symlink(in_folder("real"), link), 0);
    CHECK_OK(lsi_file_replace(link, "newer", 5));
    assert_int_equal(lstat(link, &info), 0);
    assert_true(S_ISLNK(info.st_mode));
    assert_int_equal(stat(in_folder("real"), &info), 0);
    assert_int_equal(info.st_size, 5);
    test_check_no_memory_live();
}

static void folders_are_made_with_their_parents(void **state)
{
    (void)state;
    CHECK_OK(lsi_file_make_folders(in_folder("a/b//c/")));
    assert_int_equal(access(in_folder("a/b/c"), F_OK), 0);
    CHECK_OK(lsi_file_make_folders(in_folder("a/b/c")));
    CHECK_OK(lsi_file_make_folders("/"));
    CHECK_OK(lsi_file_make_folders("."));
    write_plainly("plain", "", 0);
    CHECK_FAILS(lsi_file_make_folders(in_folder("plain")), LS_ERR_OUTPUT, "plain: is not a folder");
    CHECK_FAILS(lsi_file_make_folders(in_folder("plain/sub")), LS_ERR_OUTPUT, "plain: is not a folder");
    CHECK_FAILS(lsi_file_make_folders("/proc/self/none"), LS_ERR_OUTPUT, "/proc/self/none: cannot create");
    test_check_no_memory_live();
}

static void check_path(char *got, const char *expected)
{
    assert_string_equal(got, expected);
    lsi_memory_free(got);
}

static void paths_are_taken_apart_and_joined(void **state)
{
    (void)state;
    static const struct {
        const char *path, *folder, *stem;
    } cases[] = {
        {"a/b/c.ini", "a/b", "c"}, {"/c.ini", "/", "c"}, {"c", ".", "c"}, {".hidden", ".", ".hidden"},
        {"/a/b.tar.gz", "/a", "b.tar"}, {"a.d/b", "a.d", "b"},
    };
    static const struct {
        const char *folder, *name, *joined;
    } joins[] = {
        {"a", "b", "a/b"}, {"a/", "b", "a/b"}, {"a", "/b", "/b"}, {"", "b", "b"}, {"/", "b", "/b"}, {".", "b", "./b"},
    };
    char *out, current[4096], expected[4200];

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        CHECK_OK(lsi_file_folder(cases[i].path, &out));
        check_path(out, cases[i].folder);
        CHECK_OK(lsi_file_stem(cases[i].path, &out));
        check_path(out, cases[i].stem);
    }
    for (size_t i = 0; i < sizeof joins / sizeof joins[0]; i++) {
        CHECK_OK(lsi_file_join(joins[i].folder, joins[i].name, &out));
        check_path(out, joins[i].joined);
    }
    CHECK_OK(lsi_file_absolute("/x/y", &out));
    check_path(out, "/x/y");
    assert_non_null(getcwd(current, sizeof current));
    snprintf(expected, sizeof expected, "%s/x/y", current);
    CHECK_OK(lsi_file_absolute("x/y", &out));
    check_path(out, expected);
    test_check_no_memory_live();
}

static int set_up(void **state)
{
    (void)state;
    snprintf(folder, sizeof folder, "%s", test_folder_make());
    return 0;
}

/* In a process of its own, which ends with the number of what went wrong. */
static int started_without(const int *closed, int n)
{
    pid_t child = fork();
    int status;

    if (child == 0) {
        for (int i = 0; i < n; i++) {
            close(closed[i]);
        }
        lsi_file_hold_standard();
        int next = open(in_folder("next"), O_WRONLY | O_CREAT, 0666);
        if (next <= STDERR_FILENO) {
            _exit(1);
        }
        for (int i = 0; i < n; i++) {
            char byte = 'x';

            if (write(closed[i], &byte, 1) >= 0 || read(closed[i], &byte, 1) >= 0) {
                _exit(2);
            }
        }
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void no_file_becomes_a_standard_stream(void **state)
{
    (void)state;
    for (int set = 0; set < 8; set++) {
        int closed[3], n = 0;

        for (int fd = 0; fd < 3; fd++) {
            if (set & 1 << fd) {
                closed[n++] = fd;
            }
        }
        assert_int_equal(started_without(closed, n), 0);
    }
}

static int tear_down(void **state)
{
    (void)state;
    test_folder_remove();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_is_read),
        cmocka_unit_test(files_without_a_known_size_are_read),
        cmocka_unit_test(failures_name_path_and_reason),
        cmocka_unit_test(a_failed_replacement_leaves_nothing),
        cmocka_unit_test(only_files_are_replaced),
        cmocka_unit_test(folders_are_made_with_their_parents),
        cmocka_unit_test(paths_are_taken_apart_and_joined),
        cmocka_unit_test(no_file_becomes_a_standard_stream),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
