/* RUN: timeout=30 */
/* The described machine: the file and its errors, and what CUDA enumerates of it under the two variables. */
#include "support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "machine.h"

static char error[256];

static cusim_machine parsed(const char *text)
{
    cusim_machine m;

    if (cusim_machine_parse(text, "text", &m, error, sizeof error) != 0) {
        fail_msg("%s", error);
    }
    return m;
}

static cusim_machine loaded(const char *file)
{
    cusim_machine m;
    char path[512];

    snprintf(path, sizeof path, "%s/%s", CUSIM_MACHINES, file);
    assert_int_equal(setenv("CUSIM_MACHINE", path, 1), 0);
    if (cusim_machine_load(&m, error, sizeof error) != 0) {
        fail_msg("%s", error);
    }
    assert_int_equal(unsetenv("CUSIM_MACHINE"), 0);
    return m;
}

/* "2,0" for the GPUs, "5/1" where a device is the instance 1 of the list. */
static const char *visible(const cusim_machine *m, const char *devices, const char *order)
{
    static char text[256];
    cusim_visible out[CUSIM_MAX_GPUS];
    int n = cusim_machine_visible(m, devices, order, out);
    size_t length = 0;

    text[0] = '\0';
    for (int i = 0; i < n; i++) {
        length += (size_t)snprintf(text + length, sizeof text - length, i == 0 ? "%d" : ",%d", out[i].gpu);
        if (out[i].instance >= 0) {
            length += (size_t)snprintf(text + length, sizeof text - length, "/%d", out[i].instance);
        }
    }
    return text;
}

static const char four[] = "gpu uuid=GPU-aaaa1111-0000-0000-0000-000000000000 bus=0000:01:00.0\n"
                           "gpu uuid=GPU-bbbb1111-0000-0000-0000-000000000000 bus=0000:02:00.0\n"
                           "gpu uuid=GPU-aaaa2222-0000-0000-0000-000000000000 bus=0000:03:00.0\n"
                           "gpu uuid=GPU-cccc1111-0000-0000-0000-000000000000 bus=0000:04:00.0\n";

static void test_visible_devices(void **state)
{
    static const struct {
        const char *value, *want;
    } cases[] = {
        {NULL, "0,1,2,3"},
        {"", ""},
        {"2,1", "2,1"},
        {"0,2,-1,1", "0,2"},
        {"0,9,1", "0"},
        {"-1", ""},
        {"NoDevFiles", ""},
        {"a", ""},
        {"0,0", ""},
        {"3,1,3", ""},
        {"1, 2", "1,2"},
        {" 1,2 ", "1,2"},
        {"0,,1", "0"},
        {"0,", "0"},
        {",0", ""},
        {"+1", "1"},
        {"1gpu2,2ampere", "1,2"},
        {"99999999999999999999", ""},
        {"4", ""},
        {"GPU-bbbb", "1"},
        {"GPU-bbbb1111-0000-0000-0000-000000000000", "1"},
        {"GPU-bbbb1111-0000-0000-0000-0000000000000", ""},
        {"GPU-", ""},
        {"GPU-aaaa", ""},
        {"GPU-aaaa2,GPU-b", "2,1"},
        {"GPU-b,1", "1"},
        {"0,GPU-bbbb", "0"},
        {"GPU-aaaa1, GPU-bbbb", "0"},
        {"GPU-b,GPU-bbbb", ""},
        {"GPU-b,GPU-x,GPU-c", "1"},
        {"MIG-bbbb", ""},
    };
    cusim_machine m = parsed(four);

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *got = visible(&m, cases[i].value, NULL);

        if (strcmp(got, cases[i].want) != 0) {
            fail_msg("CUDA_VISIBLE_DEVICES=%s: '%s', expected '%s'",
                     cases[i].value != NULL ? cases[i].value : "(not set)", got, cases[i].want);
        }
    }
}

