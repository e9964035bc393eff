/* RUN: np=1,2,3 timeout=60 */
/* Binding to the cores near a GPU, on a described host: the lower half of this process's cores near GPU 0, the upper
 * half near GPU 1. */
#include "support/test.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "device/near_cores.h"

static lsi_job *job;
static cpu_set_t before;
static char path[128];

static int core_at(int index)
{
    for (int core = 0; core < CPU_SETSIZE; core++) {
        if (CPU_ISSET(core, &before) && index-- == 0) {
            return core;
        }
    }
    return -1;
}

/* Half 0 or 1 of the cores. */
static cpu_set_t half(int which)
{
    int n = CPU_COUNT(&before), middle = n / 2;
    cpu_set_t out;

    CPU_ZERO(&out);
    for (int i = which == 0 ? 0 : middle; i < (which == 0 ? middle : n); i++) {
        CPU_SET(core_at(i), &out);
    }
    return out;
}

/* hwloc's text: words of 32 bits, the highest first. */
static void bitmap(const cpu_set_t *set, char *out, size_t room)
{
    int words = 1;
    size_t n = 0;

    for (int core = 0; core < CPU_SETSIZE; core++) {
        words = CPU_ISSET(core, set) ? core / 32 + 1 : words;
    }
    for (int w = words - 1; w >= 0; w--) {
        unsigned word = 0;

        for (int bit = 0; bit < 32; bit++) {
            word |= (unsigned)(CPU_ISSET(w * 32 + bit, set) != 0) << bit;
        }
        n += (size_t)snprintf(out + n, room - n, "%s0x%08x", n > 0 ? "," : "", word);
    }
}

static void write_node(FILE *file, int which)
{
    cpu_set_t cores = half(which);
    char set[512];

    bitmap(&cores, set, sizeof set);
    fprintf(file,
            "<object type=\"Package\" os_index=\"%d\" cpuset=\"%s\" complete_cpuset=\"%s\" nodeset=\"%#x\" "
            "complete_nodeset=\"%#x\" gp_index=\"%d\">\n",
            which, set, set, 1 << which, 1 << which, 10 + which);
    fprintf(file,
            "<object type=\"NUMANode\" os_index=\"%d\" cpuset=\"%s\" complete_cpuset=\"%s\" nodeset=\"%#x\" "
            "complete_nodeset=\"%#x\" gp_index=\"%d\" local_memory=\"1073741824\"/>\n",
            which, set, set, 1 << which, 1 << which, 20 + which);
    for (int core = 0; core < CPU_SETSIZE; core++) {
        cpu_set_t one;
        char text[512];

        if (!CPU_ISSET(core, &cores)) {
            continue;
        }
        CPU_ZERO(&one);
        CPU_SET(core, &one);
        bitmap(&one, text, sizeof text);
        fprintf(file,
                "<object type=\"PU\" os_index=\"%d\" cpuset=\"%s\" complete_cpuset=\"%s\" nodeset=\"%#x\" "
                "complete_nodeset=\"%#x\" gp_index=\"%d\"/>\n",
                core, text, text, 1 << which, 1 << which, 1000 + core);
    }
    fprintf(file,
            "<object type=\"Bridge\" gp_index=\"%d\" bridge_type=\"0-1\" depth=\"0\" bridge_pci=\"0000:[%02x-%02x]\">\n"
            "<object type=\"PCIDev\" gp_index=\"%d\" pci_busid=\"0000:%02x:00.0\" "
            "pci_type=\"0302 [10de:20b0] [10de:1450] a1\" pci_link_speed=\"0.0\"/>\n</object>\n</object>\n",
            30 + which, 0x10 + which, 0x10 + which, 40 + which, 0x10 + which);
}

