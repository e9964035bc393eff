/* RUN: gpus timeout=120 */
/* How CUDA_VISIBLE_DEVICES is read: the vectors of the study, then random lists on described machines against a second
 * reading of the rules, which the simulator's driver goes by. */
#include "support/test.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cusim/src/machine.h"
#include "device/visibility.h"

static const char machines[] = DEVICE_MACHINES;

/* The inventory of a described machine, in this process. */
static lsi_inventory *open_machine(const char *name)
{
    char path[512];
    lsi_inventory *inventory;

    snprintf(path, sizeof path, "%s/%s", machines, name);
    assert_int_equal(setenv("CUSIM_MACHINE", path, 1), 0);
    assert_int_equal(setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID", 1), 0);
    unsetenv("CUDA_VISIBLE_DEVICES");
    CHECK_OK(lsi_inventory_open(&inventory));
    return inventory;
}

/* ---- vectors --------------------------------------------------------------------------------------------------------
 */

static const struct {
    const char *value, *expected; /* nvidia-smi's numbers */
    lsi_visible_verdict last;     /* of the last item that was looked at */
} vectors[] = {
    {NULL, "0 1 2 3 ", LSI_VISIBLE_YES},
    {"", "", LSI_VISIBLE_YES},
    {"2,1", "2 1 ", LSI_VISIBLE_YES},
    {"0,2,-1,1", "0 2 ", LSI_VISIBLE_NEGATIVE},
    {"0,9,1", "0 ", LSI_VISIBLE_OUT_OF_RANGE},
    {"-1", "", LSI_VISIBLE_NEGATIVE},
    {"NoDevFiles", "", LSI_VISIBLE_NO_NUMBER},
    {"a", "", LSI_VISIBLE_NO_NUMBER},
    {"0,0", "", LSI_VISIBLE_REPEATED},
    {"0,1,0", "", LSI_VISIBLE_REPEATED},
    {"1, 2", "1 2 ", LSI_VISIBLE_YES},
    {" 1,2 ", "1 2 ", LSI_VISIBLE_YES},
    {"0,,1", "0 ", LSI_VISIBLE_EMPTY},
    {"0,", "0 ", LSI_VISIBLE_EMPTY},
    {",0", "", LSI_VISIBLE_EMPTY},
    {"+1", "1 ", LSI_VISIBLE_YES},
    {"1gpu2,2ampere", "1 2 ", LSI_VISIBLE_YES},
    {"GPU-a0000002", "1 ", LSI_VISIBLE_YES},
    {"GPU-a0000002-0000-0000-0000-000000000002", "1 ", LSI_VISIBLE_YES},
    {"GPU-", "", LSI_VISIBLE_AMBIGUOUS},
    {"GPU-a000", "", LSI_VISIBLE_AMBIGUOUS},
    {"GPU-ffff", "", LSI_VISIBLE_UNKNOWN},
    {"GPU-a0000002,1", "1 ", LSI_VISIBLE_OTHER_KIND},
    {"0,GPU-a0000002", "0 ", LSI_VISIBLE_OTHER_KIND},
    {"GPU-a0000001, GPU-a0000002", "0 ", LSI_VISIBLE_BLANK},
    {" GPU-a0000001", "", LSI_VISIBLE_BLANK},
    {"GPU-a0000002,GPU-a0000002-0000", "", LSI_VISIBLE_REPEATED},
    {"GPU-a0000004,GPU-a0000001", "3 0 ", LSI_VISIBLE_YES},
    {"99999999999999999999", "", LSI_VISIBLE_OUT_OF_RANGE},
    {"-99999999999999999999", "", LSI_VISIBLE_OUT_OF_RANGE},
    {"0;1", "0 ", LSI_VISIBLE_YES},
};

static void numbers_of(const lsi_inventory *inventory, const lsi_visibility *v, char out[256])
{
    int n = 0;

    out[0] = '\0';
    for (int i = 0; i < v->n; i++) {
        n += snprintf(out + n, 256 - (size_t)n, "%d ", inventory->gpus[v->gpus[i]].nvml_index);
    }
}

static void test_vectors(void **state)
{
    lsi_inventory *inventory = open_machine("four.txt");

    (void)state;
    assert_int_equal(inventory->n, 4);
    for (size_t i = 0; i < sizeof vectors / sizeof vectors[0]; i++) {
        lsi_visibility v;
        char got[256];

        lsi_visibility_read(inventory, vectors[i].value, "PCI_BUS_ID", &v);
        numbers_of(inventory, &v, got);
        if (strcmp(got, vectors[i].expected) != 0) {
            fail_msg("'%s': expected '%s', got '%s'", vectors[i].value != NULL ? vectors[i].value : "(unset)",
                     vectors[i].expected, got);
        }
        int last = 0;
        while (last + 1 < v.n_items && v.items[last + 1].verdict != LSI_VISIBLE_BEHIND_END) {
            last++;
        }
        if (v.n_items > 0 && v.items[last].verdict != vectors[i].last) {
            fail_msg("'%s': item %d has verdict %d, expected %d", vectors[i].value, last + 1,
                     (int)v.items[last].verdict, (int)vectors[i].last);
        }
    }
    lsi_inventory_close(&inventory);
}

/* A process sees one instance, whatever the list says. */
static void test_instances(void **state)
{
    static const struct {
        const char *value, *expected;
    } lists[] = {
        {"MIG-dddddddd-0000-0000-0000-000000000007,MIG-eeeeeeee-0000-0000-0000-000000000008", "MIG-dddddddd"},
        {"MIG-eeeeeeee,MIG-dddddddd", "MIG-eeeeeeee"},
        {"MIG-GPU-cccccccc-0000-0000-0000-000000000006/2/0", "MIG-eeeeeeee"},
        {"MIG-GPU-cccccccc-0000-0000-0000-000000000006/3/0", NULL},
        {"GPU-cccccccc", NULL}, /* in MIG mode */
        {"GPU-aaaaaaac", NULL}, /* lost */
        {NULL, "MIG-dddddddd"},
        {"4", "MIG-dddddddd"}, /* the lost one has no number */
        {"0,4", "MIG-dddddddd"},
    };
    lsi_inventory *inventory = open_machine("mixed.txt");

    (void)state;
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) {
        lsi_visibility v;

        lsi_visibility_read(inventory, lists[i].value, "PCI_BUS_ID", &v);
        assert_int_equal(v.n, lists[i].expected != NULL ? 1 : 0);
        if (lists[i].expected != NULL) {
            assert_memory_equal(inventory->gpus[v.gpus[0]].uuid, lists[i].expected, strlen(lists[i].expected));
        }
    }
    lsi_inventory_close(&inventory);
}