static void test_order_of_devices(void **state)
{
    cusim_machine m = parsed("gpu sms=14 cc=7.5 clock=1600 bus=0000:09:00.0\n"
                             "gpu sms=108 cc=8.0 clock=1410 bus=0000:05:00.0\n"
                             "gpu sms=108 cc=8.0 clock=1410 lost=1 bus=0000:04:00.0\n"
                             "gpu sms=132 cc=9.0 clock=1980 bus=0000:07:00.0\n");

    (void)state;
    assert_string_equal(visible(&m, NULL, NULL), "3,1,0");
    assert_string_equal(visible(&m, NULL, "FASTEST_FIRST"), "3,1,0");
    assert_string_equal(visible(&m, NULL, "PCI_BUS_ID"), "1,3,0");
    assert_string_equal(visible(&m, "1,0", NULL), "1,3");
    assert_string_equal(visible(&m, "1,0", "PCI_BUS_ID"), "3,1");
    assert_string_equal(visible(&m, "GPU-a0000002", NULL), ""); /* lost */
}

static void test_instances(void **state)
{
    cusim_machine m = loaded("mixed.txt");
    cusim_visible out[CUSIM_MAX_GPUS];

    (void)state;
    /* One instance and nothing else, once any is enumerated. */
    assert_string_equal(visible(&m, NULL, "PCI_BUS_ID"), "5/0");
    assert_string_equal(visible(&m, "0,1", "PCI_BUS_ID"), "0,1");
    assert_string_equal(visible(&m, "0,4", "PCI_BUS_ID"), "5/0");
    assert_string_equal(visible(&m, "MIG-eeeeeeee-0000-0000-0000-000000000008", NULL), "5/1");
    assert_string_equal(visible(&m, "MIG-eeee,MIG-dddd", NULL), "5/1");
    assert_string_equal(visible(&m, "MIG-GPU-cccccccc-0000-0000-0000-000000000006/1/0", NULL), "5/0");
    assert_string_equal(visible(&m, "MIG-GPU-cccccccc-0000-0000-0000-000000000006/7/0", NULL), "");
    assert_string_equal(visible(&m, "GPU-cccccccc", NULL), "");
    assert_int_equal(cusim_machine_visible(&m, "MIG-eeee", NULL, out), 1);
    cusim_gpu device = cusim_machine_device(&m, out[0]);
    assert_string_equal(device.uuid, "MIG-eeeeeeee-0000-0000-0000-000000000008");
    assert_string_equal(device.name, "NVIDIA H100 80GB HBM3 MIG");
    assert_int_equal(device.sms, 16);
    assert_true(device.memory == (size_t)10048 << 20);
}

static void test_file(void **state)
{
    cusim_machine m = loaded("mixed.txt");
    char bus[20];

    (void)state;
    assert_int_equal(m.n_gpus, 6);
    assert_int_equal(m.n_processes, 3);
    assert_string_equal(m.gpus[1].name, "NVIDIA A100-SXM4-80GB");
    assert_int_equal(m.gpus[1].cc_major * 10 + m.gpus[1].cc_minor, 80);
    assert_true(m.gpus[1].memory_used == (size_t)79100 << 20);
    assert_int_equal(m.gpus[2].numa_node, -1);
    assert_true(m.gpus[4].lost && m.gpus[5].mig);
    assert_int_equal(m.gpus[5].compute_mode, CUSIM_MODE_EXCLUSIVE);
    assert_int_equal(m.links[3][1], CUSIM_LINK_NVLINK);
    assert_int_equal(m.links[0][1], CUSIM_LINK_SYS);
    cusim_machine_bus_text(&m.gpus[3], bus, sizeof bus);
    assert_string_equal(bus, "0000:48:00.0");

    m = parsed("driver none\r\ncuda 11020   # old\n\n  gpu mem=300k used=1k\n");
    assert_false(m.has_driver);
    assert_int_equal(m.cuda_version, 11020);
    assert_true(m.gpus[0].memory == 300 << 10);
    m = parsed("");
    assert_int_equal(m.n_gpus, 0);
}