static void describe_host(void)
{
    char set[512];

    snprintf(path, sizeof path, "/tmp/lockstep-hwloc-%ld.xml", (long)getpid());
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    bitmap(&before, set, sizeof set);
    fprintf(file,
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<!DOCTYPE topology SYSTEM \"hwloc2.dtd\">\n"
            "<topology version=\"2.0\">\n<object type=\"Machine\" os_index=\"0\" cpuset=\"%s\" complete_cpuset=\"%s\" "
            "allowed_cpuset=\"%s\" nodeset=\"0x3\" complete_nodeset=\"0x3\" allowed_nodeset=\"0x3\" gp_index=\"1\">\n",
            set, set, set);
    write_node(file, 0);
    write_node(file, 1);
    fprintf(file, "</object>\n</topology>\n");
    assert_int_equal(fclose(file), 0);
    assert_int_equal(setenv("HWLOC_XMLFILE", path, 1), 0);
}

static cpu_set_t bind_to(int bus, bool *said)
{
    lsi_gpu gpu = {.pci_domain = 0, .pci_bus = bus, .pci_device = 0};
    lsi_text note = {0};
    cpu_set_t after;

    CHECK_OK(lsi_near_cores_bind(job, &gpu, &note));
    *said = note.length > 0;
    lsi_text_free(&note);
    assert_int_equal(sched_getaffinity(0, sizeof after, &after), 0);
    return after;
}

static void restore(const cpu_set_t *to)
{
    assert_int_equal(sched_setaffinity(0, sizeof *to, to), 0);
}

static bool within(const cpu_set_t *part, const cpu_set_t *whole)
{
    cpu_set_t both;

    CPU_AND(&both, part, whole);
    return CPU_EQUAL(&both, part);
}

/* Ranks go to the GPUs in turn; those of one GPU share its cores out, or have all of them where they do not do. */
static void cores_near_a_gpu_are_shared_out(void **state)
{
    int which = job->rank % 2, sharing = 0, total;
    cpu_set_t near = half(which), *all = calloc((size_t)job->world, sizeof *all);
    bool said;

    (void)state;
    if (CPU_COUNT(&before) < 2) {
        print_message("one core: nothing to choose\n");
        free(all);
        return;
    }
    total = CPU_COUNT(&near);
    cpu_set_t mine = bind_to(0x10 + which, &said);
    assert_false(said);
    assert_true(CPU_COUNT(&mine) > 0 && within(&mine, &near));
    CHECK_OK(lsi_job_all_gather(job, &mine, sizeof mine, all));
    for (int r = which; r < job->world; r += 2) {
        sharing++;
    }
    for (int r = which; r < job->world; r += 2) {
        cpu_set_t both;

        CPU_AND(&both, &all[r], &mine);
        if (r != job->rank && total >= sharing) {
            assert_int_equal(CPU_COUNT(&both), 0);
        }
    }
    assert_true(CPU_COUNT(&mine) == (total >= sharing ? total / sharing : total) ||
                CPU_COUNT(&mine) == total / sharing + 1);
    free(all);
    restore(&before);
}

static void an_unknown_gpu_changes_nothing(void **state)
{
    bool said;

    (void)state;
    cpu_set_t mine = bind_to(0x77, &said);
    assert_true(said);
    assert_true(CPU_EQUAL(&mine, &before));
}

/* Bound by mpirun to the other side: a mask never grows. */
static void a_mask_never_grows(void **state)
{
    cpu_set_t far = half(1);
    bool said;

    (void)state;
    restore(&far);
    cpu_set_t mine = bind_to(0x10, &said);
    if (CPU_COUNT(&before) >= 2) {
        assert_true(said);
        assert_true(CPU_EQUAL(&mine, &far));
    }
    mine = bind_to(0x11, &said);
    assert_true(within(&mine, &far));
    restore(&before);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cores_near_a_gpu_are_shared_out),
        cmocka_unit_test(an_unknown_gpu_changes_nothing),
        cmocka_unit_test(a_mask_never_grows),
    };

    if (lsi_job_open("test_near_cores", &argc, &argv, &job) != LS_OK ||
        sched_getaffinity(0, sizeof before, &before) != 0) {
        return 1;
    }
    describe_host();
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    unlink(path);
    lsi_job_close(&job);
    return failed;
}