/* ---- random lists
 * ------------------------------------------------------------------------------------------------------ */

static unsigned next(unsigned *seed)
{
    *seed = *seed * 1664525u + 1013904223u;
    return *seed >> 8;
}

static void random_item(const cusim_machine *machine, unsigned *seed, char *out, size_t room)
{
    static const char *const odd[] = {"",     " ",    "-1",           "+2", "1x",  "abc", "99999999999999999999",
                                      "GPU-", "MIG-", " 1",           "1 ", "\t2", "0x1", "-0",
                                      "1.5",  "GPU",  "gpu-a0000001", "- 1"};
    unsigned kind = next(seed) % 10;

    if (kind < 4) {
        snprintf(out, room, "%u", next(seed) % 8);
    } else if (kind < 8) {
        bool instance = machine->n_instances > 0 && next(seed) % 3 == 0;
        const char *uuid = instance ? machine->instances[next(seed) % (unsigned)machine->n_instances].uuid
                                    : machine->gpus[next(seed) % (unsigned)machine->n_gpus].uuid;
        int length = next(seed) % 3 == 0 ? (int)(4 + next(seed) % 34) : 40;

        snprintf(out, room, "%s%.*s", next(seed) % 16 == 0 ? " " : "", length, uuid);
    } else {
        snprintf(out, room, "%s", odd[next(seed) % (sizeof odd / sizeof odd[0])]);
    }
}