static void test_default(void **state)
{
    cusim_machine m;

    (void)state;
    assert_int_equal(unsetenv("CUSIM_MACHINE"), 0);
    assert_int_equal(unsetenv("CUSIM_DEVICES"), 0);
    assert_int_equal(cusim_machine_load(&m, error, sizeof error), 0);
    assert_int_equal(m.n_gpus, 4);
    assert_string_equal(visible(&m, NULL, NULL), "0,1,2,3");
    assert_string_equal(visible(&m, "GPU-a0000002", NULL), "2");
    assert_int_equal(setenv("CUSIM_DEVICES", "2", 1), 0);
    assert_int_equal(cusim_machine_load(&m, error, sizeof error), 0);
    assert_int_equal(m.n_gpus, 2);
    assert_int_equal(setenv("CUSIM_DEVICES", "many", 1), 0);
    assert_int_equal(cusim_machine_load(&m, error, sizeof error), -1);
    assert_string_equal(error, "CUSIM_DEVICES: it is 'many', not a whole number from 0 to 16");
    assert_int_equal(unsetenv("CUSIM_DEVICES"), 0);
    assert_int_equal(setenv("CUSIM_MACHINE", "/nowhere/machine.txt", 1), 0);
    assert_int_equal(cusim_machine_load(&m, error, sizeof error), -1);
    assert_string_equal(error, "/nowhere/machine.txt: No such file or directory");
    assert_int_equal(unsetenv("CUSIM_MACHINE"), 0);
}

static void test_errors_name_the_line(void **state)
{
    static const struct {
        const char *text, *want;
    } cases[] = {
        {"driver 1\n\ngpus\n", "text:3: no item is called 'gpus'"},
        {"gpu cc=8\n", "text:1: cc is '8', not a compute capability such as 8.0"},
        {"gpu cc=8.0.1\n", "text:1: cc is '8.0.1', not a compute capability such as 8.0"},
        {"gpu\ngpu mem=lots\n", "text:2: mem is 'lots', not a size in MiB (or with k, M, G)"},
        {"gpu mem=1T\n", "text:1: mem is '1T', not a size in MiB (or with k, M, G)"},
        {"gpu mem=10 used=11\n", "text:1: used is more than mem"},
        {"gpu util=101\n", "text:1: util is '101', not a whole number from 0 to 100"},
        {"gpu speed=3\n", "text:1: gpu has no key 'speed'"},
        {"gpu fast\n", "text:1: 'fast' is no key=value"},
        {"gpu name=\"\"\n", "text:1: name must have 1 to 95 characters"},
        {"gpu uuid=7\n", "text:1: uuid is '7', it must begin with GPU-"},
        {"gpu uuid=GPU-1\ngpu uuid=GPU-1\n", "text:2: GPU 0 has the uuid GPU-1, too"},
        {"gpu bus=0000:07:00.0\ngpu bus=00000000:07:00.0\n", "text:2: GPU 0 has the same PCI address"},
        {"gpu bus=7\n", "text:1: bus is '7', not a PCI address such as 0000:07:00.0"},
        {"gpu mig=1\n", "text:1: mig is '1', not on or off"},
        {"gpu mode=shared\n", "text:1: mode is 'shared', not default, prohibited or exclusive"},
        {"gpu\nproc gpu=1 pid=3\n", "text:2: GPU 1 is not described above"},
        {"gpu\ninstance gpu=0\n", "text:2: GPU 0 is not in MIG mode (mig=on)"},
        {"gpu\ngpu\nlink 0 2 pix\n", "text:3: GPU is '2', not a whole number from 0 to 1"},
        {"gpu\nlink 0 0 rope\n", "text:2: no kind of link is called 'rope'"},
        {"gpu\nlink 0 0\n", "text:2: link takes two GPUs and a kind"},
        {"cuda thirteen\n", "text:1: cuda is 'thirteen', not a whole number from 1000 to 99990"},
        {"driver\n", "text:1: driver takes a version, or none"},
    };
    cusim_machine m;

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(cusim_machine_parse(cases[i].text, "text", &m, error, sizeof error), -1);
        assert_string_equal(error, cases[i].want);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_visible_devices), cmocka_unit_test(test_order_of_devices),
        cmocka_unit_test(test_instances),       cmocka_unit_test(test_file),
        cmocka_unit_test(test_default),         cmocka_unit_test(test_errors_name_the_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