static void random_list(const cusim_machine *machine, unsigned *seed, char *out, size_t room)
{
    unsigned n = 1 + next(seed) % 6;
    size_t length = 0;

    for (unsigned i = 0; i < n; i++) {
        char item[64];

        random_item(machine, seed, item, sizeof item);
        length += (size_t)snprintf(out + length, room - length, "%s%s", i > 0 ? "," : "", item);
    }
}

static void check_list(const lsi_inventory *inventory, const cusim_machine *machine, const char *value)
{
    lsi_visibility mine;
    cusim_visible theirs[CUSIM_MAX_GPUS];
    int n = cusim_machine_visible(machine, value, "PCI_BUS_ID", theirs);

    lsi_visibility_read(inventory, value, "PCI_BUS_ID", &mine);
    for (int i = 0; i < n && n == mine.n; i++) {
        cusim_gpu gpu = cusim_machine_device(machine, theirs[i]);

        if (strcmp(gpu.uuid, inventory->gpus[mine.gpus[i]].uuid) != 0) {
            fail_msg("'%s': device %d is %s by one reading, %s by the other", value, i,
                     inventory->gpus[mine.gpus[i]].uuid, gpu.uuid);
        }
    }
    if (n != mine.n) {
        fail_msg("'%s': %d devices by one reading, %d by the other", value, mine.n, n);
    }
}

static void compare_on(const char *name)
{
    enum { LISTS = 20000 };
    lsi_inventory *inventory = open_machine(name);
    cusim_machine machine;
    char error[256], value[512];
    unsigned seed = 7;

    assert_int_equal(cusim_machine_load(&machine, error, sizeof error), 0);
    for (int i = 0; i < LISTS; i++) {
        random_list(&machine, &seed, value, sizeof value);
        check_list(inventory, &machine, value);
    }
    lsi_inventory_close(&inventory);
}

static void test_random_four(void **state)
{
    (void)state;
    compare_on("four.txt");
}

static void test_random_mixed(void **state)
{
    (void)state;
    compare_on("mixed.txt");
}

/* ---- explaining
 * ---------------------------------------------------------------------------------------------------------- */

static void test_explanation(void **state)
{
    static const char *const parts[] = {"item 2", "2. '9' is no GPU of this host, which has 4", "1 GPU is visible",
                                        "2 of the 3 items do nothing"};
    lsi_inventory *inventory = open_machine("four.txt");
    lsi_text text = {0};

    (void)state;
    assert_int_equal(setenv("CUDA_VISIBLE_DEVICES", "0,9,1", 1), 0);
    lsi_visibility_explain(inventory, true, &text);
    CHECK_OK(lsi_text_status(&text));
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        if (strstr(text.data, parts[i]) == NULL) {
            fail_msg("no '%s' in\n%s", parts[i], text.data);
        }
    }
    lsi_text_free(&text);
    lsi_inventory_close(&inventory);
}

/* The stand-in of the driver fixes what it shows at the first look, so each machine has a process of its own. */
static int run_apart(const struct CMUnitTest *tests, size_t n)
{
    int failed = 0;

    for (size_t i = 0; i < n; i++) {
        pid_t child = fork();
        int status = 1;

        if (child == 0) {
            _exit(_cmocka_run_group_tests(tests[i].name, &tests[i], 1, NULL, NULL) == 0 ? 0 : 1);
        }
        failed += child < 0 || waitpid(child, &status, 0) != child || status != 0;
    }
    return failed;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_vectors),      cmocka_unit_test(test_instances),   cmocka_unit_test(test_random_four),
        cmocka_unit_test(test_random_mixed), cmocka_unit_test(test_explanation),
    };

    return run_apart(tests, sizeof tests / sizeof tests[0]);
}
